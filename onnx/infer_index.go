package onnx

import "fmt"

func init() {
	inferAs(inferGather, "Gather")
	inferAs(inferGatherElements, "GatherElements")
	inferAs(inferGatherND, "GatherND")
	inferAs(inferSlice, "Slice")
	inferAs(inferPad, "Pad")
	inferAs(inferNonZero, "NonZero")
	inferAs(inferOneHot, "OneHot")
	inferAs(inferTopK, "TopK")
	inferAs(inferCompress, "Compress")
	inferAs(inferRandom, "RandomNormal", "RandomUniform")
}

func inferGather(c *inference) error {
	x, idx := c.shape(0), c.shape(1)
	t := c.arg(0).Type
	c.set(0, t, nil)
	if x == nil || idx == nil {
		return nil
	}
	a, err := axis(c.n.Int("axis", 0), len(x))
	if err != nil {
		return err
	}
	out := append([]Dim{}, x[:a]...)
	out = append(append(out, idx...), x[a+1:]...)
	c.set(0, t, out)
	ints, where := c.arg(0).Ints, c.arg(1).Ints
	if ints == nil || where == nil || len(out) > 1 {
		return nil
	}
	got := make([]Int, len(where))
	for i, w := range where {
		if !w.Known {
			return nil
		}
		j, err := axis(w.Value, len(ints))
		if err != nil {
			return fmt.Errorf("index %d is outside of %d elements", w.Value, len(ints))
		}
		got[i] = ints[j]
	}
	c.out[0].Ints = got
	return nil
}

func inferGatherElements(c *inference) error {
	x, idx := c.shape(0), c.shape(1)
	if x != nil && idx != nil && len(x) != len(idx) {
		return fmt.Errorf("the ranks %d and %d differ", len(x), len(idx))
	}
	c.set(0, c.arg(0).Type, idx)
	return nil
}

func inferGatherND(c *inference) error {
	x, idx := c.shape(0), c.shape(1)
	t, b := c.arg(0).Type, int(c.n.Int("batch_dims", 0))
	c.set(0, t, nil)
	if x == nil || len(idx) == 0 || !idx[len(idx)-1].Known() {
		return nil
	}
	k := b + int(idx[len(idx)-1].Size)
	if k > len(x) {
		return fmt.Errorf("indices of %v numbers (and batch_dims %d) for rank %d", idx[len(idx)-1], b, len(x))
	}
	c.set(0, t, append(append([]Dim{}, idx[:len(idx)-1]...), x[k:]...))
	return nil
}

// cut returns how many elements a slice of n elements has, by the rules of numpy.
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

func inferSlice(c *inference) error {
	x, t := c.shape(0), c.arg(0).Type
	c.set(0, t, nil)
	if x == nil {
		return nil
	}
	out := append([]Dim{}, x...)
	starts, ends := c.arg(1).Ints, c.arg(2).Ints
	n := vectorLength(c.arg(1))
	axes, ok, absent := c.ints(3, "")
	if !ok || n < 0 {
		c.set(0, t, unknownDims(len(x)))
		return nil
	}
	if absent {
		for i := 0; i < n; i++ {
			axes = append(axes, int64(i))
		}
	}
	steps, known, none := c.ints(4, "")
	if len(axes) != n || starts != nil && ends != nil && len(starts) != len(ends) || !none && known && len(steps) != n {
		return fmt.Errorf("starts, ends, axes and steps differ in length")
	}
	for i, at := range axes {
		a, err := axis(at, len(x))
		if err != nil {
			return err
		}
		step := int64(1)
		if !none && known {
			step = steps[i]
		}
		if step == 0 {
			return fmt.Errorf("a step is 0")
		}
		out[a] = Dim{Size: -1}
		if starts == nil || ends == nil || !known {
			continue
		}
		out[a] = slicedDim(x[a], starts[i], ends[i], step)
	}
	c.set(0, t, out)
	if v := c.arg(0).Ints; v != nil && len(x) == 1 && n == 1 && starts != nil && ends != nil && known && starts[0].Known && ends[0].Known {
		step := int64(1)
		if !none {
			step = steps[0]
		}
		size, at := int64(len(v)), starts[0].Value
		if at < 0 {
			at += size
		}
		low, high := int64(0), size
		if step < 0 {
			high--
		}
		at = min(max(at, low), high)
		ints := []Int{}
		for k := sliceLength(size, starts[0].Value, ends[0].Value, step); k > 0; k-- {
			ints = append(ints, v[at])
			at += step
		}
		c.out[0].Ints = ints
	}
	return nil
}

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
	case step == 1 && s >= 0 && e >= 1<<31-1: // the rest; assumed to exist
		return d.integer().minus(known(s)).dim()
	case step == 1 && s < 0 && e >= 1<<31-1, step == 1 && s < 0 && e < 0:
		return Dim{Size: -1}
	}
	return Dim{Size: -1}
}

func inferPad(c *inference) error {
	x, t := c.shape(0), c.arg(0).Type
	c.set(0, t, nil)
	if x == nil {
		return nil
	}
	pads := c.arg(1).Ints
	axes, ok, absent := c.ints(3, "")
	if pads == nil || !ok {
		c.set(0, t, unknownDims(len(x)))
		return nil
	}
	if absent {
		for i := range x {
			axes = append(axes, int64(i))
		}
	}
	if len(pads) != 2*len(axes) {
		return fmt.Errorf("%d pads for %d axes", len(pads), len(axes))
	}
	out := append([]Dim{}, x...)
	for i, at := range axes {
		a, err := axis(at, len(x))
		if err != nil {
			return err
		}
		n := x[a].integer().plus(pads[i]).plus(pads[i+len(axes)])
		if n.Known && n.Value < 0 {
			return fmt.Errorf("the pads take more from axis %d than its %v elements", a, x[a])
		}
		out[a] = n.dim()
	}
	c.set(0, t, out)
	return nil
}

func inferNonZero(c *inference) error {
	out := unknownDims(2)
	if x := c.shape(0); x != nil {
		out[0] = Fixed(int64(len(x)))
	}
	c.set(0, Int64, out)
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
