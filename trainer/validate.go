package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"assay/internal/exit"
	"assay/internal/stats"
	"assay/losses"
	"assay/optim"
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/models"
	"assay/trainer/objective"
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

// measureAll compares the scores of validation rows with their labels, and with the comparisons of their groups.
func (t *Trainer) measureAll(scores []float64, examples []dataset.Example) *records.ValidationMetrics {
	var s, labels []float64
	for i := range examples {
		if examples[i].Labelled() {
			s, labels = append(s, scores[i]), append(labels, examples[i].Label)
		}
	}
	m := measure(s, labels)
	m.Rows = len(scores)
	right, pairs := objective.RightPairs(t.data.Validation, scores, examples)
	if m.PairRows = pairs; pairs > 0 {
		share := records.Number(right / float64(pairs))
		m.Pairs = &share
	}
	return m
}

// better tells whether a validation is the best so far, by what validate.by says.
func (t *Trainer) better(m *records.ValidationMetrics) (bool, error) {
	by := t.by(m)
	if by != config.ByL1 {
		m.By = by
	}
	now, ok := m.Value(by)
	if !ok {
		return false, fmt.Errorf("validate.by: %s, but the validation rows have no %s", by,
			map[string]string{config.ByL1: "labels", config.BySpearman: "labels that differ, or all have one score",
				config.ByPairs: "two edits of a group of which one is better"}[by])
	}
	if t.state.Best == nil {
		return true, nil
	}
	was, ok := t.state.Best.Value(by)
	return !ok || now < was, nil
}

// by is the measure that says what is best: that of validate.by.
func (t *Trainer) by(m *records.ValidationMetrics) string {
	switch by := t.config.Validate.By; {
	case by != "auto":
		return by
	case m.Loss != nil:
		return config.ByLoss
	case math.IsNaN(float64(m.L1)) && m.Pairs != nil:
		return config.ByPairs
	}
	return config.ByL1
}

// measurePlateaus lets the schedules of kind plateau see a validation.
func (t *Trainer) measurePlateaus(m *records.ValidationMetrics) {
	for owner, s := range t.config.Plateaus() {
		p := optim.Plateau{Patience: s.Patience, Threshold: s.Threshold, Rising: !m.Falling(t.by(m))}
		if kept := t.state.Plateaus[owner]; kept != nil {
			p.PlateauState = *kept
		}
		p.Measure(m.Number(t.by(m)))
		if t.state.Plateaus == nil {
			t.state.Plateaus = map[string]*optim.PlateauState{}
		}
		t.state.Plateaus[owner] = &p.PlateauState
	}
}

// Benchmark is somebody else's measure of scorers, which validate.by may name. This package knows none: who trains
// brings them along (see trainer/bybenchmark).
type Benchmark interface {
	// Measure runs a scorer on it. The same scorer always has the same number; it is NaN if it is not defined.
	Measure(ctx context.Context, s models.Candidate) (float64, error)
	// Lower tells whether less is better.
	Lower() bool
	// Fingerprint identifies all that the Number depends on besides the scorer: digests by the names of files and parts.
	Fingerprint() (map[string]string, error)
	// String says what is measured, and on how much.
	String() string
}

// BenchmarkOpener reads the data of a benchmark. Its errors are of the configuration.
type BenchmarkOpener func(c *config.BenchmarkConfig) (Benchmark, error)

// openBenchmark reads the benchmark that validate.by wants.
func (t *Trainer) openBenchmark(open BenchmarkOpener) (err error) {
	c := t.config.Validate.Benchmark
	if c == nil {
		return nil
	}
	if open == nil {
		return exit.Usagef("validate.by: this program brings no benchmarks along")
	}
	if t.benchmark, err = open(c); err != nil {
		return exit.Usage(fmt.Errorf("validate.benchmark: %w", err))
	}
	return nil
}

// fingerprintBenchmark notes what the benchmark was computed on.
func (t *Trainer) fingerprintBenchmark() (err error) {
	if t.benchmark != nil {
		if t.state.Benchmark, err = t.benchmark.Fingerprint(); err != nil {
			err = fmt.Errorf("validate.benchmark: %w", err)
		}
	}
	return err
}

// measureBenchmark adds the benchmark's Number, which the first rank computes for all.
func (t *Trainer) measureBenchmark(ctx context.Context, m *records.ValidationMetrics) error {
	if t.benchmark == nil {
		return nil
	}
	what := fmt.Sprintf("the benchmark at step %d", t.state.Step)
	var v float64
	var err error
	if t.strategy.Main() {
		v, err = t.askBenchmark(ctx)
	}
	if err = t.strategy.Agree(what, err); err == nil {
		err = t.strategy.Share(what, &v)
	}
	if err != nil {
		return err
	}
	n := records.Number(v)
	m.Benchmark, m.Lower = &n, t.benchmark.Lower()
	return nil
}

func (t *Trainer) askBenchmark(ctx context.Context) (float64, error) {
	s, ok := t.model.(interface{ Candidate() models.Candidate })
	if !ok {
		return 0, errors.New("validate.by: this model cannot be asked by a benchmark")
	}
	v, err := t.benchmark.Measure(ctx, s.Candidate())
	if err != nil {
		return 0, fmt.Errorf("validate.benchmark: %w", err)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("validate.benchmark: %s is not defined for the scores of step %d (all the same?)", t.benchmark,
			t.state.Step)
	}
	return v, nil
}
