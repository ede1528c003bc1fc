package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"assay/internal/testfile"
)

// TestBradleyTerry: strengths equal torch's maximum of the likelihood, tau-b equals scipy's
// (tools/oracle/bradley_terry.py).
func TestBradleyTerry(t *testing.T) {
	var f struct {
		Cases []struct {
			Wins      [][]float64
			Strengths []float64
		}
		Taus []struct {
			X, Y []float64
			Tau  float64
		}
	}
	testfile.ReadJSON(t, "testdata/bradleyterry.json", &f)
	for i, c := range f.Cases {
		t.Run(fmt.Sprintf("case %d", i), func(t *testing.T) {
			got := BradleyTerry(c.Wins)
			for k, want := range c.Strengths {
				if !(math.Abs(got[k]-want) <= 1e-6) {
					t.Errorf("case %d: %v, want %v", i, got, c.Strengths)
					break
				}
			}
		})
	}
	for i, c := range f.Taus {
		t.Run(fmt.Sprintf("tau %d", i), func(t *testing.T) {
			if got := KendallB(c.X, c.Y); !(math.Abs(got-c.Tau) <= 1e-12) {
				t.Errorf("case %d: tau-b %v, want %v", i, got, c.Tau)
			}
		})
	}
	for _, wins := range [][][]float64{
		{{0, 3}, {0, 0}}, // one won everything
		{{0, 2, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 2, 0}}, // two never met the others
	} {
		t.Run(fmt.Sprint(wins), func(t *testing.T) {
			if got := BradleyTerry(wins); !math.IsNaN(got[0]) {
				t.Errorf("%v: %v, want no strengths", wins, got)
			}
		})
	}
	if got := BradleyTerry([][]float64{{0, 3}, {1, 0}}); !(math.Abs(got[0]-got[1]-math.Log(3)) <= 1e-12) {
		t.Errorf("strengths of 3 wins to 1: got %v, want log 3 apart", got)
	}
	if v := KendallB([]float64{1, 1}, []float64{1, 2}); !math.IsNaN(v) {
		t.Errorf("tau-b with only ties: got %v, want NaN", v)
	}
}

// TestBradleyTerryOfFew: no contestant, one, and pairs who won once each.
func TestBradleyTerryOfFew(t *testing.T) {
	for _, c := range []struct{ wins, want string }{
		{"[]", "[]"},
		{"[[0]]", "[0]"},
		{"[[0,1],[1,0]]", "[0 0]"},
		{"[[0,0.5],[0.5,0]]", "[0 0]"},
		{"[[0,1,0],[0,0,1],[1,0,0]]", "[0 0 0]"}, // each beat the next
	} {
		t.Run(c.wins, func(t *testing.T) {
			var wins [][]float64
			if err := json.Unmarshal([]byte(c.wins), &wins); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%.9v", BradleyTerry(wins)); got != c.want {
				t.Errorf("BradleyTerry(%s): got %s, want %s", c.wins, got, c.want)
			}
		})
	}
}

// TestKendallB: values known from counting pairs.
func TestKendallB(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 2}, []float64{5, 6}, 1},
		{[]float64{1, 2}, []float64{6, 5}, -1},
		{[]float64{1, 2, 3}, []float64{1, 3, 2}, 1. / 3},
		{[]float64{1, 1, 2}, []float64{1, 2, 2}, 1. / 2},                    // a tie in each: 1 of sqrt(2 * 2)
		{[]float64{1, 1, 2, 3}, []float64{4, 4, 5, 5}, 4. / math.Sqrt(5*4)}, // one pair is tied in both
		{nil, nil, math.NaN()},
	} {
		t.Run(fmt.Sprint(c.x, c.y), func(t *testing.T) {
			if got := KendallB(c.x, c.y); !(math.Abs(got-c.want) <= 1e-15) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
				t.Errorf("KendallB(%v, %v): got %v, want %v", c.x, c.y, got, c.want)
			}
		})
	}
}
