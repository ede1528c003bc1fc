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
)

// apiError is an error with its HTTP status, and a word for programs.
type apiError struct {
	Status     int           `json:"-"`
	Kind       string        `json:"kind"`
	Message    string        `json:"message"`
	RetryAfter time.Duration `json:"-"` // when to ask again; 0: never
}

func (f *apiError) Error() string { return f.Message }

func apiErrorf(status int, kind, format string, args ...any) *apiError {
	return &apiError{Status: status, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// toAPIError gives any error a status and a kind.
func toAPIError(err error) *apiError {
	var f *apiError
	var busy *busyError
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &busy):
		return &apiError{http.StatusTooManyRequests, "busy", busy.reason + ": ask again later", busy.retryAfter}
	case errors.As(err, &body):
		return apiErrorf(http.StatusRequestEntityTooLarge, "too_large",
			"the request is larger than %d bytes", body.Limit)
	case errors.Is(err, data.ErrLimit):
		return apiErrorf(http.StatusRequestEntityTooLarge, "too_large", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{http.StatusServiceUnavailable, "timeout", "the request took too long", time.Second}
	case errors.Is(err, context.Canceled):
		return apiErrorf(499, "canceled", "the caller went away")
	case edit.Unreadable(err):
		return apiErrorf(http.StatusBadGateway, "unreadable", "%v", err)
	case errors.Is(err, chat.ErrUnavailable):
		return &apiError{http.StatusServiceUnavailable, "unavailable", err.Error(), time.Minute}
	}
	return apiErrorf(http.StatusInternalServerError, "internal", "%v", err)
}

// retryAfter is a time as the header has it: whole seconds.
func retryAfter(d time.Duration) string {
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return write(w, status, "application/json", b.Bytes())
}

func writeBytes(w http.ResponseWriter, kind string, body []byte) error {
	return write(w, http.StatusOK, kind, body)
}

func write(w http.ResponseWriter, status int, kind string, body []byte) error {
	http.NewResponseController(w).SetWriteDeadline(deadline(int64(len(body))))
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // an error is the caller's, who is gone
	return nil
}
