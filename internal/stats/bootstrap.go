package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// NewRand returns the generator of a seed: the same numbers on every machine.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) }

// Interval is a confidence interval.
type Interval struct {
	Low, High float64
	Undefined int // resamples without a value
}

// Bootstrap draws resamples of n units with replacement and returns, for each value that statistic computes from a
// resample, the percentile interval of the given level (0.95). Comparing two systems on the same units inside
// statistic makes the bootstrap paired. Resamples in which a value is undefined (NaN) are left out of that value's
// interval, which is NaN if all are.
func Bootstrap(rng *rand.Rand, n, resamples int, level float64, statistic func(units []int) []float64) []Interval {
	units := make([]int, n)
	var draws [][]float64
	for range resamples {
		for i := range units {
			units[i] = rng.IntN(n)
		}
		for k, v := range statistic(units) {
			if k == len(draws) {
				draws = append(draws, nil)
			}
			if !math.IsNaN(v) {
				draws[k] = append(draws[k], v)
			}
		}
	}
	out := make([]Interval, len(draws))
	for k, d := range draws {
		slices.Sort(d)
		out[k] = Interval{Quantile(d, (1-level)/2), Quantile(d, (1+level)/2), resamples - len(d)}
	}
	return out
}

// Quantile returns the q-quantile, q in [0, 1], of sorted values without NaN, equal to NumPy's with its default
// method "linear" to the last bit. It is NaN if there are no values.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := min(max(int(at), 0), len(sorted)-1)
	a, b, t := sorted[i], sorted[min(i+1, len(sorted)-1)], at-float64(i)
	if t >= 0.5 { // NumPy counts from the nearer end; the conversions keep products from being fused into sums on arm64
		return b - float64((b-a)*(1-t))
	}
	return a + float64((b-a)*t)
}
