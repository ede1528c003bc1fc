package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Listen listens on a loopback address only, because pages require no token. Errors say what to do.
func Listen(addr string) (net.Listener, error) {
	if !local(addr) {
		return nil, fmt.Errorf("%s can be reached from other machines, and the page requires no token: use 127.0.0.1, and "+
			"forward the port (ssh -L 8100:127.0.0.1:8100 HOST) to see it elsewhere", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w: use another address with --addr HOST:PORT", err)
	}
	return l, nil
}

// Serve serves pages until ctx ends. It answers only requests whose host is this machine, so that pages of other
// sites cannot read them (DNS rebinding).
func Serve(ctx context.Context, l net.Listener, pages http.Handler) error {
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if !local(r.Host) {
				http.Error(w, "this page is served to this machine only", http.StatusForbidden)
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
