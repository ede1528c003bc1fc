package stats

import (
	"math"
	"testing"

	"assay/internal/testfile"
)

// TestBradleyTerry: strengths are those of torch's maximum of the likelihood, tau-b is scipy's
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
		got := BradleyTerry(c.Wins)
		for k, want := range c.Strengths {
			if !(math.Abs(got[k]-want) <= 1e-6) {
				t.Errorf("case %d: %v, want %v", i, got, c.Strengths)
				break
			}
		}
	}
	for i, c := range f.Taus {
		if got := KendallB(c.X, c.Y); !(math.Abs(got-c.Tau) <= 1e-12) {
			t.Errorf("case %d: tau-b %v, want %v", i, got, c.Tau)
		}
	}
	for _, wins := range [][][]float64{
		{{0, 3}, {0, 0}}, // one won everything
		{{0, 2, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 2, 0}}, // two never met the others
	} {
		if got := BradleyTerry(wins); !math.IsNaN(got[0]) {
			t.Errorf("%v: %v, want no strengths", wins, got)
		}
	}
	if got := BradleyTerry([][]float64{{0, 3}, {1, 0}}); !(math.Abs(got[0]-got[1]-math.Log(3)) <= 1e-12) {
		t.Errorf("strengths of 3 wins to 1: got %v, want log 3 apart", got)
	}
	if v := KendallB([]float64{1, 1}, []float64{1, 2}); !math.IsNaN(v) {
		t.Errorf("tau-b with ties alone: got %v, want NaN", v)
	}
}
