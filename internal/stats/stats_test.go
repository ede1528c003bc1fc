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
		if d := cmp.Diff(c.Ranks, Ranks(c.X)); d != "" {
			t.Errorf("%s: ranks (-want +got):\n%s", c.Name, d)
		}
		near(t, c.Name+": spearman", Spearman(c.X, c.Y), c.Spearman, 1e-12)
		near(t, c.Name+": pearson", Pearson(c.X, c.Y), c.Pearson, 1e-7) // "large" cancels nine digits
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

// Percentile intervals of the mean agree with scipy's up to the error of drawing.
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

// A constant is one, however its mean is rounded: scipy.stats.pearsonr gives nan.
func TestPearsonOfConstants(t *testing.T) {
	y := []float64{1, 4, 2, 8, 5, 7, 1, 4, 2, 9}
	for _, v := range []float64{0.1, 1e-9, 1e9 + 0.1, 0} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			x := slices.Repeat([]float64{v}, len(y))
			if r := Pearson(x, y); !math.IsNaN(r) {
				t.Errorf("correlation with the constant %v: got %v, want NaN", v, r)
			}
			x[3] = math.Nextafter(v, 2*v+1)
			if r := Pearson(y, x); v != 0 && !math.IsNaN(r) {
				t.Errorf("correlation with %v but for rounding: got %v, want NaN", v, r)
			}
		})
	}
	if r := Pearson([]float64{1e-12, 2e-12, 3e-12}, []float64{1, 2, 3}); !(math.Abs(r-1) <= 1e-12) {
		t.Errorf("correlation with small values: got %v, want 1", r)
	}
}
