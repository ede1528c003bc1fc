package protocol

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestCoverageNames(t *testing.T) {
	for want, c := range map[string]Coverage{"x": {Used: 3, Of: 3}, "x (50% of 4)": {Used: 2, Of: 4},
		"x (99.9% of 1432)": {Used: 1431, Of: 1432}, "x (0% of 9)": {Of: 9}} {
		t.Run(want, func(t *testing.T) {
			if got := (Basis{Rule: "x", Coverage: c}).Name(); got != want {
				t.Errorf("%v: %s, want %s", c, got, want)
			}
		})
	}
}

// Every part of a basis keeps numbers apart, and the reason names it.
func TestBasisDiffers(t *testing.T) {
	b := Basis{Benchmark: "b", Rule: "r", Coverage: Coverage{Used: 2, Of: 2}, Terms: Terms{Judge: "j"}}
	if why := b.Differs(b); why != "" {
		t.Errorf("Differs from itself: got %q, want nothing", why)
	}
	for want, change := range map[string]func(*Basis){
		"it is of c, not of b":               func(o *Basis) { o.Benchmark = "c" },
		"its rule is s, not r":               func(o *Basis) { o.Rule = "s" },
		"computed on 3 items, not on 2":      func(o *Basis) { o.Coverage = Coverage{Used: 3, Of: 3} },
		"it covers 1 of 2 items":             func(o *Basis) { o.Coverage = Coverage{Used: 1, Of: 2, Without: "x"} },
		"its part is s, the other's is":      func(o *Basis) { o.Subset = "s" },
		"its judge is k, not j":              func(o *Basis) { o.Judge = "k" },
		"its normalisation is n":             func(o *Basis) { o.Normalisation = "n" },
		"over 1 of 2, not the mean over all": func(o *Basis) { o.Over = "the mean over 1 of 2" },
		"absent answers":                     func(o *Basis) { o.Counted = true },
	} {
		t.Run(want, func(t *testing.T) {
			o := b
			change(&o)
			if why := o.Differs(b); !strings.Contains(why, want) {
				t.Errorf("%q, want %q", why, want)
			}
		})
	}
}

// TestMeanInterval: four equal values of each source say no more than one.
func TestMeanInterval(t *testing.T) {
	var one, four []float64
	var sources Sources
	for i := range 40 {
		one = append(one, float64(i*7%5))
		for range 4 {
			sources.Add(fmt.Sprint(i), len(four))
			four = append(four, one[i])
		}
	}
	got, want := MeanInterval(four, sources.Samples, 200, 1), MeanInterval(one, nil, 200, 1)
	if got == nil || math.Abs(got.Low-want.Low)+math.Abs(got.High-want.High) > 1e-9 || want.High-want.Low < 0.5 {
		t.Errorf("got %v, want %v", got, want)
	}
}
