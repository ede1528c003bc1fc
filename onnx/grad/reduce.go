package grad

var reduceRules = []entry{
	{
		op:                "ReduceSum",
		nonDifferentiable: []int{1},
		rule:              func(c *call) []string { return []string{c.expandBack(c.dy[0])} },
	},
	{op: "ReduceMean", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		return []string{c.expandBack(c.div(c.dy[0], c.reducedCount()))}
	}},
	{op: "ReduceMax", nonDifferentiable: []int{1}, rule: reduceExtremeRule},
	{op: "ReduceMin", nonDifferentiable: []int{1}, rule: reduceExtremeRule},
	// dX = dY sign(x)
	{op: "ReduceL1", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		return []string{c.mul(c.keepDims(c.dy[0]), c.Op("Sign", c.x[0]))}
	}},
	// dX = dY x / y, 0 where y is
	{op: "ReduceL2", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		y := c.where(c.Op("Equal", c.y[0], c.scalarLike(c.y[0], 0)), c.scalarLike(c.y[0], 1), c.y[0])
		return []string{c.mul(c.x[0], c.keepDims(c.div(c.dy[0], y)))}
	}},
	{op: "ReduceSumSquare", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		return []string{c.mul(c.x[0], c.keepDims(c.scale(c.dy[0], 2)))}
	}},
	// y = log sum x: dX = dY / e^y
	{op: "ReduceLogSum", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		return []string{c.expandBack(c.div(c.dy[0], c.Op("Exp", c.y[0])))}
	}},
	// y = log sum e^x: dX = dY e^(x - y)
	{op: "ReduceLogSumExp", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		return []string{c.mul(c.Op("Exp", c.sub(c.x[0], c.keepDims(c.y[0]))), c.keepDims(c.dy[0]))}
	}},
	{op: "ReduceProd", nonDifferentiable: []int{1}, rule: reduceProdRule},
	{op: "CumSum", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		return []string{
			c.OpA(
				"CumSum",
				attrs{"exclusive": c.n.Int("exclusive", 0), "reverse": 1 - c.n.Int("reverse", 0)},
				c.dy[0],
				c.x[1],
			),
			"",
		}
	}},
}

// reducedAxes returns the axes that the node reduces, known before the model runs. all is true if it reduces every
// axis; none if it reduces nothing (no axes, noop_with_empty_axes).
func (c *call) reducedAxes() (axes []int64, all, none, ok bool) {
	axes, ok = c.ints(1, "axes")
	if ok && len(axes) == 0 {
		none = c.n.Int("noop_with_empty_axes", 0) != 0
		return nil, !none, none, true
	}
	return axes, false, false, ok
}

// keepDims reinserts the reduced axes of a value (the output or its gradient) with size 1, so that it broadcasts to
// the input.
func (c *call) keepDims(v string) string {
	axes, all, none, ok := c.reducedAxes()
	switch {
	case none || c.n.Int("keepdims", 1) != 0:
		return v
	case all: // one element: it broadcasts as it is, unless its gradient is a scalar of a scalar
		return v
	case !ok:
		return c.Op("Unsqueeze", v, c.x[1])
	}
	return c.unsqueeze(v, axes...)
}

// expandBack repeats a reduced gradient over the input's shape.
func (c *call) expandBack(g string) string {
	return c.Op("Expand", c.keepDims(g), c.shapeOf(c.x[0]))
}

// reducedCount returns the number of elements reduced into each output element, in the type of the input.
func (c *call) reducedCount() string {
	x := c.value(c.x[0])
	axes, all, none, ok := c.reducedAxes()
	if none {
		return c.scalarLike(c.x[0], 1)
	}
	if all && x.Ranked {
		axes = axesUpTo(len(x.Shape))
	}
	if ok && x.Ranked {
		n, fixed := int64(1), true
		for _, a := range axes {
			d := x.Shape[(a+int64(len(x.Shape)))%int64(len(x.Shape))]
			n, fixed = n*d.Size, fixed && d.Known()
		}
		if fixed {
			return c.scalarLike(c.x[0], float64(n))
		}
	}
	total := c.Op("Size", c.x[0])
	return c.cast(c.Op("Div", total, c.Op("Size", c.y[0])), x.Type)
}

// reduceProdRule: dX is dY times the product of the other elements. P is the product of the nonzero elements: P / x
// if none is zero, P at the only zero, else 0.
func reduceProdRule(c *call) []string {
	x := c.x[0]
	over := func(op, v string) string {
		return c.keepDims(c.Node("", op, 1, c.n.Attrs, append([]string{v}, c.x[1:]...)...)[0])
	}
	zero, one := c.scalarLike(x, 0), c.scalarLike(x, 1)
	hole := c.Op("Equal", x, zero)
	filled := c.where(hole, one, x)
	product := over("ReduceProd", filled)
	// The product of 2 at zeros and 1 elsewhere encodes the number of zeros; ReduceProd gets the axes as the node
	// does in any opset.
	holes := over("ReduceProd", c.where(hole, c.scalarLike(x, 2), one))
	alone := c.masked(c.Op("Equal", holes, c.scalarLike(x, 2)), product)
	whole := c.masked(c.Op("Equal", holes, one), c.div(product, filled))
	return []string{c.mul(c.where(hole, alone, whole), c.keepDims(c.dy[0]))}
}

// reduceExtremeRule: the gradient goes to the extreme element; equal ones share it.
func reduceExtremeRule(c *call) []string {
	hit := c.cast(c.Op("Equal", c.x[0], c.keepDims(c.y[0])), c.value(c.x[0]).Type)
	var ties string
	axes, all, none, ok := c.reducedAxes()
	switch {
	case none:
		return []string{c.dy[0]}
	case all:
		ties = c.OpA("ReduceSum", attrs{"keepdims": 1}, hit)
	case !ok:
		ties = c.OpA("ReduceSum", attrs{"keepdims": 1}, hit, c.x[1])
	default:
		ties = c.sum(hit, axes, true)
	}
	return []string{c.mul(c.div(hit, ties), c.keepDims(c.dy[0]))}
}
