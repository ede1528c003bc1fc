package conn

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// KeepAlive sends 100 Continue at an interval to clients that use Python's http.client (requests, urllib3, urllib):
// they give up when nothing arrives within their timeout, but accept any number of these (RFC 9110, section 15.2).
// Other clients get none, because some mistake the first one for the response. The handler writes its response to the
// returned writer; stop ends the messages.
func KeepAlive(w http.ResponseWriter, r *http.Request, interval time.Duration) (
	answer http.ResponseWriter, stop func(),
) {
	agent := strings.ToLower(r.UserAgent())
	python := strings.HasPrefix(agent, "python-requests") || strings.HasPrefix(agent, "python-urllib")
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || !python {
		return w, func() {}
	}
	p := &keepAliveWriter{ResponseWriter: w, interval: interval}
	p.timer = time.AfterFunc(interval, p.send)
	return p, func() { p.Header() }
}

// keepAliveWriter sends 100 Continue until the response starts.
type keepAliveWriter struct {
	http.ResponseWriter
	interval time.Duration

	mu       sync.Mutex
	timer    *time.Timer
	answered bool
}

func (p *keepAliveWriter) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.ResponseWriter.WriteHeader(http.StatusContinue)
		p.timer.Reset(p.interval)
	}
}

// Header is the first call of every response, so it ends the messages.
func (p *keepAliveWriter) Header() http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = true
	p.timer.Stop()
	return p.ResponseWriter.Header()
}

// Unwrap is for http.ResponseController.
func (p *keepAliveWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
