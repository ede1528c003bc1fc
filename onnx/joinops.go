package onnx

import "fmt"

func init() {
	inferShaped(inferExpand, "Expand")
	inferShaped(inferTile, "Tile")
	inferAs(inferConcat, "Concat")
	inferAs(inferSplit, "Split")
	inferShaped(inferDepthSpace, "DepthToSpace", "SpaceToDepth")
	inferAs(inferRange, "Range")
	inferAs(inferEyeLike, "EyeLike")
}

func inferExpand(c *inference, x []Dim) ([]Dim, error) {
	want := c.arg(1)
	r := vectorLength(want)
	switch {
	case r < 0:
		return nil, nil
	case want.Ints == nil:
		return unknownDims(max(r, len(x))), nil
	}
	dims := make([]Dim, r)
	for i, n := range want.Ints {
		dims[i] = n.dim()
	}
	return broadcastShapes(x, dims)
}

func inferTile(c *inference, x []Dim) ([]Dim, error) {
	reps := c.arg(1).Ints
	out := unknownDims(len(x))
	if reps != nil {
		if len(reps) != len(x) {
			return nil, fmt.Errorf("%d repeats for rank %d", len(reps), len(x))
		}
		for i := range x {
			out[i] = x[i].integer().times(reps[i]).dim()
		}
	}
	return out, nil
}

func inferConcat(c *inference) error {
	t := c.arg(0).Type
	c.set(0, t, nil)
	var out []Dim
	a := 0
	var ints []Int
	for i := range c.in {
		x := c.shape(i)
		if x == nil {
			return nil
		}
		if i == 0 {
			var err error
			if a, err = axis(c.n.Int("axis", 0), len(x)); err != nil {
				return err
			}
			out, ints = append([]Dim{}, x...), append([]Int{}, c.arg(0).Ints...)
			continue
		}
		if len(x) != len(out) {
			return fmt.Errorf("ranks %d and %d differ", len(out), len(x))
		}
		for j := range x {
			if j == a {
				out[j] = out[j].integer().plus(x[j].integer()).dim()
			} else if out[j].Known() && x[j].Known() && out[j].Size != x[j].Size {
				return fmt.Errorf("sizes %v and %v of axis %d differ", out[j], x[j], j)
			} else if !out[j].Known() && x[j].Known() {
				out[j] = x[j]
			}
		}
		ints = append(ints, c.arg(i).Ints...)
	}
	c.set(0, t, out)
	if len(out) == 1 && out[0].Known() && int(out[0].Size) == len(ints) && len(ints) <= maxInts {
		c.out[0].Ints = ints
	}
	return nil
}

func inferSplit(c *inference) error {
	x, t := c.shape(0), c.arg(0).Type
	for i := range c.out {
		c.set(i, t, nil)
	}
	if x == nil {
		return nil
	}
	a, err := axis(c.n.Int("axis", 0), len(x))
	if err != nil {
		return err
	}
	var sizes []Int
	if c.has(1) {
		if sizes = c.arg(1).Ints; sizes != nil && len(sizes) != len(c.out) {
			return fmt.Errorf("%d sizes for %d outputs", len(sizes), len(c.out))
		}
		if v, ok := c.arg(1).Known(); ok && x[a].Known() {
			sum := int64(0)
			for _, n := range v {
				sum += n
			}
			if sum != x[a].Size {
				return fmt.Errorf("the sizes %v do not add up to %v", v, x[a])
			}
		}
	} else if n := int64(len(c.out)); x[a].Known() {
		each := (x[a].Size + n - 1) / n
		for i := int64(0); i < n; i++ {
			sizes = append(sizes, known(max(0, min(each, x[a].Size-i*each))))
		}
	}
	if sizes != nil && !x[a].Known() { // the parts add up to x[a]: recorded in case they are joined again
		sum := sizes[0]
		for _, n := range sizes[1:] {
			sum = sum.plus(n)
		}
		if sum.Name != "" && len(sizes) > 1 {
			c.t.equal[sum.Name] = x[a]
		}
	}
	for i := range c.out {
		out := append([]Dim{}, x...)
		out[a] = Dim{Size: -1}
		if sizes != nil {
			out[a] = sizes[i].dim()
		}
		c.set(i, t, out)
	}
	return nil
}

func inferDepthSpace(c *inference, x []Dim) ([]Dim, error) {
	if len(x) != 4 {
		return nil, fmt.Errorf("needs rank 4")
	}
	b := known(c.n.Int("blocksize", 1))
	n, h, w := x[1].integer(), x[2].integer(), x[3].integer()
	if c.n.Op == "DepthToSpace" {
		n, h, w = n.over(b.times(b), false), h.times(b), w.times(b)
	} else {
		n, h, w = n.times(b.times(b)), h.over(b, false), w.over(b, false)
	}
	return []Dim{x[0], n.dim(), h.dim(), w.dim()}, nil
}

func inferRange(c *inference) error {
	c.set(0, c.arg(0).Type, unknownDims(1))
	from, to, step := c.arg(0).Ints, c.arg(1).Ints, c.arg(2).Ints
	if len(from) != 1 || len(to) != 1 || len(step) != 1 || !step[0].Known || step[0].Value == 0 {
		return nil
	}
	n := to[0].minus(from[0])
	if step[0].Value != 1 {
		if !n.Known {
			return nil
		}
		n = known(-(known(-n.Value).over(step[0], true).Value))
	}
	if n.Known {
		n.Value = max(0, n.Value)
	}
	c.set(0, c.arg(0).Type, []Dim{n.dim()})
	if n.Known && from[0].Known && n.Value <= maxInts {
		ints := make([]Int, n.Value)
		for i := range ints {
			ints[i] = known(from[0].Value + int64(i)*step[0].Value)
		}
		c.out[0].Ints = ints
	}
	return nil
}

func inferEyeLike(c *inference) error {
	t := DType(c.n.Int("dtype", int64(c.arg(0).Type)))
	c.set(0, t, c.shape(0))
	return nil
}
