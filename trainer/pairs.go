package trainer

import (
	"fmt"
	"math"

	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/objective"
	"assay/trainer/records"
)

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
