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
	"assay/scoring"
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
	case scoring.Unreadable(err):
		return apiErrorf(http.StatusBadGateway, "unreadable", "%v", err)
	case errors.Is(err, chat.ErrUnavailable):
		return &apiError{http.StatusServiceUnavailable, "unavailable", err.Error(), time.Minute}
	}
	return apiErrorf(http.StatusInternalServerError, "internal", "%v", err)
}

// handle makes an http.Handler that counts requests, bounds their time and writes errors.
func (s *Server) handle(pattern string, h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		ctx, stop := context.WithTimeout(r.Context(), s.o.Timeout)
		defer stop()
		http.NewResponseController(w).SetReadDeadline(deadline(0)) // for bodies that no handler reads
		w, stopKeepAlive := keepAlive(w, r)
		defer stopKeepAlive()
		status := http.StatusOK
		defer func() {
			if p := recover(); p != nil { // a request must not end the process, nor its connection
				f := s.countError(apiErrorf(http.StatusInternalServerError, "internal",
					"internal error, please report it: %v", p))
				status = f.Status
				s.writeError(w, r, f)
			}
			s.metrics.requests.WithLabelValues(pattern, strconv.Itoa(status)).Inc()
			if status < 400 {
				s.metrics.latency.WithLabelValues(pattern).Observe(time.Since(begin).Seconds())
			}
		}()
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &endingBody{ReadCloser: r.Body}
		}
		err := h(w, r)
		var sent answeredError
		switch {
		case errors.As(err, &sent):
			status = int(sent)
		case err != nil:
			f := s.countError(err)
			status = f.Status
			s.writeError(w, r, f)
		}
	})
}

// answeredError is the status of a refusal that a handler has written, and counted, itself.
type answeredError int

func (e answeredError) Error() string { return fmt.Sprintf("answered with status %d", int(e)) }

// countError counts the error of an item, and returns it as it is sent.
func (s *Server) countError(err error) *apiError {
	f := toAPIError(err)
	s.metrics.errors.WithLabelValues(f.Kind).Inc()
	return f
}

// writeError says why a request is not served. What has not arrived of its body is not waited for, and read afterwards.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, f *apiError) {
	if b, ok := r.Body.(*endingBody); ok && !b.ended {
		to := http.NewResponseController(w)
		to.EnableFullDuplex() // or net/http would wait for the body
		w.Header().Set("Connection", "close")
		defer func() {
			to.Flush()
			s.discardBody(w, r, f)
		}()
	}
	v := map[string]any{"kind": f.Kind, "message": f.Message}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", retryAfter(f.RetryAfter))
		v["retry_after_ms"] = max(1, f.RetryAfter.Milliseconds())
	}
	writeJSON(w, f.Status, map[string]any{"error": v})
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
