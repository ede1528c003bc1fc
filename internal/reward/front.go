package reward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"assay/internal/reward/conn"
)

// keepAliveInterval is the time between two 100 Continue responses. The shortest client timeout of a trainer is a
// minute.
var keepAliveInterval = 15 * time.Second

// front handles what all protocols share: authentication, time limits, metrics and error responses.
type front struct {
	timeout  time.Duration
	clients  *clients
	bodies   *bodies
	metrics  *metrics
	draining atomic.Bool // the server is shutting down
}

// guard requires a token, except for the page, which contains no data and asks for the token, and for the probes. Its
// headers keep browsers from sniffing types and from caching.
func (f *front) guard(next http.Handler) http.Handler {
	stop := func(e *apiError) http.Handler {
		return f.handle("other", func(http.ResponseWriter, *http.Request) error { return e })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if f.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		if r.URL.Path == livePath || r.URL.Path == readyPath { // probes have no token, and their answers reveal little
			next.ServeHTTP(w, r)
			return
		}
		if len(f.clients.all) == 0 && !localName(r.Host) { // DNS rebinding: another site's name for this machine
			stop(apiErrorf(http.StatusForbidden, "forbidden",
				"without a token only localhost and loopback addresses are accepted, not %q", r.Host)).ServeHTTP(w, r)
			return
		}
		if len(f.clients.all) > 0 && r.URL.Path != "/" {
			c := f.clients.authenticate(r)
			if c == nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				stop(apiErrorf(http.StatusUnauthorized, "unauthorized", "a bearer token is required")).ServeHTTP(w, r)
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), clientKey{}, c))
		}
		next.ServeHTTP(w, r)
	})
}

// localName reports whether a Host header names the loopback interface.
func localName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host == "localhost" || Loopback(strings.Trim(host, "[]"))
}

// Loopback reports whether a host is a loopback address, or localhost.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// redirect redirects paths such as //health to the clean path, as http.ServeMux does, but with a JSON body.
func (f *front) redirect(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.URL.EscapedPath()
		clean := path.Clean("/" + given)
		if strings.HasSuffix(given, "/") && clean != "/" {
			clean += "/"
		}
		if clean == given || given == "*" || r.Method == http.MethodConnect {
			mux.ServeHTTP(w, r)
			return
		}
		to := clean // as received, with escapes
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		f.handle("other", func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Location", to)
			return apiErrorf(http.StatusTemporaryRedirect, "redirect", "use the path %s", to)
		}).ServeHTTP(w, r)
	})
}

// handle returns an http.Handler that counts requests, limits their time and writes errors.
func (f *front) handle(pattern string, h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		ctx, stop := context.WithTimeout(r.Context(), f.timeout)
		defer stop()
		w, stopKeepAlive := conn.KeepAlive(w, r, keepAliveInterval)
		defer stopKeepAlive()
		status := http.StatusOK
		defer func() {
			if p := recover(); p != nil { // a panic must not end the process or the connection
				e := f.metrics.countError(apiErrorf(http.StatusInternalServerError, "internal",
					"internal error, please report it: %v", p))
				status = e.Status
				f.writeError(w, r, e)
			}
			f.metrics.requests.WithLabelValues(pattern, strconv.Itoa(status)).Inc()
			if status < 400 {
				f.metrics.latency.WithLabelValues(pattern).Observe(time.Since(begin).Seconds())
			}
		}()
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody { // without one, a deadline would end the request: see bodyReader.Read
			http.NewResponseController(w).SetReadDeadline(deadline(0)) // for bodies that no handler reads
			r.Body = &endingBody{ReadCloser: r.Body}
		}
		err := h(w, r)
		var sent answeredError
		switch {
		case errors.As(err, &sent):
			status = int(sent)
		case err != nil:
			e := f.metrics.countError(err)
			status = e.Status
			f.writeError(w, r, e)
		}
	})
}

// answeredError is the status of an error response that the handler has already written and counted.
type answeredError int

func (e answeredError) Error() string { return fmt.Sprintf("answered with status %d", int(e)) }

// writeError writes an error response at once, and drains the rest of the body afterwards.
func (f *front) writeError(w http.ResponseWriter, r *http.Request, e *apiError) {
	if b, ok := r.Body.(*endingBody); ok && !b.ended {
		to := http.NewResponseController(w)
		to.EnableFullDuplex() // or net/http would wait for the body
		w.Header().Set("Connection", "close")
		defer func() {
			to.Flush()
			f.bodies.discard(w, r, e)
		}()
	}
	v := map[string]any{"kind": e.Kind, "message": e.Message}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", retryAfter(e.RetryAfter))
		v["retry_after_ms"] = max(1, e.RetryAfter.Milliseconds())
	}
	writeJSON(w, e.Status, map[string]any{"error": v})
}
