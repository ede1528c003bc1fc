package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"assay/internal/stats"
	"assay/losses"
)

// rounding is how far scores of one edit lie apart at most that were computed in other batches.
const rounding = 1e-6

// measure compares scores with labels, both 0..1.
func measure(scores, labels []float64) *ValidationMetrics {
	classes := []float64{0, 0.5, 1}
	distance := 0.0
	got, want := make([]int, len(scores)), make([]int, len(scores))
	for i, s := range scores {
		distance += math.Abs(s - labels[i])
		got[i], want[i] = losses.Nearest(classes, s), losses.Nearest(classes, labels[i])
	}
	return &ValidationMetrics{Kind: "validation", L1: number(distance / float64(len(scores))),
		Spearman: number(stats.Spearman(labels, scores)), Accuracy: number(stats.Accuracy(want, got)), Rows: len(scores)}
}

// validationDue tells whether the validation rows are to be scored at the present step.
func (r *run) validationDue() bool {
	s := &r.state
	if r.valid.Len() == 0 && r.benchmark == nil || s.Step == 0 || s.Step == s.Validated {
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

// overRows measures the validation rows lo to hi-1 but for those that are set aside, and returns them.
func (r *run) overRows(lo, hi int, measure func(batch []Example) error) (batch []Example, err error) {
	for {
		if batch, err = r.tryRows(lo, hi, measure); err == nil {
			return batch, nil
		}
		if err = r.setAside(batch, true, err); err != nil {
			return nil, err
		}
	}
}

// tryRows is overRows for rows that are all good; after an error it returns those that it was at.
func (r *run) tryRows(lo, hi int, measure func(batch []Example) error) (batch []Example, err error) {
	if batch, err = r.validRows(lo, hi); err != nil || len(batch) == 0 {
		return batch, err
	}
	if err = measure(batch); err != nil {
		err = fmt.Errorf("scoring validation rows %s: %w", ids(batch), err)
	}
	return batch, err
}

// validRows reads the validation rows lo to hi-1 but for those that are set aside; those in front of an error with it.
func (r *run) validRows(lo, hi int) (batch []Example, err error) {
	for i := lo; i < hi && err == nil; i++ {
		if !usable(r.valid, i) {
			continue
		}
		var e Example
		e, err = r.valid.Example(i)
		e.Index, e.Question, e.Answer = i, r.config.Question[0], r.config.Answer[0]
		batch = append(batch, e)
	}
	return batch, err
}

// score keeps the model's scores.
func (r *run) score(ctx context.Context, batch []Example) (scored, error) {
	scores, err := r.model.Score(ctx, batch)
	if err != nil {
		return scored{}, err
	}
	return scored{Scores: scores, Examples: measured(batch)}, nil
}

// scoreAll scores the first n validation rows, with other ranks if there are any.
func (r *run) scoreAll(ctx context.Context, n int) (*ValidationMetrics, error) {
	all, err := r.shareValidation(ctx, n, r.score)
	if err != nil {
		return nil, err
	}
	var scores []float64
	var examples []Example
	for _, s := range all {
		scores, examples = append(scores, s.Scores...), append(examples, s.Examples...)
	}
	if len(scores) == 0 {
		return nil, errors.New("every validation row was set aside")
	}
	return r.measureAll(scores, examples), nil
}

// validate scores the validation rows, with the first templates and without augmentation, and notes the result. It
// stops when ctx does, and then nothing is noted.
func (r *run) validate(ctx context.Context) error {
	n := r.valid.Len()
	if l := r.config.Validate.Limit; l > 0 {
		n = min(n, l)
	}
	var m *ValidationMetrics
	var err error
	if n == 0 { // the benchmark alone
		m = &ValidationMetrics{Kind: "validation", L1: none, Spearman: none, Accuracy: none}
	} else if t, ok := r.model.(talker); ok {
		m, err = r.measureTalks(ctx, t, n)
	} else {
		m, err = r.scoreAll(ctx, n)
	}
	if err == nil {
		err = r.measureBenchmark(ctx, m)
	}
	if err != nil {
		return err
	}
	m.Step, m.Seconds = r.state.Step, r.seconds()
	if m.Best, err = r.better(m); err != nil {
		return err
	}
	if m.Best {
		last, best := r.state.Last, r.state.Best
		r.state.Last, r.state.Best = m, m // as the card says
		if err := r.write(filepath.Join(r.config.Out, BestDir)); err != nil {
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
