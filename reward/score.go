package reward

import (
	"net/http"
	"time"

	"assay/model"
)

// result is one edit's answer: all that the scorer says, or an error.
type result struct {
	*model.Report
	Error *apiError `json:"error,omitempty"`
}

// postScore answers POST /v1/score: edits of one source, or pairs that have their own. If no edit could be scored, the
// status is that of the first edit's error.
func (s *Server) postScore(w http.ResponseWriter, r *http.Request) error {
	if err := s.probeQueue(scoreKind); err != nil {
		return err
	}
	var p scoreRequest
	held, err := s.readBody(w, r, &p, p.field)
	if err != nil {
		return err
	}
	defer held.release()
	if err := s.countItems("edits", max(len(p.Edits), len(p.Pairs))); err != nil {
		return err
	}
	v, err := s.scorer(p.Scorer)
	if err != nil {
		return err
	}
	cfg := v.Config()
	items, err := p.items()
	switch {
	case err != nil || len(p.Pairs) > 0:
	case p.Source != nil || cfg.NeedsSource():
		_, err = s.check(p.Source, p.Instruction)
	default:
		err = checkInstruction(p.Instruction)
	}
	if err != nil {
		return err
	}
	for _, it := range items {
		if it.scorer = v; it.source == nil && !cfg.NeedsSource() {
			it.source = it.edit
		}
	}
	if err := s.scoreItems(r.Context(), items); err != nil {
		return err
	}
	results, status, again := s.results(items, cfg)
	if again > 0 {
		w.Header().Set("Retry-After", retryAfter(again))
	}
	err = writeJSON(w, status, map[string]any{"scorer": v.name, "score_range": cfg.ScoreRange, "results": results})
	if err == nil && status != http.StatusOK {
		err = answeredError(status)
	}
	return err
}

// results are the answers to items. The status is that of the first error if no item could be scored, and again is then
// how long the caller should wait.
func (s *Server) results(items []*item, cfg model.ScorerConfig) (out []result, status int, again time.Duration) {
	out = make([]result, len(items))
	scored := false
	for i, it := range items {
		if it.err != nil {
			out[i].Error = s.countError(it.err)
			if status == 0 {
				status, again = out[i].Error.Status, out[i].Error.RetryAfter
			}
			continue
		}
		scored = true
		one := cfg.Report(it.scored)
		out[i].Report = &one
	}
	if scored {
		return out, http.StatusOK, 0
	}
	return out, status, again
}

// probeQueue refuses a request before its body is read, if even one item would be refused.
func (s *Server) probeQueue(kind jobKind) error {
	first, err := s.scorer("")
	if err != nil {
		return err
	}
	return s.queue.probe(first.estimators[kind])
}
