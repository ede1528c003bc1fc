package reward

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// stillHere is how often a caller who waits hears of it. The shortest time after which a trainer's client gives up is a minute.
var keepAliveInterval = 15 * time.Second

// patience lets a caller of Python's http.client (requests, urllib3, urllib) wait as long as it takes: it gives up when nothing
// has come for its timeout, and takes any number of 100 Continue for a sign of life (RFC 9110, section 15.2). Other callers get
// none: some take the first one for an answer. The answer goes to what is returned; quiet ends the signs.
func keepAlive(w http.ResponseWriter, r *http.Request) (answer http.ResponseWriter, quiet func()) {
	agent := strings.ToLower(r.UserAgent())
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || !strings.HasPrefix(agent, "python-requests") && !strings.HasPrefix(agent, "python-urllib") {
		return w, func() {}
	}
	p := &keepAliveWriter{ResponseWriter: w}
	p.timer = time.AfterFunc(keepAliveInterval, p.send)
	return p, func() { p.Header() }
}

// patient is an answer that is not there yet.
type keepAliveWriter struct {
	http.ResponseWriter
	mu    sync.Mutex
	timer *time.Timer
	answered bool
}

func (p *keepAliveWriter) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.ResponseWriter.WriteHeader(http.StatusContinue)
		p.timer.Reset(keepAliveInterval)
	}
}

// Header is where every answer begins.
func (p *keepAliveWriter) Header() http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = true
	p.timer.Stop()
	return p.ResponseWriter.Header()
}

// Unwrap is for http.ResponseController.
func (p *keepAliveWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
