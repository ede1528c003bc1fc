package records

import (
	"math"

	"assay/internal/trainer/config"
)

// PairAccuracy is NaN if there were no pairs.
func (m *ValidationMetrics) PairAccuracy() Number {
	if m.Pairs == nil {
		return Number(math.NaN())
	}
	return *m.Pairs
}

// Falling reports whether lower values of a measure are better.
func (m *ValidationMetrics) Falling(by string) bool {
	return by == config.ByL1 || by == config.ByLoss || by == config.ByBenchmark && m.Lower
}

// Number is a measure; NaN if it is not defined.
func (m *ValidationMetrics) Number(by string) float64 {
	switch {
	case by == config.ByL1:
		return float64(m.L1)
	case by == config.BySpearman:
		return float64(m.Spearman)
	case by == config.ByPairs && m.Pairs != nil:
		return float64(*m.Pairs)
	case by == config.ByLoss && m.Loss != nil:
		return float64(*m.Loss)
	case by == config.ByBenchmark && m.Benchmark != nil:
		return float64(*m.Benchmark)
	case by == config.ByTokenAccuracy && m.TokenAccuracy != nil:
		return float64(*m.TokenAccuracy)
	}
	return math.NaN()
}

// Value is a measure, the lower the better; ok is false if it is not defined.
func (m *ValidationMetrics) Value(by string) (float64, bool) {
	v := m.Number(by)
	if !m.Falling(by) {
		v = -v
	}
	return v, !math.IsNaN(v)
}
