package calibration

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestPoolByHand: violators are pooled with their weights, and points with the same x are merged.
func TestPoolByHand(t *testing.T) {
	for _, c := range []struct {
		name    string
		x, y, w []float64
		want    []Block
	}{
		{"nothing", nil, nil, nil, nil},
		{"ascending", []float64{2, 1}, []float64{5, 4}, nil, []Block{{1, 4, 1}, {2, 5, 1}}},
		{"equal values", []float64{1, 3}, []float64{4, 4}, nil, []Block{{2, 4, 2}}},
		{"violators", []float64{1, 2, 3}, []float64{6, 3, 0}, nil, []Block{{2, 3, 3}}},
		{"one x", []float64{1, 2, 2}, []float64{0, 1, 2}, nil, []Block{{1, 0, 1}, {2, 1.5, 2}}},
		{"weights", []float64{1, 4}, []float64{6, 3}, []float64{1, 2}, []Block{{3, 4, 3}}},
		{"no weight", []float64{1, 4}, []float64{6, 3}, []float64{0, 0}, []Block{{4, 3, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Pool(c.x, c.y, c.w)); d != "" {
				t.Errorf("Pool (-want +got):\n%s", d)
			}
		})
	}
}

// TestKnotsApart: blocks closer than a thousandth of the full width are joined, to limit the slope between them; the
// others become knots unchanged.
func TestKnotsApart(t *testing.T) {
	for _, c := range []struct {
		name string
		of   []Block
		x, y []float64
	}{
		{"two", []Block{{0, 0.25, 1}, {1, 0.75, 1}}, []float64{0, 1}, []float64{0.25, 0.75}},
		{"near", []Block{{0, 0, 1}, {0.0005, 0.5, 3}, {1, 1, 1}}, []float64{0.000375, 1}, []float64{0.375, 1}},
		{"just apart", []Block{{0, 0, 1}, {0.001, 0.5, 3}, {1, 1, 1}}, []float64{0, 0.001, 1}, []float64{0, 0.5, 1}},
		{"near the end", []Block{{0, 0, 1}, {999.5, 0.5, 1}, {1000, 1, 1}}, []float64{0, 999.75}, []float64{0, 0.75}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := knots(Isotonic, c.of)
			if err != nil {
				t.Fatal(err)
			}
			near := cmpopts.EquateApprox(0, 1e-15)
			if d := cmp.Diff(c.x, m.X, near) + cmp.Diff(c.y, m.Y, near); d != "" || m.Method != Isotonic {
				t.Errorf("knots by %s, x and y (-want +got):\n%s", m.Method, d)
			}
		})
	}
	for _, of := range [][]Block{nil, {{0, 1, 1}}, {{1, 0, 1}, {1, 1, 1}}} {
		if m, err := knots(Isotonic, of); err == nil {
			t.Errorf("knots of %v: got %v, want an error", of, m)
		}
	}
}

// TestFitRefused: rows that no monotone map fits, and invalid scores and labels.
func TestFitRefused(t *testing.T) {
	for _, c := range []struct {
		name, method   string
		scores, labels []float64
		want           string
	}{
		{"lengths", Isotonic, []float64{1}, []float64{0, 1}, "1 scores and 2 labels"},
		{"NaN", Isotonic, []float64{0, math.NaN()}, []float64{0, 1}, "row 1: score NaN"},
		{"infinite", Isotonic, []float64{math.Inf(1), 0}, []float64{0, 1}, "row 0: score +Inf"},
		{"label above 1", Isotonic, []float64{0, 1}, []float64{0, 1.5}, "row 1: score 1, label 1.5"},
		{"label below 0", Isotonic, []float64{0, 1}, []float64{-0.5, 1}, "row 0"},
		{"no label", Isotonic, []float64{0, 1}, []float64{0, math.NaN()}, "row 1"},
		{"method", "spline", []float64{0, 1}, []float64{0, 1}, `method "spline": want one of [isotonic platt inverse]`},
		{"one block", Isotonic, []float64{0, 1}, []float64{1, 0}, errFlat.Error()},
		{"one label", Inverse, []float64{0, 1}, []float64{1, 1}, errFlat.Error()},
		{"platt, half", Platt, []float64{0, 1, 2}, []float64{0, 0.5, 1}, "row 1 has the label 0.5"},
		{"platt, ones", Platt, []float64{0, 1}, []float64{1, 1}, "all labels are the same"},
		{"platt, zeros", Platt, []float64{0, 1}, []float64{0, 0}, "all labels are the same"},
		{"platt, one score", Platt, []float64{3, 3}, []float64{0, 1}, errFlat.Error()},
		{"platt, level", Platt, []float64{1, 1, 2, 2}, []float64{0, 1, 0, 1}, errFlat.Error()},
		{"platt, falling", Platt, []float64{1, 2, 3, 4}, []float64{1, 1, 0, 0}, errFlat.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if m, err := Fit(c.method, c.scores, c.labels); m != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Fit: got %v, %v, want an error with %q", m, err, c.want)
			}
		})
	}
}

// TestPlattIsTheMinimum: the curve has the minimum cross-entropy with Platt's targets, far from 0 and on any scale.
func TestPlattIsTheMinimum(t *testing.T) {
	labels := []float64{0, 0, 1, 0, 1, 1, 0, 1, 1, 1}
	for _, scale := range []float64{1, 1e-6, 1e6} {
		t.Run(fmt.Sprint(scale), func(t *testing.T) {
			var scores []float64
			for i := range labels {
				scores = append(scores, scale*(7+float64(i)))
			}
			m, err := Fit(Platt, scores, labels)
			if err != nil {
				t.Fatal(err)
			}
			loss := func(a, b float64) (sum float64) {
				for i, y := range labels {
					p, target := 1/(1+math.Exp(a*scores[i]+b)), 1./6 // (4 zeros + 2)
					if y == 1 {
						target = 7. / 8 // (6 ones + 1) / (6 + 2)
					}
					sum -= target*math.Log(p) + (1-target)*math.Log(1-p)
				}
				return sum
			}
			least := loss(m.A, m.B)
			for _, d := range [][2]float64{{1e-3, 0}, {-1e-3, 0}, {0, 1e-3}, {0, -1e-3}, {1e-3, -8e-3}, {-1e-3, 8e-3}} {
				if got := loss(m.A+d[0]/scale, m.B+d[1]); got <= least {
					t.Errorf("a %g, b %g: got loss %.12g beside it, want more than %.12g", m.A, m.B, got, least)
				}
			}
		})
	}
}

// TestReliability: bins of equal width, scores outside the range in the outermost ones, 0 in empty bins.
func TestReliability(t *testing.T) {
	got := Reliability([]float64{-0.5, 0, 0.24, 0.25, 0.75, 1, 1.5}, []float64{0, 0, 1, 1, 0, 1, 1}, 4)
	want := []Bin{{0, 3, -0.26 / 3, 1. / 3}, {0.25, 1, 0.25, 1}, {0.5, 0, 0, 0}, {0.75, 3, 3.25 / 3, 2. / 3}}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-15)); d != "" {
		t.Errorf("Reliability (-want +got):\n%s", d)
	}
	near(t, "error", Error(want), (1.26+0.75+1.25)/7, 1e-15)
	near(t, "distance", Distance([]float64{0.25, 0.5}, []float64{0.5, 0}), 0.375, 0)
}

// TestHalfWidthByHand: the ceil((n + 1) coverage)-th smallest distance, whatever the product rounds to.
func TestHalfWidthByHand(t *testing.T) {
	var scores, labels []float64
	for i := range 9 {
		scores, labels = append(scores, float64(9-i)), append(labels, 0)
	}
	for coverage, want := range map[float64]float64{0.9: 9, 0.8: 8, 0.81: 9, 0.5: 5, 0.1: 1} {
		t.Run(fmt.Sprint(coverage), func(t *testing.T) {
			if got, err := HalfWidth(scores, labels, coverage); err != nil || got != want {
				t.Errorf("HalfWidth: got %g, %v, want %g", got, err, want)
			}
		})
	}
	if _, err := HalfWidth(scores, labels, 0.91); err == nil || !strings.HasSuffix(err.Error(),
		"at least 11 separate edits, got 9") {
		t.Errorf("HalfWidth of too few: got error %v, want one with the required number", err)
	}
	for coverage, want := range map[float64]int{0.5: 1, 0.8: 4, 0.9: 9, 0.95: 19, 0.91: 11} {
		if got := IntervalRows(coverage); got != want {
			t.Errorf("IntervalRows(%g): got %d, want %d", coverage, got, want)
		}
	}
	near(t, "coverage", Coverage([]float64{0, 0.5, 1}, []float64{0.25, 0.5, 0}, 0.25), 2./3, 1e-15)
}

// TestFind: a nil calibration has no map.
func TestFind(t *testing.T) {
	var none *Calibration
	if got := none.Find(""); got != nil {
		t.Errorf("Find of none: got %v, want nil", got)
	}
	c := &Calibration{Format: 1, Maps: []Map{{Dimension: "a", Method: Platt, A: -1}, {Dimension: "a", Method: Platt,
		A: -1}}}
	if err := c.check(); err == nil || !strings.Contains(err.Error(), `maps[1]: duplicate dimension "a"`) {
		t.Errorf("one dimension twice: got error %v, want one with its place", err)
	}
	if c.Format = 2; c.check() == nil {
		t.Errorf("format 2: got error %v, want one", c.check())
	}
	if _, err := Read("testdata/none.json"); err == nil {
		t.Errorf("Read of no file: got error %v, want one", err)
	}
}

// TestPlattOfFew: one label of each kind is enough.
func TestPlattOfFew(t *testing.T) {
	for _, labels := range [][]float64{{0, 1}, {0, 1, 1}, {0, 0, 1}} {
		t.Run(fmt.Sprint(labels), func(t *testing.T) {
			m, err := Fit(Platt, []float64{0, 1, 2}[:len(labels)], labels)
			if err != nil || !(m.A < 0) || !finite(m.B) {
				t.Errorf("Fit: got %+v, %v, want a curve that rises", m, err)
			}
		})
	}
}

// TestCheckKnots: a knot with one number that is not finite is refused like a knot with two.
func TestCheckKnots(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, v := range [][4]float64{{nan, 1, 0, 1}, {0, inf, 0, 1}, {0, 1, nan, 1}, {0, 1, 0, inf}, {nan, 1, nan, 1}} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			m := &Map{Method: Isotonic, X: v[:2], Y: v[2:]}
			if err := m.check(); err == nil || !strings.Contains(err.Error(), "does not ascend") {
				t.Errorf("check: got error %v, want one", err)
			}
		})
	}
}
