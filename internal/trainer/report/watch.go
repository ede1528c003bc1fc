package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// reload is the number of seconds after which a page that is watched is loaded again.
const reload = 5

// Serve serves the page of a run directory as it is now, until ctx ends. On a loopback address it answers requests to
// this machine's own names alone, so that no other site's page can read it.
func Serve(ctx context.Context, dir string, l net.Listener) error {
	at, _ := l.Addr().(*net.TCPAddr)
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if at != nil && at.IP.IsLoopback() && !local(r.Host) {
				http.Error(w, "this page is for this machine", http.StatusForbidden)
				return
			}
			run, err := Read(dir)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if !run.Finished {
				run.Refresh = reload
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			run.Page(w)
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

// Watch writes a line for each validation and, at most every few seconds, one for the newest step, until the run is
// finished or ctx ends.
func Watch(ctx context.Context, dir string, every time.Duration, w io.Writer) error {
	steps, validations := 0, 0
	for {
		r, err := Read(dir)
		if err != nil {
			return err
		}
		if n := len(r.Steps); n < steps { // the run resumed from an earlier step, or started over
			steps, validations = 0, 0
		} else if n > steps {
			steps = n
			m := r.Steps[n-1]
			fmt.Fprintf(w, "step %d, epoch %.4g: loss %s, learning rate %.3g, %.0f s\n", m.Step, m.Epoch, number(m.Loss), m.LR,
				m.Seconds)
		}
		for ; validations < len(r.Validations); validations++ {
			m := r.Validations[validations]
			measures := fmt.Sprintf("L1 %s, Spearman %s", number(m.L1), number(m.Spearman))
			if m.Loss != nil {
				measures = "loss " + number(*m.Loss)
			}
			if m.Best {
				measures += ", the best so far"
			}
			fmt.Fprintf(w, "validation at step %d: %s\n", m.Step, measures)
		}
		if r.Finished {
			fmt.Fprintln(w, "training is done")
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}
