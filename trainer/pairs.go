package trainer

import (
	"fmt"
	"math"
)

// measureAll compares the scores of validation rows with their labels, and with the comparisons of their groups.
func (t *Trainer) measureAll(scores []float64, examples []Example) *ValidationMetrics {
	var s, labels []float64
	for i := range examples {
		if examples[i].labelled() {
			s, labels = append(s, scores[i]), append(labels, examples[i].Label)
		}
	}
	m := measure(s, labels)
	m.Rows = len(scores)
	right, pairs := rightPairs(t.data.Validation, scores, examples)
	if m.PairRows = pairs; pairs > 0 {
		share := Number(right / float64(pairs))
		m.Pairs = &share
	}
	return m
}

// better tells whether a validation is the best so far, by what validate.by says.
func (t *Trainer) better(m *ValidationMetrics) (bool, error) {
	by := t.by(m)
	if by != byL1 {
		m.By = by
	}
	now, ok := m.value(by)
	if !ok {
		return false, fmt.Errorf("validate.by: %s, but the validation rows have no %s", by,
			map[string]string{byL1: "labels", bySpearman: "labels that differ, or all have one score",
				byPairs: "two edits of a group of which one is better"}[by])
	}
	if t.state.Best == nil {
		return true, nil
	}
	was, ok := t.state.Best.value(by)
	return !ok || now < was, nil
}

// by is the measure that says what is best: that of validate.by.
func (t *Trainer) by(m *ValidationMetrics) string {
	switch by := t.config.Validate.By; {
	case by != "auto":
		return by
	case m.Loss != nil:
		return byLoss
	case math.IsNaN(float64(m.L1)) && m.Pairs != nil:
		return byPairs
	}
	return byL1
}

// falling tells whether a measure is the better the lower it is.
func (m *ValidationMetrics) falling(by string) bool {
	return by == byL1 || by == byLoss || by == byBenchmark && m.Lower
}

// Number is a measure; NaN if it is not defined.
func (m *ValidationMetrics) Number(by string) float64 {
	switch {
	case by == byL1:
		return float64(m.L1)
	case by == bySpearman:
		return float64(m.Spearman)
	case by == byPairs && m.Pairs != nil:
		return float64(*m.Pairs)
	case by == byLoss && m.Loss != nil:
		return float64(*m.Loss)
	case by == byBenchmark && m.Benchmark != nil:
		return float64(*m.Benchmark)
	case by == byTokenAccuracy && m.TokenAccuracy != nil:
		return float64(*m.TokenAccuracy)
	}
	return math.NaN()
}

// value is a measure, the lower the better; ok is false if it is not defined.
func (m *ValidationMetrics) value(by string) (float64, bool) {
	v := m.Number(by)
	if !m.falling(by) {
		v = -v
	}
	return v, !math.IsNaN(v)
}
