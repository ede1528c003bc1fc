package reward

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"assay/data"
	"assay/model"
)

// item is one pair on its way to a score.
type item struct {
	edit    *blob
	sample  *model.Sample
	score01 float64
	err     error
}

func samplesOf(s ...*model.Sample) []*model.Sample { return s }

func (v *served) pair(source, edit *data.Picture, instruction string) model.Pair {
	return model.Pair{Source: source, Edit: edit, Instruction: instruction}
}

// admit takes a request in.
func (s *Server) admit(d demand) (*ticket, error) {
	if s.draining.Load() {
		return nil, &failure{http.StatusServiceUnavailable, "draining", "the server is shutting down", 1e9}
	}
	return s.queue.admit(d)
}

// early refuses a request before its body is read, if even one item would be refused.
func (s *Server) early(k kind) error {
	if s.draining.Load() {
		return &failure{http.StatusServiceUnavailable, "draining", "the server is shutting down", 1e9}
	}
	return s.queue.full(s.scorers[s.names[0]].paces[k])
}

// scorePairs scores edits of one source. A batch of pictures at a time is decoded, prepared and scored, so that memory does
// not grow with the number of edits.
func (s *Server) scorePairs(ctx context.Context, t *ticket, v *served, source *blob, instruction string, items []*item) {
	var todo []*item
	for _, it := range items {
		if _, _, it.err = s.size(it.edit); it.err == nil {
			todo = append(todo, it)
		}
	}
	fail := func(err error) {
		for _, it := range todo {
			if it.err == nil {
				it.err = err
			}
		}
	}
	var before *data.Picture
	if len(todo) > 0 {
		err := s.decoded(ctx, func() (err error) {
			before, err = s.decode(source)
			return err
		})
		if err != nil {
			f := *explain(err)
			f.Message = "source: " + f.Message
			fail(&f)
			todo = nil
		}
	}
	for len(todo) > 0 {
		part := todo[:min(s.o.Batch, len(todo))]
		s.prepare(ctx, v, before, instruction, part)
		var samples []*model.Sample
		var of []*item
		for _, it := range part {
			if it.err == nil {
				samples, of = append(samples, it.sample), append(of, it)
			}
		}
		if len(samples) > 0 {
			j := &job{scorer: v, samples: samples}
			if err := t.run(ctx, j); err != nil {
				fail(err)
				return
			}
			for i, it := range of {
				it.sample, it.score01, it.err = nil, j.scores[i], j.errs[i]
				if it.err == nil {
					s.metrics.scores.WithLabelValues(v.name).Observe(it.score01)
				}
			}
		}
		todo = todo[len(part):]
	}
}

// decoded runs f at one of the places for decoding. A panic of somebody's decoder is an error of this picture.
func (s *Server) decoded(ctx context.Context, f func() error) (err error) {
	select {
	case s.decoding <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() {
		<-s.decoding
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error, please report it: %v", p)
		}
	}()
	return f()
}

// prepare turns pictures into samples, several at a time. Each decoded picture is dropped at once.
func (s *Server) prepare(ctx context.Context, v *served, source *data.Picture, instruction string, items []*item) {
	var all sync.WaitGroup
	next := make(chan *item)
	for range min(cap(s.decoding), len(items)) {
		all.Go(func() {
			for it := range next {
				it.err = s.decoded(ctx, func() error {
					edit, err := s.decode(it.edit)
					if err != nil {
						return err
					}
					if it.sample, err = v.Prepare(v.pair(source, edit, instruction)); err != nil {
						return problem(http.StatusUnprocessableEntity, "bad_pair", "%v", err)
					}
					return nil
				})
			}
		})
	}
	for _, it := range items {
		next <- it
	}
	close(next)
	all.Wait()
}

// result is one edit's answer: a score or an error.
type result struct {
	Score   *float64 `json:"score,omitempty"`
	Score01 *float64 `json:"score01,omitempty"`
	Error   *failure `json:"error,omitempty"`
}

// postScore answers POST /v1/score. If not one edit could be scored the status is that of the first one's error.
func (s *Server) postScore(w http.ResponseWriter, r *http.Request) error {
	if err := s.early(scoring); err != nil {
		return err
	}
	raw, release, err := s.body(w, r)
	if err != nil {
		return err
	}
	defer release()
	var p pairs
	if err := parse(r, raw, &p, p.field); err != nil {
		return err
	}
	if p.Edit != nil || p.Format != "" {
		return problem(http.StatusUnprocessableEntity, "bad_request", "edit and format belong to /v1/gradient; here edits is a list of pictures")
	}
	if err := s.countItems("edits", len(p.Edits)); err != nil {
		return err
	}
	v, err := s.check(&p)
	if err != nil {
		return err
	}
	t, err := s.admit(demand{v.paces[scoring]: len(p.Edits)})
	if err != nil {
		return err
	}
	defer t.release()
	items := make([]*item, len(p.Edits))
	for i := range items {
		items[i] = &item{edit: &p.Edits[i]}
	}
	s.scorePairs(r.Context(), t, v, p.Source, p.Instruction, items)
	if err := r.Context().Err(); err != nil {
		return err
	}
	cfg := v.Config()
	results := make([]result, len(items))
	status, scored := 0, 0
	for i, it := range items {
		if it.err != nil {
			f := explain(it.err)
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
