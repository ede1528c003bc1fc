package reward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/reward/gate"
)

// apiError is an error with its HTTP status and a machine-readable kind.
type apiError struct {
	Status     int           `json:"-"`
	Kind       string        `json:"kind"`
	Message    string        `json:"message"`
	RetryAfter time.Duration `json:"-"` // when to retry; 0: never
}

func (f *apiError) Error() string { return f.Message }

func apiErrorf(status int, kind, format string, args ...any) *apiError {
	return &apiError{Status: status, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// badRequest returns the error of an invalid request.
func badRequest(format string, args ...any) *apiError {
	return apiErrorf(http.StatusUnprocessableEntity, "bad_request", format, args...)
}

// badPicture returns the error of a picture that cannot be read.
func badPicture(format string, args ...any) *apiError {
	return apiErrorf(http.StatusUnprocessableEntity, "bad_picture", format, args...)
}

// tooMany returns the error of a request that exceeds a limit on its size.
func tooMany(format string, args ...any) *apiError {
	return apiErrorf(http.StatusRequestEntityTooLarge, "too_many", format, args...)
}

// toAPIError maps any error to a status and a kind.
func toAPIError(err error) *apiError {
	var f *apiError
	var busy *busyError
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &busy):
		return &apiError{http.StatusTooManyRequests, "busy", busy.reason + ": try again later", busy.retryAfter}
	case errors.As(err, &body):
		return apiErrorf(http.StatusRequestEntityTooLarge, "too_large", "the request is larger than %d bytes", body.Limit)
	case errors.Is(err, data.ErrLimit):
		return apiErrorf(http.StatusRequestEntityTooLarge, "too_large", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{http.StatusServiceUnavailable, "timeout", "the request took too long", time.Second}
	case errors.Is(err, context.Canceled):
		return apiErrorf(499, "canceled", "the client disconnected")
	case errors.Is(err, gate.ErrAsleep):
		return &apiError{http.StatusServiceUnavailable, "asleep", err.Error(), 10 * time.Second}
	case edit.Unfit(err):
		return apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "%v", err)
	case edit.Unreadable(err):
		return apiErrorf(http.StatusBadGateway, "unreadable", "%v", err)
	case errors.Is(err, chat.ErrUnavailable):
		return &apiError{http.StatusServiceUnavailable, "unavailable", err.Error(), time.Minute}
	case edit.Temporary(err): // a VLM judge's model server is down or busy
		return &apiError{http.StatusServiceUnavailable, "unavailable", err.Error(), time.Second}
	}
	return apiErrorf(http.StatusInternalServerError, "internal", "%v", err)
}

// away returns the error of a judge that could score none of its items and does not answer at the moment; nil if there
// is none. Asking again may help, as if that judge had been asked alone.
func away(items []*item) *apiError {
	scored := map[*Replicated]bool{}
	for _, it := range items {
		scored[it.scorer] = scored[it.scorer] || it.err == nil
	}
	for _, it := range items {
		if it.err == nil || scored[it.scorer] {
			continue
		}
		if e := toAPIError(it.err); e.Status == http.StatusServiceUnavailable {
			return e
		}
	}
	return nil
}

// prefixError prefixes the message of an error.
func prefixError(what string, err error) error {
	f := *toAPIError(err)
	f.Message = what + ": " + f.Message
	return &f
}

// retryAfter formats the Retry-After header: whole seconds, rounded up.
func retryAfter(d time.Duration) string {
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

// encodeJSON returns a line of JSON, without escaping <, > and &.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	return write(w, status, "application/json", body)
}

// write sends a response with a body. Failing to send it is not an error: the client is gone.
func write(w http.ResponseWriter, status int, kind string, body []byte) error {
	http.NewResponseController(w).SetWriteDeadline(deadline(int64(len(body))))
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
	return nil
}
