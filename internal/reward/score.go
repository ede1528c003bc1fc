package reward

import (
	"net/http"
	"time"
)

// scoreRequest is a request to /v1/score or /v1/gradient, JSON with base64 pictures or a form with files: edits of one
// source and instruction, or pairs with their own.
type scoreRequest struct {
	Scorer      string               `json:"scorer"`
	Source      *encodedPicture      `json:"source"`
	Instruction string               `json:"instruction"`
	Edits       list[encodedPicture] `json:"edits"`
	Pairs       list[pairRequest]    `json:"pairs"`
}

// pairRequest is one pair of a scoreRequest.
type pairRequest struct {
	Source      *encodedPicture `json:"source"`
	Instruction string          `json:"instruction"`
	Edit        *encodedPicture `json:"edit"`
}

// items returns the request's pairs or, without any, its edits with their common source.
func (p *scoreRequest) items() (items []*item, err error) {
	if len(p.Pairs) == 0 {
		for i := range p.Edits {
			items = append(items, &item{source: p.Source, output: &p.Edits[i], instruction: p.Instruction})
		}
		return items, nil
	}
	if p.Source != nil || len(p.Edits) > 0 || p.Instruction != "" {
		return nil, badRequest("pairs have sources, instructions and " +
			"edits of their own: source, instruction, edit and edits do not go with them")
	}
	for i, one := range p.Pairs {
		if one.Edit == nil {
			return nil, badRequest("pairs/%d: edit is missing: one picture", i)
		}
		items = append(items, &item{source: one.Source, output: one.Edit, instruction: one.Instruction})
	}
	return items, nil
}

func (p *scoreRequest) field(name string, value []byte) (err error) {
	switch name {
	case "scorer":
		p.Scorer, err = formText(name, value)
	case "instruction":
		p.Instruction, err = formText(name, value)
	case "source":
		p.Source = &encodedPicture{raw: value}
	case "edits":
		p.Edits = append(p.Edits, encodedPicture{raw: value})
	default:
		err = badRequest("unknown field %q", name)
	}
	return err
}

// postScore answers POST /v1/score. If no edit could be scored, the status is that of the first error.
func (s *Server) postScore(w http.ResponseWriter, r *http.Request) error {
	var p scoreRequest
	held, err := s.read(w, r, scoreKind, &p, p.field)
	if err != nil {
		return err
	}
	defer held.release()
	if err := s.countItems("edits", max(len(p.Edits), len(p.Pairs))); err != nil {
		return err
	}
	v, err := s.engine.scorers.find(p.Scorer)
	if err != nil {
		return err
	}
	items, err := p.items()
	switch {
	case err != nil || len(p.Pairs) > 0:
	case p.Source != nil || v.info.Sources != 0:
		_, err = s.engine.decoder.check(p.Source, p.Instruction)
	default:
		err = checkInstruction(p.Instruction)
	}
	if err != nil {
		return err
	}
	for _, it := range items {
		if it.scorer = v; it.source == nil && v.info.Sources == 0 {
			it.source = it.output
		}
	}
	if err := s.engine.score(r.Context(), items); err != nil {
		return err
	}
	results, status, again := s.results(items)
	if again > 0 {
		w.Header().Set("Retry-After", retryAfter(again))
	}
	err = writeJSON(w, status, map[string]any{"scorer": v.name, "score_range": v.info.Range, "results": results})
	if err == nil && status != http.StatusOK {
		err = answeredError(status)
	}
	return err
}

// results are a score or an error for each item. If none was scored, status is that of the first error and again the
// time to wait before a retry.
func (s *Server) results(items []*item) (out []any, status int, again time.Duration) {
	out = make([]any, len(items))
	scored := false
	for i, it := range items {
		if it.err != nil {
			e := s.engine.metrics.countError(it.err)
			if out[i] = map[string]any{"error": e}; status == 0 {
				status, again = e.Status, e.RetryAfter
			}
			continue
		}
		out[i], scored = &it.score, true
	}
	if scored {
		return out, http.StatusOK, 0
	}
	return out, status, again
}

// limits sends the limits of one request, so that clients can split larger ones.
func (s *Server) limits(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]any{"max_body": s.o.MaxBody, "max_items": s.o.MaxItems,
		"max_pixels": s.engine.decoder.limits.MaxPixels, "max_gradients": maxAnswerBytes})
}
