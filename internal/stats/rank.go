// Package stats holds the statistics that benchmarks and training share: ranks and rank correlation, averages of
// correlations, classification scores, and the paired bootstrap. Undefined values are NaN.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// UpTo returns the numbers 0 to n-1.
func UpTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// ascending returns the indices of x in the order of its values.
func ascending(x []float64) []int {
	order := UpTo(len(x))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	return order
}

// Ranks returns the ranks of x, from 1; equal values share the average of their ranks (scipy.stats.rankdata).
func Ranks(x []float64) []float64 {
	order := ascending(x)
	ranks := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+1+j) / 2
		}
		i = j
	}
	return ranks
}

// Settle sets values that differ by no more than the error of their computation, within, to the lowest of them. It
// changes x, and returns it. NaN stays.
func Settle(x []float64, within float64) []float64 {
	order := ascending(x)
	for k := 1; k < len(order); k++ {
		if v, below := x[order[k]], x[order[k-1]]; v-below <= within {
			x[order[k]] = below
		}
	}
	return x
}

// Spearman is the rank correlation of x and y, in [-1, 1]: Pearson's correlation of their average ranks
// (scipy.stats.spearmanr). It is NaN if either is constant, contains a NaN, or has fewer than two values.
func Spearman(x, y []float64) float64 {
	if slices.ContainsFunc(x, math.IsNaN) || slices.ContainsFunc(y, math.IsNaN) {
		return math.NaN()
	}
	return Pearson(Ranks(x), Ranks(y))
}

// rounding is the variation of values, relative to their mean, at or below which a correlation would be that of
// rounding errors: the bound below which scipy.stats.pearsonr warns.
const rounding = 1e-13

// constant reports whether all values are the same.
func constant(x []float64) bool { return slices.Min(x) == slices.Max(x) }

// Pearson is the correlation of x and y, in [-1, 1]; NaN if they differ in length, have fewer than two values, or if
// either is constant up to rounding.
func Pearson(x, y []float64) float64 {
	if len(x) != len(y) || len(x) < 2 {
		return math.NaN()
	}
	if constant(x) || constant(y) {
		return math.NaN()
	}
	mx, my := Mean(x), Mean(y)
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	if math.Sqrt(xx) <= rounding*math.Abs(mx) || math.Sqrt(yy) <= rounding*math.Abs(my) || xx == 0 || yy == 0 {
		return math.NaN()
	}
	return min(1, max(-1, xy/math.Sqrt(xx)/math.Sqrt(yy)))
}

// Mean is the arithmetic mean, NaN if x is empty.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// FisherMean averages correlations by Fisher's transformation: tanh(mean(arctanh(r))).
func FisherMean(r []float64) float64 {
	z := make([]float64, len(r))
	for i, v := range r {
		z[i] = math.Atanh(v)
	}
	return math.Tanh(Mean(z))
}

// TanhMean is tanh(mean(r)): several papers print it as a Fisher average, although it lacks the arctanh.
func TanhMean(r []float64) float64 { return math.Tanh(Mean(r)) }
