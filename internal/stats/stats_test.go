package stats

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"assay/internal/testfile"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// reference is testdata/scipy.json, written by tools/oracle/stats.py.
type reference struct {
	Correlations []struct {
		Name              string
		X, Y, Ranks       []float64
		Spearman, Pearson *float64
	}
	Fisher struct {
		R            []float64
		Fisher, Tanh float64
	}
	Quantiles struct{ Sorted, Q, Values []float64 }
	MacroF1   struct {
		Truth, Predicted, Classes []int
		Value                     float64
	} `json:"macro_f1"`
	BootstrapMean struct {
		Values        []float64
		Low, High     float64
		StandardError float64 `json:"standard_error"`
	} `json:"bootstrap_mean"`
}

func load(t *testing.T) reference {
	var r reference
	testfile.ReadJSON(t, "testdata/scipy.json", &r)
	return r
}

func near(t *testing.T, what string, got float64, want *float64, tolerance float64) {
	t.Helper()
	if want == nil {
		if !math.IsNaN(got) {
			t.Errorf("%s = %v, want undefined", what, got)
		}
	} else if !(math.Abs(got-*want) <= tolerance) {
		t.Errorf("%s = %v, want %v", what, got, *want)
	}
}

func TestAgainstScipy(t *testing.T) {
	r := load(t)
	for _, c := range r.Correlations {
		t.Run(c.Name, func(t *testing.T) {
			if d := cmp.Diff(c.Ranks, Ranks(c.X)); d != "" {
				t.Errorf("%s: ranks (-want +got):\n%s", c.Name, d)
			}
			near(t, c.Name+": spearman", Spearman(c.X, c.Y), c.Spearman, 1e-12)
			near(t, c.Name+": pearson", Pearson(c.X, c.Y), c.Pearson, 1e-7) // "large" cancels nine digits
		})
	}
	near(t, "fisher", FisherMean(r.Fisher.R), &r.Fisher.Fisher, 1e-14)
	near(t, "tanh", TanhMean(r.Fisher.R), &r.Fisher.Tanh, 1e-14)
	for i, q := range r.Quantiles.Q {
		near(t, "quantile", Quantile(r.Quantiles.Sorted, q), &r.Quantiles.Values[i], 1e-12)
	}
	near(t, "macro F1", MacroF1(r.MacroF1.Truth, r.MacroF1.Predicted, r.MacroF1.Classes), &r.MacroF1.Value, 1e-14)
}

func TestUndefined(t *testing.T) {
	nan := math.NaN()
	for _, x := range [][]float64{nil, {1}, {2, 2, 2}, {1, nan, 3}} {
		y := []float64{3, 1, 2}[:len(x)]
		near(t, "spearman", Spearman(x, y), nil, 0)
		near(t, "spearman", Spearman(y, x), nil, 0)
	}
	near(t, "mean of nothing", Mean(nil), nil, 0)
	near(t, "quantile of nothing", Quantile(nil, 0.5), nil, 0)
	one := 1.0
	near(t, "fisher of 1", FisherMean([]float64{1, 0.5}), &one, 0)
}

// Percentile intervals of the mean agree with scipy's up to the sampling error.
func TestBootstrap(t *testing.T) {
	r := load(t).BootstrapMean
	draw := func(seed uint64) []Interval {
		return Bootstrap(NewRand(seed), len(r.Values), 20000, 0.95, func(units []int) []float64 {
			sum := 0.0
			for _, u := range units {
				sum += r.Values[u]
			}
			return []float64{sum / float64(len(units)), math.NaN()}
		})
	}
	got := draw(5)
	near(t, "low", got[0].Low, &r.Low, 0.05*r.StandardError)
	near(t, "high", got[0].High, &r.High, 0.05*r.StandardError)
	near(t, "always undefined", got[1].Low, nil, 0)
	if d := cmp.Diff(got, draw(5), cmpopts.EquateNaNs()); d != "" {
		t.Errorf("drawn again with one seed (-want +got):\n%s", d)
	}
}

// A constant has no correlation, however its mean is rounded: scipy.stats.pearsonr returns nan.
func TestPearsonOfConstants(t *testing.T) {
	y := []float64{1, 4, 2, 8, 5, 7, 1, 4, 2, 9}
	for _, v := range []float64{0.1, 1e-9, 1e9 + 0.1, 0} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			x := slices.Repeat([]float64{v}, len(y))
			if r := Pearson(x, y); !math.IsNaN(r) {
				t.Errorf("correlation with the constant %v: got %v, want NaN", v, r)
			}
			x[3] = math.Nextafter(v, 2*v+1)
			for _, r := range []float64{Pearson(y, x), Pearson(x, y)} {
				if v != 0 && !math.IsNaN(r) {
					t.Errorf("correlation with %v up to rounding: got %v, want NaN", v, r)
				}
			}
		})
	}
	if r := Pearson([]float64{1e-12, 2e-12, 3e-12}, []float64{1, 2, 3}); !(math.Abs(r-1) <= 1e-12) {
		t.Errorf("correlation with small values: got %v, want 1", r)
	}
}

// TestPearsonAtItsEnds: the sums of squares may be 1, and rounding does not leave [-1, 1].
func TestPearsonAtItsEnds(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{0.5, -0.5, 0.5, -0.5}, []float64{1, 0, 1, 0}, 1},
		{[]float64{0.5, -0.5, 0.5, -0.5}, []float64{1, 5, 1, 5}, -1},
		{[]float64{0, 1, 8}, []float64{0, 1, 8}, 1}, // without a limit 1.0000000000000002
		{[]float64{0, 1, 8}, []float64{0, -1, -8}, -1},
	} {
		t.Run(fmt.Sprint(c.x, c.y), func(t *testing.T) {
			if got := Pearson(c.x, c.y); got != c.want {
				t.Errorf("Pearson(%v, %v): got %v, want %v", c.x, c.y, got, c.want)
			}
		})
	}
	if got := Pearson([]float64{1, 2, 3}, []float64{1, 2}); !math.IsNaN(got) {
		t.Errorf("Pearson of lists of two lengths: got %v, want NaN", got)
	}
	if got := Pearson([]float64{1, 2}, []float64{1, 2}); !(math.Abs(got-1) <= 1e-15) {
		t.Errorf("Pearson of two points: got %v, want 1", got)
	}
}

// TestSettle: values within an error of the next lower one get its value, whatever their order.
func TestSettle(t *testing.T) {
	for _, c := range []struct{ x, want []float64 }{
		{nil, nil},
		{[]float64{3}, []float64{3}},
		{[]float64{2, 1.25, 1}, []float64{2, 1, 1}},     // exactly the error
		{[]float64{1.5, 1.25, 1}, []float64{1.5, 1, 1}}, // 1.5 is compared with 1
		{[]float64{-1, 4, -1.125, 4.5}, []float64{-1.125, 4, -1.125, 4.5}},
		{[]float64{math.NaN(), 0.25, 0}, []float64{math.NaN(), 0, 0}},
	} {
		t.Run(fmt.Sprint(c.x), func(t *testing.T) {
			got := Settle(slices.Clone(c.x), 0.25)
			if d := cmp.Diff(c.want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("Settle (-want +got):\n%s", d)
			}
		})
	}
}

// TestClasses: accuracy, and F1 of classes that are missed, or never occur.
func TestClasses(t *testing.T) {
	truth, predicted := []string{"a", "a", "b", "b"}, []string{"a", "b", "b", "b"}
	if got := Accuracy(truth, predicted); got != 0.75 {
		t.Errorf("Accuracy: got %v, want 0.75", got)
	}
	if got := Accuracy[int](nil, nil); !math.IsNaN(got) {
		t.Errorf("Accuracy of nothing: got %v, want NaN", got)
	}
	if got, want := MacroF1(truth, predicted, []string{"a", "b", "c"}), (2./3+4./5+0)/3; !(math.Abs(got-want) <= 1e-15) {
		t.Errorf("MacroF1: got %v, want %v", got, want)
	}
	if got := MacroF1([]int{1}, []int{2}, []int{1, 2}); got != 0 {
		t.Errorf("MacroF1 of misses: got %v, want 0", got)
	}
}

// TestBootstrapCounts: resamples without a value are counted, and the interval is from the others; the order of the
// values of the statistic is kept.
func TestBootstrapCounts(t *testing.T) {
	n := 0
	got := Bootstrap(NewRand(1), 3, 10, 0.8, func(units []int) []float64 {
		if n++; len(units) != 3 {
			t.Errorf("got %d units, want 3", len(units))
		}
		v := float64(n)
		if n%5 == 0 {
			v = math.NaN()
		}
		return []float64{v, float64(-n)}
	})
	defined := []float64{1, 2, 3, 4, 6, 7, 8, 9}
	want := []Interval{{Quantile(defined, 0.1), Quantile(defined, 0.9), 2},
		{-9.1, -1.9, 0}}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Errorf("intervals (-want +got):\n%s", d)
	}
}

// TestQuantileIsNumPys, to the last bit, on both sides of the middle between two values and at it (NumPy 2.4.6).
func TestQuantileIsNumPys(t *testing.T) {
	for _, c := range []struct {
		sorted  []float64
		q, want float64
	}{
		{[]float64{-1.303157231604361, 0.33043707618338714}, 0.5, -0.48636007771048695},
		{[]float64{0.07179854334532139, 0.6517590520890427, 0.9047775800869076}, 0.25, 0.3617787977171821},
		{[]float64{0.4463745723640113, 0.9053558666731177}, 0.25, 0.5611198959412879},
		{[]float64{-0.5369532353602852, 0.5811181041963531}, 0.3, -0.20153183349329368},
		{[]float64{-2.110056045471277, 0.16350943834447573, 0.8160107040549351}, 0.3, -0.7459167551818254},
		{[]float64{-0.6063316341717568, -0.48144413223591787, 1.1694233713875724}, 0.8, 0.5090763699381764},
	} {
		t.Run(fmt.Sprint(c.q, c.sorted), func(t *testing.T) {
			if got := Quantile(c.sorted, c.q); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestPearsonOfManyEqualValues: the rounding of their mean does not count as variation.
func TestPearsonOfManyEqualValues(t *testing.T) {
	x, y := make([]float64, 1e6), make([]float64, 1e6)
	for i := range x {
		x[i], y[i] = 0.1, float64(i)
	}
	if got := []float64{Pearson(x, y), Pearson(y, x)}; !math.IsNaN(got[0]) || !math.IsNaN(got[1]) {
		t.Errorf("got %v, want NaN", got)
	}
}
