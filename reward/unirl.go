package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// The wire of UniRL's reward service: an edit is a history of two turns, (instruction, source) and (instruction, edited
// picture).
type turn struct {
	Text      string          `json:"text"`
	Image     *blob           `json:"image_b64"`
	Video     json.RawMessage `json:"video_b64"`
	VideoPath json.RawMessage `json:"video_path"`
}

type unirlRequest struct {
	History  []turn          `json:"history"`
	Required []string        `json:"required_rewards"`
	Metadata json.RawMessage `json:"metadata"`
}

// edit takes the pair out of a request.
func (q *unirlRequest) edit() (source, edit *blob, instruction string, err error) {
	bad := func(format string, args ...any) error {
		return problem(http.StatusUnprocessableEntity, "bad_request", format, args...)
	}
	given := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	if len(q.History) != 2 {
		return nil, nil, "", bad("an edit is a history of two turns, (instruction, source) and (instruction, edited picture), not of %d", len(q.History))
	}
	for i, t := range q.History {
		if given(t.Video) || given(t.VideoPath) {
			return nil, nil, "", bad("turn %d: videos are not scored", i)
		}
		if t.Image == nil {
			return nil, nil, "", bad("turn %d: image_b64 is missing", i)
		}
		if instruction == "" {
			instruction = t.Text
		}
	}
	return q.History[0].Image, q.History[1].Image, instruction, checkInstruction(instruction)
}

// postUniRL answers POST /score. A reward that fails for a request is left out of its results and named in its errors.
func (s *Server) postUniRL(w http.ResponseWriter, r *http.Request) error {
	if err := s.early(scoring); err != nil {
		return err
	}
	raw, release, err := s.body(w, r)
	if err != nil {
		return err
	}
	defer release()
	var body struct {
		Requests []unirlRequest `json:"requests"`
	}
	if err := parse(r, raw, &body, nil); err != nil {
		return err
	}
	results := make([]map[string]map[string]float64, len(body.Requests))
	errs := make([]map[string]string, len(body.Requests))
	var work []*unirlItem
	for i, q := range body.Requests {
		results[i], errs[i] = map[string]map[string]float64{}, map[string]string{}
		source, edit, instruction, err := q.edit()
		for _, name := range q.Required {
			v, e := s.scorer(name)
			if name == "" {
				e = fmt.Errorf("a reward without a name")
			}
			if err != nil {
				e = err
			}
			if e != nil {
				errs[i][name] = e.Error()
				continue
			}
			work = append(work, &unirlItem{item{edit: edit}, i, v, source, instruction})
		}
	}
	if len(work) > 0 {
		if err := s.countItems("requested rewards", len(work)); err != nil {
			return err
		}
		if err := s.scoreUniRL(r.Context(), work); err != nil {
			return err
		}
	}
	for _, u := range work {
		if u.err != nil {
			f := explain(u.err)
			s.metrics.errors.WithLabelValues(f.Kind).Inc()
			errs[u.request][u.scorer.name] = f.Message
			continue
		}
		cfg := u.scorer.Config()
		results[u.request][u.scorer.name] = map[string]float64{"score": cfg.Range(u.score01)}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"results": results, "errors": errs})
}

// unirlItem is one reward of one request.
type unirlItem struct {
	item
	request     int
	scorer      *served
	source      *blob
	instruction string
}

// scoreUniRL admits all items at once and scores those that share scorer, source and instruction together.
func (s *Server) scoreUniRL(ctx context.Context, work []*unirlItem) error {
	type group struct{ scorer, source, instruction string }
	groups := map[group][]*unirlItem{}
	wanted := demand{}
	for _, u := range work {
		if _, _, u.err = s.size(u.source); u.err != nil {
			continue
		}
		k := group{u.scorer.name, string(u.source.raw), u.instruction}
		groups[k] = append(groups[k], u)
		wanted[u.scorer.paces[scoring]]++
	}
	if len(wanted) == 0 {
		return nil
	}
	t, err := s.admit(wanted)
	if err != nil {
		return err
	}
	defer t.release()
	var all sync.WaitGroup
	places := make(chan struct{}, s.o.Batch) // groups prepared at a time
	for _, g := range groups {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			items := make([]*item, len(g))
			for i, u := range g {
				items[i] = &u.item
			}
			s.scorePairs(ctx, t, g[0].scorer, g[0].source, g[0].instruction, items)
		})
	}
	all.Wait()
	return nil
}

// getRewards lists the scorers' names.
func (s *Server) getRewards(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]any{"rewards": s.names})
}

// getHealth says that the server is ready, until it is told to stop.
func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) error {
	ready := map[string][]bool{}
	for _, name := range s.names {
		ready[name] = []bool{!s.draining.Load()}
	}
	if s.draining.Load() {
		return writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "draining", "rewards": ready})
	}
	return writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "rewards": ready})
}
