package page

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// Serve serves pages until ctx ends. On a loopback address it answers requests to this machine's own names alone, so
// that no other site's page can read them.
func Serve(ctx context.Context, l net.Listener, pages http.Handler) error {
	at, _ := l.Addr().(*net.TCPAddr)
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if at != nil && at.IP.IsLoopback() && !local(r.Host) {
				http.Error(w, "this page is for this machine", http.StatusForbidden)
				return
			}
			w.Header().Set("X-Content-Type-Options", "nosniff")
			pages.ServeHTTP(w, r)
		})}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// local reports whether a request's host is this machine.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
