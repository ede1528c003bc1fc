package reward

import "net/http"

// Paths that Kubernetes asks.
const (
	livePath  = "/livez"
	readyPath = "/readyz"
)

// getLive says whether the process is worth keeping: not if a scorer has no copy left, and none could be opened again.
func (s *Server) getLive(w http.ResponseWriter, _ *http.Request) error {
	for _, name := range s.names {
		if s.scorers[name].lost() {
			return s.writeProbe(w, http.StatusServiceUnavailable, "lost")
		}
	}
	return s.writeProbe(w, http.StatusOK, "ok")
}

// getReady says whether new requests are to come here: not while the server ends, or a scorer has no copy that works.
func (s *Server) getReady(w http.ResponseWriter, _ *http.Request) error {
	if s.draining.Load() {
		return s.writeProbe(w, http.StatusServiceUnavailable, "draining")
	}
	for _, name := range s.names {
		if n, _ := s.scorers[name].up(); n == 0 {
			return s.writeProbe(w, http.StatusServiceUnavailable, "down")
		}
	}
	return s.writeProbe(w, http.StatusOK, "ok")
}

// writeProbe says in a word how the server is, and which copies work.
func (s *Server) writeProbe(w http.ResponseWriter, status int, word string) error {
	replicas := map[string][]bool{}
	for _, name := range s.names {
		_, replicas[name] = s.scorers[name].up()
	}
	if err := writeJSON(w, status, map[string]any{"status": word, "replicas": replicas}); err != nil {
		return err
	}
	if status != http.StatusOK {
		return answeredError(status)
	}
	return nil
}
