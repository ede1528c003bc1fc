package curate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"assay/internal/testfile"
)

// outputsOf returns outputs with a score and a held-out number, row i of input i % inputs.
func outputsOf(inputs int, score, held []float64) *Outputs {
	o := &Outputs{values: map[string][]float64{}, inputs: map[input]int{}}
	for i := range score {
		in := input{fmt.Sprint(i % inputs), "blur it"}
		o.rows = append(o.rows, in)
		o.inputs[in]++
		o.add("score", score[i])
		o.add(heldOut, held[i])
	}
	return o
}

// TestConfirmationOfNumPy: gains, slopes and rank correlations equal numpy's and scipy's, intervals are as close as
// the draws of another generator, and the alarms are the same (tools/oracle/confirmation.py).
func TestConfirmationOfNumPy(t *testing.T) {
	var o struct {
		Wanted float64
		Cases  []struct {
			Name      string
			Columns   [4][]float64 // score before and after, held-out before and after
			Estimates []Estimate
			Slope     float64
			Agreement [2]float64
			Alarm     bool
		}
	}
	testfile.ReadJSON(t, "testdata/confirmation.json", &o)
	for _, c := range o.Cases {
		t.Run(c.Name, func(t *testing.T) {
			n := len(c.Columns[0])
			v, err := confirm(outputsOf(n, c.Columns[0], c.Columns[2]), outputsOf(n, c.Columns[1], c.Columns[3]), o.Wanted)
			if err != nil {
				t.Fatal(err)
			}
			for k, got := range []Estimate{v.Gain, v.HeldOut, v.Expected, v.Lacking} {
				want := c.Estimates[k]
				drawn := 0.1 * (want.High - want.Low) // of 2,000 draws against 20,000
				if !(math.Abs(got.Value-want.Value) <= 1e-12) || !(math.Abs(got.Low-want.Low) <= drawn) ||
					!(math.Abs(got.High-want.High) <= drawn) {
					t.Errorf("estimate %d: got %+v, want %+v", k, got, want)
				}
			}
			for _, pair := range [][2]float64{{v.Slope, c.Slope}, {*v.AgreementBefore, c.Agreement[0]},
				{*v.AgreementAfter, c.Agreement[1]}} {
				if !(math.Abs(pair[0]-pair[1]) <= 1e-12) {
					t.Errorf("slope or agreement: got %v, want %v", pair[0], pair[1])
				}
			}
			if v.Alarm != c.Alarm {
				t.Errorf("alarm: got %v, want %v", v.Alarm, c.Alarm)
			}
		})
	}
}

// TestConfirmationOfInputs: an input counts once, by the mean of its outputs; inputs that one table lacks do not
// count.
func TestConfirmationOfInputs(t *testing.T) {
	score, held := []float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{2, 1, 4, 3, 6, 5, 8, 7}
	twice := func(x []float64, off float64) (out []float64) {
		for k := range 2 {
			for _, v := range x {
				out = append(out, v+off*float64(2*k-1))
			}
		}
		return out
	}
	one, err := confirm(outputsOf(8, score, held), outputsOf(8, held, score), 0.5)
	if err != nil {
		t.Fatal(err)
	}
	before := outputsOf(8, twice(score, 3), twice(held, 1))
	after := outputsOf(9, append(held, 100), append(score, -100))
	two, err := confirm(before, after, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	if two.Inputs != 8 || two.Gain != one.Gain || two.Lacking != one.Lacking || two.Slope != one.Slope {
		t.Errorf("got %+v, want %+v", two, one)
	}
	_, err = confirm(outputsOf(7, score[:7], held[:7]), after, 0.5)
	if err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("seven inputs: got %v, want an error that counts them", err)
	}
	still := make([]float64, 8)
	if c, err := confirm(outputsOf(8, still, held), outputsOf(8, score, held), 0.5); err != nil || c.Slope != 0 ||
		c.Confirmed != nil || c.AgreementBefore != nil || c.Alarm {
		t.Errorf("a score that was constant: got %+v, %v, want no slope, share, agreement, or alarm", c, err)
	}
}
