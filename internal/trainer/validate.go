package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/edit"
	"assay/internal/exit"
	"assay/internal/optim"
	"assay/internal/stats"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
	"assay/internal/trainer/optimizer"
	"assay/internal/trainer/records"
	"assay/losses"
)

// validator measures a model on the validation rows and on the benchmark of validate.by.
type validator struct {
	config     *config.Config
	model      models.Model
	data       *dataset.Data
	strategy   Strategy
	quarantine *quarantine
	benchmark  Benchmark // nil: none
	optimizer  *optimizer.Optimizer
}

// due reports whether the validation rows are to be scored at the current step.
func (v *validator) due(s *checkpoint.State, l *dataset.Loader) bool {
	if v.data.Validation.Len() == 0 && v.benchmark == nil || s.Step == 0 || s.Step == s.Validated {
		return false
	}
	if s.Step == l.Steps {
		return true
	}
	if every := v.config.Validate.Every; every > 0 {
		return s.Step%every == 0
	}
	before := max(0, s.Samples-int64(v.config.BatchSize))
	if l.Groups != nil || v.config.GRPO != nil {
		before = s.Before
	}
	return s.Samples/l.Order.Len() > before/l.Order.Len()
}

// validate scores the validation rows, with the first templates and without augmentation, and stores the result in
// the state; save writes the best scorer so far. If ctx ends, it stops and leaves the state unchanged.
func (v *validator) validate(ctx context.Context, s *checkpoint.State, save func() error) error {
	n := v.data.Validation.Len()
	if l := v.config.Validate.Limit; l > 0 {
		n = min(n, l)
	}
	var m *records.ValidationMetrics
	var err error
	if n == 0 { // only the benchmark
		m = &records.ValidationMetrics{Kind: "validation", L1: records.None, Spearman: records.None, Accuracy: records.None}
	} else if text, ok := v.model.(textMeasurer); ok {
		m, err = v.measureText(ctx, s, text, n)
	} else {
		m, err = v.scoreAll(ctx, s, n)
	}
	if err == nil {
		err = v.measureBenchmark(ctx, s.Step, m)
	}
	if err != nil {
		return err
	}
	m.Step, m.Seconds = s.Step, s.Elapsed()
	if m.Best, err = v.better(m, s.Best); err != nil && !v.flat(m) {
		return err
	}
	if m.Best {
		last, best := s.Last, s.Best
		s.Last, s.Best = m, m // the model card shows them
		if err := save(); err != nil {
			s.Last, s.Best = last, best
			return err
		}
		s.Worse = 0
	} else {
		s.Worse++
	}
	v.measurePlateaus(m, s)
	s.Last = m
	return nil
}

// scoreAll scores the first n validation rows.
func (v *validator) scoreAll(ctx context.Context, s *checkpoint.State, n int) (*records.ValidationMetrics, error) {
	score := func(ctx context.Context, batch []dataset.Example) (m models.Measured, err error) {
		if s, ok := v.model.(dimensionScorer); ok && v.config.Judge != nil {
			m.Scores, m.Dimensions, err = s.ScoreDimensions(ctx, batch)
		} else {
			m.Scores, err = v.model.Score(ctx, batch)
		}
		return m, err
	}
	all, err := v.measureRows(ctx, s, n, score)
	if err != nil {
		return nil, err
	}
	var scores []float64
	var dimensions [][]edit.Dimension
	var examples []dataset.Example
	for _, m := range all {
		scores, examples = append(scores, m.Scores...), append(examples, m.Examples...)
		dimensions = append(dimensions, m.Dimensions...)
	}
	if len(scores) == 0 {
		return nil, errors.New("every validation row was set aside")
	}
	if v.strategy.Main() {
		err = v.writePredictions(scores, examples)
	}
	m := v.measureAll(scores, examples)
	m.Dimensions = v.measureDimensions(dimensions, examples)
	return m, v.strategy.Agree("writing "+records.PredictionsFile, err)
}

// dimensionScorer is a model with several heads.
type dimensionScorer interface {
	ScoreDimensions(ctx context.Context, batch []dataset.Example) ([]float64, [][]edit.Dimension, error)
}

// measureDimensions measures each head by the validation rows that have a label or a comparison of it. It returns nil
// if the model returned no dimensions.
func (v *validator) measureDimensions(
	dimensions [][]edit.Dimension, examples []dataset.Example,
) map[string]*records.DimensionMetrics {
	if len(dimensions) == 0 {
		return nil
	}
	out := map[string]*records.DimensionMetrics{}
	for k, d := range dimensions[0] {
		values := make([]float64, len(examples))
		for i := range values {
			values[i] = dimensions[i][k].Value
		}
		names := v.config.Judge.Heads[d.Name].Names
		m := &records.DimensionMetrics{}
		var got, want []float64
		right := 0
		for i := range examples {
			label, ok := examples[i].Annotations.Labels[d.Name]
			if !ok {
				continue
			}
			got, want, m.Rows = append(got, values[i]), append(want, label), m.Rows+1
			if len(names) > 0 && names[losses.Nearest(v.config.Judge.Heads[d.Name].Values, label)] == dimensions[i][k].Class {
				right++
			}
		}
		switch number := func(x float64) *records.Number { n := records.Number(x); return &n }; {
		case len(names) > 0 && m.Rows > 0:
			m.Accuracy = number(float64(right) / float64(m.Rows))
		case len(names) == 0:
			if m.Rows > 0 {
				all := measure(got, want)
				m.L1, m.Spearman = &all.L1, &all.Spearman
			}
			share, pairs := objective.RightPairs(v.data.Validation, values, examples, d.Name)
			if m.PairRows = pairs; pairs > 0 {
				m.Pairs = number(share / float64(pairs))
			}
		}
		if m.Rows+m.PairRows > 0 {
			m.Untrained = !v.config.Trains(d.Name)
			out[d.Name] = m
		}
	}
	return out
}

// writePredictions writes the scores of validation rows into the run directory.
func (v *validator) writePredictions(scores []float64, examples []dataset.Example) error {
	all := make([]records.Prediction, 0, len(scores))
	for i, e := range examples {
		if math.IsNaN(scores[i]) { // from heads that only return classes
			continue
		}
		p := records.Prediction{Row: e.Index, ID: v.data.Validation.ID(e.Index), Score: scores[i]}
		if e.Labelled() {
			p.Label = &e.Label
		}
		all = append(all, p)
	}
	return records.WritePredictions(v.config.Out, all)
}

// textMeasurer is a model that learns the answers of conversations.
type textMeasurer interface {
	models.Targeter
	MeasureText(ctx context.Context, batch []dataset.Example) (models.TextMeasure, error)
}

// measureText measures the first n validation rows, together with other processes if there are any.
func (v *validator) measureText(
	ctx context.Context, s *checkpoint.State, m textMeasurer, n int,
) (*records.ValidationMetrics, error) {
	measure := func(ctx context.Context, batch []dataset.Example) (out models.Measured, err error) {
		out.Text, err = m.MeasureText(ctx, batch)
		return out, err
	}
	all, err := v.measureRows(ctx, s, n, measure)
	if err != nil {
		return nil, err
	}
	var sum models.TextMeasure
	rows := 0
	for _, x := range all {
		rows, sum.Loss = rows+len(x.Examples), sum.Loss+x.Text.Loss
		sum.Tokens, sum.Right = sum.Tokens+x.Text.Tokens, sum.Right+x.Text.Right
		sum.Answers, sum.Read = sum.Answers+x.Text.Answers, sum.Read+x.Text.Read
		sum.Reward += x.Text.Reward
	}
	if rows == 0 {
		return nil, errors.New("every validation row was set aside")
	}
	mean := func(x float64, n int) *records.Number { return new(records.Number(x / float64(n))) }
	out := &records.ValidationMetrics{Kind: "validation", L1: records.None, Spearman: records.None,
		Accuracy: records.None, Rows: rows, Tokens: sum.Tokens}
	if sum.Answers > 0 {
		out.Reward, out.Read = mean(sum.Reward, sum.Answers), mean(float64(sum.Read), sum.Answers)
	} else {
		out.Loss, out.TokenAccuracy = mean(sum.Loss, sum.Tokens), mean(float64(sum.Right), sum.Tokens)
	}
	return out, nil
}

// measureRows measures the first n validation rows, as many micro-batches at a time as there are processes.
func (v *validator) measureRows(
	ctx context.Context, s *checkpoint.State, n int,
	measure func(ctx context.Context, batch []dataset.Example) (models.Measured, error),
) (out []models.Measured, err error) {
	if err := v.strategy.Same(fmt.Sprintf("parameters after step %d", s.Step), v.optimizer.Digest); err != nil {
		return nil, err
	}
	micro := s.MicroBatch
	for lo := 0; lo < n; {
		if err := v.strategy.Agree(fmt.Sprintf("after step %d", s.Step), ctx.Err()); err != nil {
			return nil, err
		}
		batch := func(i int) ([]dataset.Example, error) { return v.rows(lo+i*micro, min(lo+(i+1)*micro, n)) }
		what := fmt.Sprintf("validation at step %d, row %d", s.Step, lo+1)
		round, failed, err := v.strategy.Round(what, func(i int) (models.Measured, error) {
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
		if err != nil { // check its rows, and retry without the bad ones
			rows, _ := batch(failed)
			if err := v.quarantine.setAside(rows, true, s.Step+1, err); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, round...)
		lo += micro * len(round)
	}
	return out, nil
}

// rows reads the validation rows lo to hi-1, except quarantined ones. With an error it returns the rows up to and
// including the failed one.
func (v *validator) rows(lo, hi int) (batch []dataset.Example, err error) {
	for i := lo; i < hi && err == nil; i++ {
		if !v.data.Validation.Usable(i) {
			continue
		}
		var e dataset.Example
		e, err = v.data.Validation.Example(i)
		e.Index, e.Question, e.Answer, e.Why = i, v.config.Question[0], v.config.Answer[0], ""
		batch = append(batch, e)
	}
	return batch, err
}

// measureAll compares the scores of validation rows with their labels, and with the comparisons of their groups.
func (v *validator) measureAll(scores []float64, examples []dataset.Example) *records.ValidationMetrics {
	var s, labels []float64
	for i := range examples {
		if examples[i].Labelled() {
			s, labels = append(s, scores[i]), append(labels, examples[i].Label)
		}
	}
	m := measure(s, labels)
	m.Rows = len(scores)
	right, pairs := objective.RightPairs(v.data.Validation, scores, examples, "")
	if m.PairRows = pairs; pairs > 0 {
		share := records.Number(right / float64(pairs))
		m.Pairs = &share
	}
	return m
}

// measure compares scores with labels, both in 0..1.
func measure(scores, labels []float64) *records.ValidationMetrics {
	classes := []float64{0, 0.5, 1}
	distance := 0.0
	got, want := make([]int, len(scores)), make([]int, len(scores))
	for i, s := range scores {
		distance += math.Abs(s - labels[i])
		got[i], want[i] = losses.Nearest(classes, s), losses.Nearest(classes, labels[i])
	}
	return &records.ValidationMetrics{Kind: "validation", L1: records.Number(distance / float64(len(scores))),
		Spearman: records.Number(stats.Spearman(labels, scores)), Accuracy: records.Number(stats.Accuracy(want, got)),
		Rows: len(scores)}
}

// better reports whether a validation is better than the best one before it (nil: none), by the metric of
// validate.by.
func (v *validator) better(m, best *records.ValidationMetrics) (bool, error) {
	by := v.by(m)
	if by != config.ByL1 {
		m.By = by
	}
	now, ok := m.Value(by)
	if !ok {
		return false, fmt.Errorf("validate.by: %s, but the validation rows have no %s", by,
			map[string]string{config.ByL1: "labels", config.BySpearman: "labels that differ",
				config.ByPairs:      "two edits of a group of which one is better",
				config.ByDimensions: "labels or comparisons of a dimension whose head is trained"}[by])
	}
	if best == nil {
		return true, nil
	}
	was, ok := best.Value(by)
	return !ok || now < was, nil
}

// flat reports whether the measure is a correlation that is not defined because all scores are equal: no improvement,
// as NaN is for EarlyStoppingCallback of transformers.
func (v *validator) flat(m *records.ValidationMetrics) bool {
	return v.by(m) == config.BySpearman && !math.IsNaN(float64(m.L1))
}

// by returns the metric that decides which validation is best, resolving auto.
func (v *validator) by(m *records.ValidationMetrics) string {
	switch by := v.config.Validate.By; {
	case by != "auto":
		return by
	case m.Reward != nil:
		return config.ByReward
	case m.Loss != nil:
		return config.ByLoss
	case math.IsNaN(float64(m.L1)) && m.Pairs != nil:
		return config.ByPairs
	case math.IsNaN(float64(m.L1)) && !math.IsNaN(m.Number(config.ByDimensions)):
		return config.ByDimensions
	}
	return config.ByL1
}

// foreseen returns the head metrics that the validation rows allow.
func (v *validator) foreseen(examples []dataset.Example) map[string]*records.DimensionMetrics {
	var heads []edit.Dimension
	for _, name := range v.config.Judge.Dimensions() {
		heads = append(heads, edit.Dimension{Name: name})
	}
	all := slices.Repeat([][]edit.Dimension{heads}, len(examples))
	return v.measureDimensions(all, examples)
}

// measurePlateaus passes a validation to the schedules of kind plateau.
func (v *validator) measurePlateaus(m *records.ValidationMetrics, state *checkpoint.State) {
	for owner, s := range v.config.Plateaus() {
		p := optim.Plateau{Patience: s.Patience, Threshold: s.Threshold, Rising: !m.Falling(v.by(m))}
		if kept := state.Plateaus[owner]; kept != nil {
			p.PlateauState = *kept
		}
		p.Measure(m.Number(v.by(m)))
		if state.Plateaus == nil {
			state.Plateaus = map[string]*optim.PlateauState{}
		}
		state.Plateaus[owner] = &p.PlateauState
	}
}

// check returns an error if the validation rows cannot decide the best scorer as configured.
func (v *validator) check(valid *dataset.Samples) error {
	c := &v.config.Validate
	if c.By == config.ByBenchmark { // it has its own data
		return nil
	}
	if valid.Len() == 0 {
		if len(v.config.Plateaus()) > 0 {
			return exit.Usagef("schedule.kind: %s", config.PlateauWants)
		}
		if c.By != "auto" || c.Patience > 0 {
			return exit.Usagef("validate: by and patience need validation rows: set data.validation or " +
				"data.validation_split")
		}
		return nil
	}
	if v.config.Mode == config.ModeText { // every conversation has a loss
		return nil
	}
	n := valid.Len()
	if c.Limit > 0 {
		n = min(n, c.Limit)
	}
	m := &records.ValidationMetrics{L1: records.Number(math.NaN()), Spearman: records.Number(math.NaN())}
	var examples []dataset.Example
	for i := range n {
		row := &valid.Rows[i]
		if row.Bad != "" {
			continue
		}
		e := dataset.Example{Index: i, Label: row.Label, Annotations: row.Annotations}
		if e.Labelled() {
			m.L1 = 0
			if first := slices.IndexFunc(examples, func(o dataset.Example) bool { return o.Labelled() }); first >= 0 &&
				examples[first].Label != e.Label {
				m.Spearman = 0
			}
		}
		examples = append(examples, e)
	}
	if len(examples) == 0 { // reported elsewhere
		return nil
	}
	zeros := make([]float64, len(examples))
	if _, pairs := objective.RightPairs(v.data.Validation, zeros, examples, ""); pairs > 0 {
		m.Pairs = new(records.Number)
	}
	if v.config.Judge != nil {
		m.Dimensions = v.foreseen(examples)
	}
	_, err := v.better(m, nil)
	return exit.Usage(err)
}
