package models

import (
	"math"
)

// far is the largest distance of two lists, relative to the largest wanted value.
func far[A, B float32 | float64](got []A, want []B) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	worst, scale := 0.0, 1e-12
	for i := range got {
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
		scale = max(scale, math.Abs(float64(want[i])))
	}
	return worst / scale
}
