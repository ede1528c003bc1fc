package reward

import "net/http"

// Paths of Kubernetes probes.
const (
	livePath  = "/livez"
	readyPath = "/readyz"
)

// live fails if a scorer has no replica left and none could be reopened: only a restart may help.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	for _, v := range s.engine.scorers.all() {
		if v.lost() {
			return s.writeProbe(w, http.StatusServiceUnavailable, "lost")
		}
	}
	return s.writeProbe(w, http.StatusOK, "ok")
}

// ready fails while the server drains, or while a scorer has no working replica.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) error {
	if s.front.draining.Load() {
		return s.writeProbe(w, http.StatusServiceUnavailable, "draining")
	}
	if s.engine.gate.Asleep() { // requests wait, and /v1/wake must get through
		return s.writeProbe(w, http.StatusOK, "asleep")
	}
	for _, v := range s.engine.scorers.all() {
		if n, _ := v.up(); n == 0 {
			return s.writeProbe(w, http.StatusServiceUnavailable, "down")
		}
	}
	return s.writeProbe(w, http.StatusOK, "ok")
}

// writeProbe sends the status as one word, and which replicas are up.
func (s *Server) writeProbe(w http.ResponseWriter, status int, word string) error {
	replicas := map[string][]bool{}
	for _, v := range s.engine.scorers.all() {
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
