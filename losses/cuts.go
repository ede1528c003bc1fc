package losses

import (
	"math"
	"slices"

	"assay/onnx"
)

// The kinds of cuts of an ordinal loss.
const (
	CutsFixed   = "fixed"   // the means of neighbouring values
	CutsLearned = "learned" // trained; initialized with the fixed ones
)

// Parameter is a trainable tensor of a term: a graph input of that name.
type Parameter struct {
	Name  string
	Value []float64 // initial value
}

// Parameters returns the trainable parameters of term i of an objective.
func Parameters(i int, s *Spec) []Parameter {
	if s.Cuts != CutsLearned {
		return nil
	}
	return []Parameter{{Name(i, "cuts"), s.cuts()}}
}

// cuts returns the fixed cuts in the parametrization that is learned: the first cut, and the logarithms of the gaps
// between neighbours. This keeps them ascending (ordered vectors: Stan Reference Manual, Constraint Transforms).
func (s *Spec) cuts() []float64 {
	out := make([]float64, len(s.Values)-1)
	for k := range out {
		out[k] = (s.Values[k] + s.Values[k+1]) / 2
	}
	for k := len(out) - 1; k > 0; k-- {
		out[k] = math.Log(out[k] - out[k-1])
	}
	return out
}

// ordinalLearned is ordinal with cuts that are an input: 1 - e^-g = 2 tanh(g/2) / (1 + tanh(g/2)), g the scaled gap
// between two cuts, a form without cancellation.
func ordinalLearned(t *term) string {
	n := len(t.Values)
	u := t.input("cuts", onnx.Dims(n-1))
	s, step := t.score(), t.declare("step", onnx.Int64, onnx.Dims("items"))
	zero := t.Numbers(t.dtype, []int64{1}, 0)
	row := func(parts ...string) string { // a value of each class, for the classes of the items
		all := t.OpA("Concat", onnx.Attrs{"axis": 0}, parts...)
		return t.OpA("Gather", onnx.Attrs{"axis": 0}, all, step)
	}
	cuts, between := u, ""
	if n == 2 {
		between = row(zero, zero)
	} else {
		gaps := t.Op("Exp", t.Op("Slice", u, t.Ints(1), t.Ints(int64(n-1))))
		first := t.Op("Slice", u, t.Ints(0), t.Ints(1))
		cuts = t.Op("CumSum", t.OpA("Concat", onnx.Attrs{"axis": 0}, first, gaps), t.Int(0))
		half := t.Op("Tanh", t.times(gaps, t.Scale/2))
		log := t.sub(t.Op("Log", t.add(half, t.num(1))), t.add(t.Op("Log", half), t.num(math.Ln2)))
		between = row(zero, log, zero)
	}
	one := slices.Repeat([]float64{1}, n-1)
	ones := t.Numbers(t.dtype, []int64{int64(n - 1)}, one...)
	below := t.mul(row(ones, zero), t.softplus(t.times(t.sub(s, row(cuts, zero)), t.Scale)))
	above := t.mul(row(zero, ones), t.softplus(t.times(t.sub(row(zero, cuts), s), t.Scale)))
	return t.add(t.add(below, above), between)
}
