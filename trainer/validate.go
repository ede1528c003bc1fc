package trainer

import (
	"context"
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

// due tells whether the validation rows are to be scored at the present step.
func (r *run) due() bool {
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
	return s.Samples/r.order.Len() > max(0, s.Samples-int64(r.config.BatchSize))/r.order.Len()
}

// validate scores the validation rows, with the first templates and without augmentation, and notes the result. It stops
// when ctx does, and then nothing is noted.
func (r *run) validate(ctx context.Context) error {
	n := r.valid.Len()
	if l := r.config.Validate.Limit; l > 0 {
		n = min(n, l)
	}
	var scores, labels []float64
	for lo := 0; lo < n; lo += r.state.MicroBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		var batch []Example
		for i := lo; i < min(lo+r.state.MicroBatch, n); i++ {
			e, err := r.valid.Example(i)
			if err != nil {
				return err
			}
			e.Index, e.Question, e.Answer = i, r.config.Question[0], r.config.Answer[0]
			batch = append(batch, e)
			labels = append(labels, e.Label)
		}
		s, err := r.model.Score(context.WithoutCancel(ctx), batch)
		if err != nil {
			return fmt.Errorf("scoring validation rows %s: %w", ids(batch), err)
		}
		scores = append(scores, s...)
	}
	m := measure(scores, labels)
	m.Step, m.Seconds = r.state.Step, r.seconds()
	m.Best = r.state.Best == nil || m.L1 < r.state.Best.L1
	if m.Best {
		if err := replaceDir(filepath.Join(r.config.Out, BestDir), r.writeScorer); err != nil {
			return err
		}
		r.state.Best = m
	}
	if err := r.record.validation(m); err != nil {
		return err
	}
	r.state.Last, r.state.Validated = m, m.Step
	return nil
}
