package onnx

import (
	"fmt"
	"slices"
)

func init() {
	inferShaped(inferGather, "Gather")
	inferAs(inferGatherElements, "GatherElements")
	inferShaped(inferGatherND, "GatherND")
	inferShaped(inferSlice, "Slice")
	inferShaped(inferPad, "Pad")
	inferAs(inferNonZero, "NonZero")
	inferAs(inferOneHot, "OneHot")
	inferAs(inferTopK, "TopK")
	inferAs(inferCompress, "Compress")
	inferAs(inferRandom, "RandomNormal", "RandomUniform")
}

func inferGather(c *inference, x []Dim) ([]Dim, error) {
	idx := c.shape(1)
	if idx == nil {
		return nil, nil
	}
	a, err := axis(c.n.Int("axis", 0), len(x))
	if err != nil {
		return nil, err
	}
	out := append([]Dim{}, x[:a]...)
	out = append(append(out, idx...), x[a+1:]...)
	ints, where := c.arg(0).Ints, c.arg(1).Ints
	if ints == nil || where == nil || len(out) > 1 {
		return out, nil
	}
	got := make([]Int, len(where))
	for i, w := range where {
		if !w.Known {
			return out, nil
		}
		j, err := axis(w.Value, len(ints))
		if err != nil {
			return nil, fmt.Errorf("index %d is out of range for %d elements", w.Value, len(ints))
		}
		got[i] = ints[j]
	}
	c.out[0].Ints = got
	return out, nil
}

func inferGatherElements(c *inference) error {
	x, idx := c.shape(0), c.shape(1)
	if x != nil && idx != nil && len(x) != len(idx) {
		return fmt.Errorf("the ranks %d and %d differ", len(x), len(idx))
	}
	c.set(0, c.arg(0).Type, idx)
	return nil
}

func inferGatherND(c *inference, x []Dim) ([]Dim, error) {
	idx, b := c.shape(1), int(c.n.Int("batch_dims", 0))
	if len(idx) == 0 || !idx[len(idx)-1].Known() {
		return nil, nil
	}
	k := b + int(idx[len(idx)-1].Size)
	if k > len(x) {
		return nil, fmt.Errorf("indices of %v numbers (batch_dims %d) for rank %d", idx[len(idx)-1], b, len(x))
	}
	return append(append([]Dim{}, idx[:len(idx)-1]...), x[k:]...), nil
}

// sliceLength returns the length of a slice of n elements under the rules of numpy.
func sliceLength(n, start, end, step int64) int64 {
	clip := func(v, low, high int64) int64 {
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	if step > 0 {
		start, end = clip(start, 0, n), clip(end, 0, n)
		return max(0, (end-start+step-1)/step)
	}
	start, end = clip(start, 0, n-1), clip(end, -1, n-1)
	return max(0, (start-end-step-1)/-step)
}

func inferSlice(c *inference, x []Dim) ([]Dim, error) {
	s, err := c.sliceArgs()
	if err != nil {
		return nil, err
	}
	if s == nil {
		return unknownDims(len(x)), nil
	}
	out := append([]Dim{}, x...)
	for i, at := range s.axes {
		a, err := axis(at, len(x))
		if err != nil {
			return nil, err
		}
		if s.steps != nil && s.steps[i] == 0 {
			return nil, fmt.Errorf("a step is 0")
		}
		out[a] = Dim{Size: -1}
		if s.starts != nil && s.ends != nil && s.steps != nil {
			out[a] = slicedDim(x[a], s.starts[i], s.ends[i], s.steps[i])
		}
	}
	if v := c.arg(0).Ints; v != nil && len(x) == 1 && len(s.axes) == 1 && s.known() {
		c.out[0].Ints = slicedInts(v, s.starts[0].Value, s.ends[0].Value, s.steps[0])
	}
	return out, nil
}

// sliceArgs are the inputs of a Slice node. starts, ends and steps are nil if they are only known when the model
// runs.
type sliceArgs struct {
	starts, ends []Int
	axes, steps  []int64
}

// known reports whether the first axis's start, end and step are known numbers.
func (s *sliceArgs) known() bool {
	return s.starts != nil && s.ends != nil && s.steps != nil && s.starts[0].Known && s.ends[0].Known
}

// sliceArgs reads the inputs of a Slice node; nil if its axes are not known.
func (c *inference) sliceArgs() (*sliceArgs, error) {
	n := vectorLength(c.arg(1))
	axes, ok, absent := c.ints(3, "")
	if !ok || n < 0 {
		return nil, nil
	}
	for i := 0; absent && i < n; i++ {
		axes = append(axes, int64(i))
	}
	s := &sliceArgs{starts: c.arg(1).Ints, ends: c.arg(2).Ints, axes: axes}
	steps, known, absent := c.ints(4, "")
	switch {
	case absent:
		s.steps = slices.Repeat([]int64{1}, n)
	case known:
		s.steps = steps
	}
	if len(axes) != n || s.starts != nil && s.ends != nil && len(s.starts) != len(s.ends) ||
		s.steps != nil && len(s.steps) != n {
		return nil, fmt.Errorf("starts, ends, axes and steps differ in length")
	}
	return s, nil
}

// slicedInts returns the elements of v from start to end, under the rules of numpy.
func slicedInts(v []Int, start, end, step int64) []Int {
	size, at := int64(len(v)), start
	if at < 0 {
		at += size
	}
	low, high := int64(0), size
	if step < 0 {
		high--
	}
	at = min(max(at, low), high)
	ints := []Int{}
	for k := sliceLength(size, start, end, step); k > 0; k-- {
		ints = append(ints, v[at])
		at += step
	}
	return ints
}

// slicedDim returns the size of a dimension after slicing it.
func slicedDim(d Dim, start, end Int, step int64) Dim {
	if !start.Known || !end.Known {
		if step == 1 && start.Known && start.Value == 0 && end.same(d.integer()) {
			return d
		}
		return Dim{Size: -1}
	}
	s, e := start.Value, end.Value
	switch {
	case d.Known():
		return Fixed(sliceLength(d.Size, s, e, step))
	case step == 1 && s == 0 && e >= 1<<31-1:
		return d
	case step == 1 && s >= 0 && e >= 1<<31-1: // to the end; assumed to be in range
		return d.integer().minus(known(s)).dim()
	}
	return Dim{Size: -1}
}

func inferPad(c *inference, x []Dim) ([]Dim, error) {
	pads := c.arg(1).Ints
	axes, ok, absent := c.ints(3, "")
	if pads == nil || !ok {
		return unknownDims(len(x)), nil
	}
	if absent {
		axes = allAxes(x)
	}
	if len(pads) != 2*len(axes) {
		return nil, fmt.Errorf("%d pads for %d axes", len(pads), len(axes))
	}
	out := append([]Dim{}, x...)
	for i, at := range axes {
		a, err := axis(at, len(x))
		if err != nil {
			return nil, err
		}
		n := x[a].integer().plus(pads[i]).plus(pads[i+len(axes)])
		if n.Known && n.Value < 0 {
			return nil, fmt.Errorf("the pads remove more from axis %d than its %v elements", a, x[a])
		}
		out[a] = n.dim()
	}
	return out, nil
}

func inferNonZero(c *inference) error {
	out, x := unknownDims(2), c.shape(0)
	if x != nil {
		out[0] = Fixed(int64(len(x)))
	}
	var places []Int
	if v, ok := c.arg(0).Known(); ok && len(x) == 1 {
		places = []Int{}
		for i, n := range v {
			if n != 0 {
				places = append(places, known(int64(i)))
			}
		}
		out[1] = Fixed(int64(len(places)))
	}
	c.set(0, Int64, out)
	c.out[0].places = places
	return nil
}

func inferOneHot(c *inference) error {
	idx := c.shape(0)
	c.set(0, c.arg(2).Type, nil)
	if idx == nil {
		return nil
	}
	a, err := axis(c.n.Int("axis", -1), len(idx)+1)
	if err != nil {
		return err
	}
	depth := Dim{Size: -1}
	if d := c.arg(1).Ints; len(d) == 1 {
		depth = d[0].dim()
	}
	out := append([]Dim{}, idx[:a]...)
	c.set(0, c.arg(2).Type, append(append(out, depth), idx[a:]...))
	return nil
}

func inferTopK(c *inference) error {
	x := c.shape(0)
	c.set(0, c.arg(0).Type, nil)
	c.set(1, Int64, nil)
	if x == nil {
		return nil
	}
	a, err := axis(c.n.Int("axis", -1), len(x))
	if err != nil {
		return err
	}
	out := append([]Dim{}, x...)
	out[a] = Dim{Size: -1}
	if k := c.arg(1).Ints; len(k) == 1 {
		out[a] = k[0].dim()
	}
	c.set(0, c.arg(0).Type, out)
	c.set(1, Int64, out)
	return nil
}

func inferCompress(c *inference) error {
	x := c.shape(0)
	a, given := c.n.Attrs["axis"].(int64)
	if !given || x == nil {
		c.set(0, c.arg(0).Type, unknownDims(1))
		return nil
	}
	i, err := axis(a, len(x))
	if err != nil {
		return err
	}
	out := append([]Dim{}, x...)
	out[i] = Dim{Size: -1}
	c.set(0, c.arg(0).Type, out)
	return nil
}

func inferRandom(c *inference) error {
	shape := c.n.Ints("shape")
	out := make([]Dim, len(shape))
	for i, d := range shape {
		out[i] = Fixed(d)
	}
	c.set(0, DType(c.n.Int("dtype", int64(Float))), out)
	return nil
}
