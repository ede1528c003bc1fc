package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"assay/internal/stats"
	"assay/losses"
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/models"
	"assay/trainer/records"
)

// measure compares scores with labels, both 0..1.
func measure(scores, labels []float64) *records.ValidationMetrics {
	classes := []float64{0, 0.5, 1}
	distance := 0.0
	got, want := make([]int, len(scores)), make([]int, len(scores))
	for i, s := range scores {
		distance += math.Abs(s - labels[i])
		got[i], want[i] = losses.Nearest(classes, s), losses.Nearest(classes, labels[i])
	}
	return &records.ValidationMetrics{Kind: "validation", L1: records.Number(distance / float64(len(scores))),
		Spearman: records.Number(stats.Spearman(labels, scores)), Accuracy: records.Number(stats.Accuracy(want, got)), Rows: len(scores)}
}

// validationDue tells whether the validation rows are to be scored at the present step.
func (t *Trainer) validationDue() bool {
	s := &t.state
	if t.data.Validation.Len() == 0 && t.benchmark == nil || s.Step == 0 || s.Step == s.Validated {
		return false
	}
	if s.Step == t.loader.Steps {
		return true
	}
	if every := t.config.Validate.Every; every > 0 {
		return s.Step%every == 0
	}
	before := max(0, s.Samples-int64(t.config.BatchSize))
	if t.loader.Groups != nil {
		before = s.Before
	}
	return s.Samples/t.loader.Order.Len() > before/t.loader.Order.Len()
}

// validationRows reads the validation rows lo to hi-1 but for those that are quarantined; those in front of an error
// with it.
func (t *Trainer) validationRows(lo, hi int) (batch []dataset.Example, err error) {
	for i := lo; i < hi && err == nil; i++ {
		if !dataset.Usable(t.data.Validation, i) {
			continue
		}
		var e dataset.Example
		e, err = t.data.Validation.Example(i)
		e.Index, e.Question, e.Answer = i, t.config.Question[0], t.config.Answer[0]
		batch = append(batch, e)
	}
	return batch, err
}

// measureRows measures the first n validation rows, as many micro-batches at a time as there are processes.
func (t *Trainer) measureRows(
	ctx context.Context, n int, measure func(ctx context.Context, batch []dataset.Example) (models.Measured, error),
) (out []models.Measured, err error) {
	if err := t.strategy.Same(fmt.Sprintf("parameters after step %d", t.state.Step), t.optimizer.Digest); err != nil {
		return nil, err
	}
	micro := t.state.MicroBatch
	for lo := 0; lo < n; {
		if err := t.strategy.Agree(fmt.Sprintf("after step %d", t.state.Step), ctx.Err()); err != nil {
			return nil, err
		}
		batch := func(i int) ([]dataset.Example, error) { return t.validationRows(lo+i*micro, min(lo+(i+1)*micro, n)) }
		what := fmt.Sprintf("validation at step %d, row %d", t.state.Step, lo+1)
		round, failed, err := t.strategy.Round(what, func(i int) (models.Measured, error) {
			rows, err := batch(i)
			if err != nil || len(rows) == 0 {
				return models.Measured{}, err
			}
			m, err := measure(context.WithoutCancel(ctx), rows)
			if err != nil {
				return models.Measured{}, fmt.Errorf("scoring validation rows %s: %w", dataset.IDs(rows), err)
			}
			for _, e := range rows {
				m.Examples = append(m.Examples, dataset.Example{Index: e.Index, Label: e.Label, Annotations: e.Annotations})
			}
			return m, nil
		})
		if err != nil { // look at its rows, and try again without those that are bad
			rows, _ := batch(failed)
			if err := t.quarantine(rows, true, err); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, round...)
		lo += micro * len(round)
	}
	return out, nil
}

// scoreAll scores the first n validation rows.
func (t *Trainer) scoreAll(ctx context.Context, n int) (*records.ValidationMetrics, error) {
	all, err := t.measureRows(ctx, n, func(ctx context.Context, batch []dataset.Example) (m models.Measured, err error) {
		m.Scores, err = t.model.Score(ctx, batch)
		return m, err
	})
	if err != nil {
		return nil, err
	}
	var scores []float64
	var examples []dataset.Example
	for _, m := range all {
		scores, examples = append(scores, m.Scores...), append(examples, m.Examples...)
	}
	if len(scores) == 0 {
		return nil, errors.New("every validation row was set aside")
	}
	return t.measureAll(scores, examples), nil
}

// validate scores the validation rows, with the first templates and without augmentation, and notes the result. It
// stops when ctx does, and then nothing is noted.
func (t *Trainer) validate(ctx context.Context) error {
	n := t.data.Validation.Len()
	if l := t.config.Validate.Limit; l > 0 {
		n = min(n, l)
	}
	var m *records.ValidationMetrics
	var err error
	if n == 0 { // the benchmark alone
		m = &records.ValidationMetrics{Kind: "validation", L1: records.None, Spearman: records.None, Accuracy: records.None}
	} else if text, ok := t.model.(textMeasurer); ok {
		m, err = t.measureText(ctx, text, n)
	} else {
		m, err = t.scoreAll(ctx, n)
	}
	if err == nil {
		err = t.measureBenchmark(ctx, m)
	}
	if err != nil {
		return err
	}
	m.Step, m.Seconds = t.state.Step, t.state.Elapsed()
	if m.Best, err = t.better(m); err != nil {
		return err
	}
	if m.Best {
		last, best := t.state.Last, t.state.Best
		t.state.Last, t.state.Best = m, m // as the card says
		if err := t.write(filepath.Join(t.config.Out, config.BestDir)); err != nil {
			t.state.Last, t.state.Best = last, best
			return err
		}
		t.state.Worse = 0
	} else {
		t.state.Worse++
	}
	t.measurePlateaus(m)
	if err := t.records.Validation(m); err != nil {
		return err
	}
	t.state.Last, t.state.Validated = m, m.Step
	return nil
}
