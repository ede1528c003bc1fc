package reward

import (
	"net/http"
)

// result is one edit's answer: a score or an error.
type result struct {
	Score   *float64 `json:"score,omitempty"`
	Score01 *float64 `json:"score01,omitempty"`
	Error   *apiError `json:"error,omitempty"`
}

// postScore answers POST /v1/score. If not one edit could be scored the status is that of the first one's error.
func (s *Server) postScore(w http.ResponseWriter, r *http.Request) error {
	if err := s.probeQueue(scoring); err != nil {
		return err
	}
	var p scoreRequest
	held, err := s.readBody(w, r, &p, p.field)
	if err != nil {
		return err
	}
	defer held.release()
	if err := s.countItems("edits", len(p.Edits)); err != nil {
		return err
	}
	v, err := s.scorer(p.Scorer)
	if err != nil {
		return err
	}
	if _, err := s.check(p.Source, p.Instruction); err != nil {
		return err
	}
	items := make([]*item, len(p.Edits))
	for i := range items {
		items[i] = &item{source: p.Source, edit: &p.Edits[i], instruction: p.Instruction}
	}
	groups := s.groupItems(items, func(*item) *served { return v })
	if len(groups) > 0 {
		t, err := s.admit(r.Context(), groups, scoring)
		if err != nil {
			return err
		}
		defer t.release()
		s.score(r.Context(), t, groups[0])
	}
	if err := r.Context().Err(); err != nil {
		return err
	}
	cfg := v.Config()
	results := make([]result, len(items))
	status, scored := 0, 0
	for i, it := range items {
		if it.err != nil {
			f := toAPIError(it.err)
			s.metrics.errors.WithLabelValues(f.Kind).Inc()
			results[i].Error = f
			if status == 0 {
				status = f.Status
			}
			continue
		}
		scored++
		score := cfg.Range(it.score01)
		results[i] = result{Score: &score, Score01: &it.score01}
	}
	if scored > 0 {
		status = http.StatusOK
	}
	return writeJSON(w, status, map[string]any{"scorer": v.name, "score_range": cfg.ScoreRange, "results": results})
}

// early refuses a request before its body is read, if even one item would be refused.
func (s *Server) probeQueue(k jobKind) error { return s.queue.probe(s.scorers[s.names[0]].estimators[k]) }
