package trainer

import (
	"fmt"
	"math"

	"assay/losses"
)

// measureAll compares the scores of validation rows with their labels, and with the comparisons of their groups.
func (r *run) measureAll(scores []float64, examples []Example) *ValidationMetrics {
	var s, labels []float64
	for i := range examples {
		if examples[i].labelled() {
			s, labels = append(s, scores[i]), append(labels, examples[i].Label)
		}
	}
	m := measure(s, labels)
	m.Rows = len(scores)
	right, pairs := r.rightPairs(scores, examples)
	if m.PairRows = pairs; pairs > 0 {
		share := number(right / float64(pairs))
		m.Pairs = &share
	}
	return m
}

// rightPairs counts the pairs of edits of a group of which one is better, as people compared them or by their labels.
// It also counts those whose better edit has the higher score. Scores that differ by rounding alone are
// equal, and count half.
func (r *run) rightPairs(scores []float64, examples []Example) (right float64, pairs int) {
	table, ok := r.valid.(*Samples)
	if !ok {
		return 0, 0
	}
	at := map[int]int{}
	for i := range examples {
		at[examples[i].Index] = i
	}
	o := newOrder(0, table.units(), WholeGroups)
	g := newGroups(o, table, math.MaxInt)
	one := &run{groups: g, order: o}
	spec := &losses.Spec{Kind: "bradley_terry", Scale: 1}
	for u, rows := range o.Units {
		var part []Example
		var of []float64
		for _, row := range rows {
			if i, ok := at[row]; ok {
				e := examples[i]
				e.Group = u
				part, of = append(part, e), append(of, scores[i])
			}
		}
		if len(part) < 2 {
			continue
		}
		part = part[:min(len(part), mostCompared)]
		for _, it := range one.pairItems(spec, part, 0, len(part)) {
			d := of[it.Edits[0]] - of[it.Edits[1]]
			if it.Outcome[1] == 1 {
				continue
			}
			pairs++
			switch {
			case math.Abs(d) <= rounding:
				right += 0.5
			case (d > 0) == (it.Outcome[0] == 1):
				right++
			}
		}
	}
	return right, pairs
}

// mostCompared bounds the edits of a group whose pairs are counted: there are 131,000 of so many.
const mostCompared = 512

// better tells whether a validation is the best so far, by what validate.by says.
func (r *run) better(m *ValidationMetrics) (bool, error) {
	by := r.by(m)
	if by != byL1 {
		m.By = by
	}
	now, ok := m.value(by)
	if !ok {
		return false, fmt.Errorf("validate.by: %s, but the validation rows have no %s", by,
			map[string]string{byL1: "labels", bySpearman: "labels that differ, or all have one score",
				byPairs: "two edits of a group of which one is better"}[by])
	}
	if r.state.Best == nil {
		return true, nil
	}
	was, ok := r.state.Best.value(by)
	return !ok || now < was, nil
}

// by is the measure that says what is best: that of validate.by.
func (r *run) by(m *ValidationMetrics) string {
	switch by := r.config.Validate.By; {
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

// number is a measure; NaN if it is not defined.
func (m *ValidationMetrics) number(by string) float64 {
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
	v := m.number(by)
	if !m.falling(by) {
		v = -v
	}
	return v, !math.IsNaN(v)
}
