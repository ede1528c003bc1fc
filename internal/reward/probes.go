package reward

import (
	"net/http"
	"sync/atomic"
)

// Paths of Kubernetes probes.
const (
	livePath  = "/livez"
	readyPath = "/readyz"
)

// probeWire answers Kubernetes probes.
type probeWire struct {
	scorers  *scorerSet
	draining *atomic.Bool
}

func (s *probeWire) routes() []route {
	return []route{{"GET", livePath, s.live}, {"GET", readyPath, s.ready}}
}

// live fails if a scorer has no replica left and none could be reopened: only a restart may help.
func (s *probeWire) live(w http.ResponseWriter, _ *http.Request) error {
	for _, v := range s.scorers.all() {
		if v.lost() {
			return s.write(w, http.StatusServiceUnavailable, "lost")
		}
	}
	return s.write(w, http.StatusOK, "ok")
}

// ready fails while the server drains, or while a scorer has no replica that works.
func (s *probeWire) ready(w http.ResponseWriter, _ *http.Request) error {
	if s.draining.Load() {
		return s.write(w, http.StatusServiceUnavailable, "draining")
	}
	for _, v := range s.scorers.all() {
		if n, _ := v.up(); n == 0 {
			return s.write(w, http.StatusServiceUnavailable, "down")
		}
	}
	return s.write(w, http.StatusOK, "ok")
}

// write sends the status in a word, and which replicas are up.
func (s *probeWire) write(w http.ResponseWriter, status int, word string) error {
	replicas := map[string][]bool{}
	for _, v := range s.scorers.all() {
		_, replicas[v.name] = v.up()
	}
	if err := writeJSON(w, status, map[string]any{"status": word, "replicas": replicas}); err != nil {
		return err
	}
	if status != http.StatusOK {
		return answeredError(status)
	}
	return nil
}
