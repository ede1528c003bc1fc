package onnx

import (
	"fmt"
	"slices"
)

func init() {
	inferAs(inferShape, "Shape")
	inferAs(inferSize, "Size")
	inferAs(inferConstant, "Constant")
	inferAs(inferConstantOfShape, "ConstantOfShape")
	inferAs(inferReshape, "Reshape")
	inferShaped(inferFlatten, "Flatten")
	inferShaped(inferTranspose, "Transpose")
	inferShaped(inferSqueeze, "Squeeze")
	inferShaped(inferUnsqueeze, "Unsqueeze")
}

func inferShape(c *inference) error {
	x := c.shape(0)
	c.set(0, Int64, unknownDims(1))
	if x == nil {
		return nil
	}
	clip := func(v int64) int {
		if v < 0 {
			v += int64(len(x))
		}
		return int(min(max(v, 0), int64(len(x))))
	}
	from, to := clip(c.n.Int("start", 0)), clip(c.n.Int("end", int64(len(x))))
	to = max(from, to)
	c.set(0, Int64, Dims(to-from))
	ints := make([]Int, 0, to-from)
	for _, d := range x[from:to] {
		ints = append(ints, d.integer())
	}
	c.out[0].Ints = ints
	return nil
}

func count(dims []Dim) Int {
	n := known(1)
	for _, d := range dims {
		n = n.times(d.integer())
	}
	return n
}

func inferSize(c *inference) error {
	c.set(0, Int64, []Dim{})
	if x := c.shape(0); x != nil {
		c.out[0].Ints = []Int{count(x)}
	}
	return nil
}

func inferConstant(c *inference) error {
	var t *Tensor
	switch v := c.n.Attrs; {
	case v["value"] != nil:
		t, _ = v["value"].(*Tensor)
	case v["value_int"] != nil:
		t = &Tensor{Type: Int64, Shape: []int64{}, Data: int64Bytes([]int64{c.n.Int("value_int", 0)})}
	case v["value_ints"] != nil:
		x := c.n.Ints("value_ints")
		t = &Tensor{Type: Int64, Shape: []int64{int64(len(x))}, Data: int64Bytes(x)}
	case v["value_float"] != nil:
		t = &Tensor{Type: Float, Shape: []int64{}, Data: Float32Bytes([]float32{c.n.Float("value_float", 0)})}
	case v["value_floats"] != nil:
		x, _ := v["value_floats"].([]float32)
		t = &Tensor{Type: Float, Shape: []int64{int64(len(x))}, Data: Float32Bytes(x)}
	}
	if t == nil {
		return nil // strings are not computed with
	}
	shape := make([]Dim, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = Fixed(d)
	}
	c.set(0, t.Type, shape)
	c.out[0].Const, c.out[0].Ints = t, contents(t)
	return nil
}

// vectorLength returns the number of elements of a shape vector, -1 if it is unknown.
func vectorLength(v *Value) int {
	if v.Ints != nil {
		return len(v.Ints)
	}
	if len(v.Shape) == 1 && v.Shape[0].Known() {
		return int(v.Shape[0].Size)
	}
	return -1
}

func inferConstantOfShape(c *inference) error {
	t := Float
	value, _ := c.n.Attrs["value"].(*Tensor)
	if value != nil {
		t = value.Type
	}
	c.set(0, t, nil)
	v := c.arg(0)
	if r := vectorLength(v); v.Ints == nil && r >= 0 {
		c.set(0, t, unknownDims(r))
	} else if r >= 0 {
		dims := make([]Dim, r)
		for i, n := range v.Ints {
			dims[i] = n.dim()
		}
		c.set(0, t, dims)
		if n, ok := v.Known(); ok && len(n) <= 1 && value != nil {
			if one := contents(value); one != nil && (len(n) == 0 || n[0] <= maxInts) {
				c.out[0].Ints = []Int{one[0]}
				for len(n) == 1 && int64(len(c.out[0].Ints)) < n[0] {
					c.out[0].Ints = append(c.out[0].Ints, one[0])
				}
			}
		}
	}
	return nil
}

func inferReshape(c *inference) error {
	x, want := c.shape(0), c.arg(1)
	t := c.arg(0).Type
	c.set(0, t, nil)
	r := vectorLength(want)
	if r < 0 {
		return nil
	}
	if want.Ints == nil {
		c.set(0, t, unknownDims(r))
		return nil
	}
	out, inferred, err := reshapeDims(x, want.Ints, c.n.Int("allowzero", 0) != 0)
	if err == nil && x != nil {
		err = matchCount(out, inferred, count(x))
	}
	if err != nil {
		return err
	}
	c.set(0, t, out)
	if r == 1 && c.arg(0).places != nil {
		c.out[0].Ints = c.arg(0).places
	}
	if r <= 1 && c.arg(0).Ints != nil && len(c.arg(0).Ints) > 0 {
		c.out[0].Ints = c.arg(0).Ints
	}
	return nil
}

// reshapeDims turns the shape input of a Reshape of x into dimensions. inferred is the index of its -1, or -1 if it
// has none.
func reshapeDims(x []Dim, shape []Int, allowZero bool) (out []Dim, inferred int, err error) {
	out, inferred = unknownDims(len(shape)), -1
	for i, n := range shape {
		switch {
		case n.Known && n.Value == -1:
			if inferred >= 0 {
				return nil, 0, fmt.Errorf("the shape has two -1")
			}
			inferred = i
		case n.Known && n.Value == 0 && !allowZero:
			if x != nil && i >= len(x) {
				return nil, 0, fmt.Errorf("the shape copies dimension %d of an input of rank %d", i, len(x))
			}
			if x != nil {
				out[i] = x[i]
			}
		case n.Known && n.Value < -1:
			return nil, 0, fmt.Errorf("the shape contains %d", n.Value)
		default:
			out[i] = n.dim()
		}
	}
	return out, inferred, nil
}

// matchCount sets dimension inferred of out so that out has as many elements as the input. If inferred is -1, it only
// checks that.
func matchCount(out []Dim, inferred int, have Int) error {
	given, unknown := known(1), false
	for i, d := range out {
		if i != inferred {
			given = given.times(d.integer())
			unknown = unknown || d.integer().unnamed()
		}
	}
	switch {
	case inferred >= 0 && !unknown:
		out[inferred] = have.over(given, false).dim()
		if have.Known && given.Known && given.Value > 0 && have.Value%given.Value != 0 {
			return fmt.Errorf("%d elements are not divisible by %d", have.Value, given.Value)
		}
	case inferred < 0 && have.Known && given.Known && have.Value != given.Value:
		return fmt.Errorf("%d elements do not fit shape %v", have.Value, out)
	}
	return nil
}

func inferFlatten(c *inference, x []Dim) ([]Dim, error) {
	a := c.n.Int("axis", 1)
	if a < 0 {
		a += int64(len(x))
	}
	if a < 0 || a > int64(len(x)) {
		return nil, fmt.Errorf("axis %d is out of range for rank %d", a, len(x))
	}
	return []Dim{count(x[:a]).dim(), count(x[a:]).dim()}, nil
}

func inferTranspose(c *inference, x []Dim) ([]Dim, error) {
	perm := c.n.Ints("perm")
	out := slices.Clone(x)
	if perm == nil {
		slices.Reverse(out)
		return out, nil
	}
	if len(perm) != len(x) {
		return nil, fmt.Errorf("perm %v does not fit rank %d", perm, len(x))
	}
	for i, p := range perm {
		a, err := axis(p, len(x))
		if err != nil {
			return nil, err
		}
		out[i] = x[a]
	}
	return out, nil
}

func inferSqueeze(c *inference, x []Dim) ([]Dim, error) {
	axes, ok, absent := c.ints(1, "axes")
	if !ok {
		return nil, nil
	}
	gone := make([]bool, len(x))
	for i, d := range x {
		if absent && !d.Known() {
			return nil, nil
		}
		gone[i] = absent && d.Size == 1
	}
	for _, a := range axes {
		i, err := axis(a, len(x))
		if err != nil {
			return nil, err
		}
		if x[i].Known() && x[i].Size != 1 {
			return nil, fmt.Errorf("axis %d has size %v, not 1", a, x[i])
		}
		gone[i] = true
	}
	out := []Dim{}
	for i, d := range x {
		if !gone[i] {
			out = append(out, d)
		}
	}
	c.out[0].Ints = c.arg(0).Ints
	return out, nil
}

func inferUnsqueeze(c *inference, x []Dim) ([]Dim, error) {
	axes, ok, _ := c.ints(1, "axes")
	if !ok {
		return nil, nil
	}
	rank := len(x) + len(axes)
	added := make([]bool, rank)
	for _, a := range axes {
		i, err := axis(a, rank)
		if err != nil {
			return nil, err
		}
		added[i] = true
	}
	out, next := []Dim{}, 0
	for i := 0; i < rank; i++ {
		if added[i] {
			out = append(out, Fixed(1))
			continue
		}
		if next == len(x) {
			return nil, fmt.Errorf("the axes %v repeat", axes)
		}
		out = append(out, x[next])
		next++
	}
	if rank <= 1 {
		c.out[0].Ints = c.arg(0).Ints
	}
	return out, nil
}
