package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"assay/internal/stats"
)

// measure compares scores with labels, both 0..1.
func measure(scores, labels []float64) *ValidationMetrics {
	classes := []float64{0, 0.5, 1}
	distance := 0.0
	got, want := make([]int, len(scores)), make([]int, len(scores))
	for i, s := range scores {
		distance += math.Abs(s - labels[i])
		got[i], want[i] = nearest(classes, s), nearest(classes, labels[i])
	}
	return &ValidationMetrics{Kind: "validation", L1: number(distance / float64(len(scores))),
		Spearman: number(stats.Spearman(labels, scores)), Accuracy: number(stats.Accuracy(want, got)), Rows: len(scores)}
}

// nearest is the index of the value nearest to x, the lowest on a tie.
func nearest(values []float64, x float64) int {
	best := 0
	for i, v := range values {
		if math.Abs(v-x) < math.Abs(values[best]-x) {
			best = i
		}
	}
	return best
}

// validationDue tells whether the validation rows are to be scored at the present step.
func (r *run) validationDue() bool {
	s := &r.state
	if r.valid.Len() == 0 || s.Step == 0 || s.Step == s.Validated {
		return false
	}
	if s.Step == r.total {
		return true
	}
	if every := r.config.Validate.Every; every > 0 {
		return s.Step%every == 0
	}
	before := max(0, s.Samples-int64(r.config.BatchSize))
	if r.groups != nil {
		before = s.Before
	}
	return s.Samples/r.order.Len() > before/r.order.Len()
}

// scoreRows scores the validation rows lo to hi-1 but for those that are set aside.
func (r *run) scoreRows(ctx context.Context, lo, hi int) (scores []float64, batch []Example, err error) {
	for {
		batch = nil
		for i := lo; i < hi && err == nil; i++ {
			if !usable(r.valid, i) {
				continue
			}
			var e Example
			e, err = r.valid.Example(i)
			e.Index, e.Question, e.Answer = i, r.config.Question[0], r.config.Answer[0]
			batch = append(batch, e)
		}
		if len(batch) == 0 {
			return nil, nil, nil
		}
		if err == nil {
			if scores, err = r.model.Score(ctx, batch); err == nil {
				return scores, batch, nil
			}
			err = fmt.Errorf("scoring validation rows %s: %w", ids(batch), err)
		}
		if err = r.setAside(batch, true, err); err != nil {
			return nil, nil, err
		}
	}
}

// validate scores the validation rows, with the first templates and without augmentation, and notes the result. It
// stops when ctx does, and then nothing is noted.
func (r *run) validate(ctx context.Context) error {
	var err error
	n := r.valid.Len()
	if l := r.config.Validate.Limit; l > 0 {
		n = min(n, l)
	}
	var scores []float64
	var examples []Example
	for lo := 0; lo < n; lo += r.state.MicroBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, e, err := r.scoreRows(context.WithoutCancel(ctx), lo, min(lo+r.state.MicroBatch, n))
		if err != nil {
			return err
		}
		scores = append(scores, s...)
		for i := range e { // without the pictures of rows that have them inside
			examples = append(examples, Example{Index: e[i].Index, Label: e[i].Label, Said: e[i].Said})
		}
	}
	if len(scores) == 0 {
		return errors.New("every validation row was set aside")
	}
	m := r.measureAll(scores, examples)
	m.Step, m.Seconds = r.state.Step, r.seconds()
	if m.Best, err = r.better(m); err != nil {
		return err
	}
	if m.Best {
		last, best := r.state.Last, r.state.Best
		r.state.Last, r.state.Best = m, m // as the card says
		if err := replaceDir(filepath.Join(r.config.Out, BestDir), r.writeScorer); err != nil {
			r.state.Last, r.state.Best = last, best
			return err
		}
		r.state.Worse = 0
	} else {
		r.state.Worse++
	}
	r.measurePlateaus(m)
	if err := r.record.validation(m); err != nil {
		return err
	}
	r.state.Last, r.state.Validated = m, m.Step
	return nil
}
