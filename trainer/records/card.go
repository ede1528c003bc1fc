package records

import (
	"math"
)

// PairAccuracy is NaN if there were no pairs.
func (m *ValidationMetrics) PairAccuracy() Number {
	if m.Pairs == nil {
		return Number(math.NaN())
	}
	return *m.Pairs
}
