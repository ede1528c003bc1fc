package records

import (
	"encoding/json"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"assay/internal/atomicfile"
	"assay/internal/stats"
	"assay/internal/trainer/config"
)

// PairAccuracy returns the pair accuracy; NaN if there were no pairs.
func (m *ValidationMetrics) PairAccuracy() Number {
	if m.Pairs == nil {
		return Number(math.NaN())
	}
	return *m.Pairs
}

// Falling reports whether lower values of a metric are better.
func (m *ValidationMetrics) Falling(by string) bool {
	return by == config.ByL1 || by == config.ByLoss || by == config.ByDimensions || by == config.ByBenchmark && m.Lower
}

// Number returns a metric; NaN if it is not defined.
func (m *ValidationMetrics) Number(by string) float64 {
	switch {
	case by == config.ByL1:
		return float64(m.L1)
	case by == config.BySpearman:
		return float64(m.Spearman)
	case by == config.ByPairs && m.Pairs != nil:
		return float64(*m.Pairs)
	case by == config.ByDimensions:
		return m.headError()
	case by == config.ByLoss && m.Loss != nil:
		return float64(*m.Loss)
	case by == config.ByBenchmark && m.Benchmark != nil:
		return float64(*m.Benchmark)
	case by == config.ByReward && m.Reward != nil:
		return float64(*m.Reward)
	case by == config.ByTokenAccuracy && m.TokenAccuracy != nil:
		return float64(*m.TokenAccuracy)
	}
	return math.NaN()
}

// headError returns the mean error of the trained heads; NaN: none was measured.
func (m *ValidationMetrics) headError() float64 {
	var errors []float64
	for _, name := range slices.Sorted(maps.Keys(m.Dimensions)) {
		if d := m.Dimensions[name]; !d.Untrained {
			errors = append(errors, d.Error())
		}
	}
	if len(errors) == 0 {
		return math.NaN()
	}
	return stats.Mean(errors)
}

// Value returns a metric, negated if higher is better, so that lower is better; ok is false if it is not defined.
func (m *ValidationMetrics) Value(by string) (float64, bool) {
	v := m.Number(by)
	if !m.Falling(by) {
		v = -v
	}
	return v, !math.IsNaN(v)
}

// PredictionsFile has the scores of the last validation: one JSON object per row and line.
const PredictionsFile = "validation.jsonl"

// Prediction is the score of a validation row. Scores and labels are 0..1.
type Prediction struct {
	Row   int      `json:"row"` // index in the validation rows
	ID    string   `json:"id,omitempty"`
	Label *float64 `json:"label"` // null: none, only compared
	Score float64  `json:"score01"`
}

// WritePredictions replaces PredictionsFile in a run directory.
func WritePredictions(dir string, all []Prediction) error {
	return atomicfile.Write(filepath.Join(dir, PredictionsFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		for i := range all {
			if err := e.Encode(&all[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
