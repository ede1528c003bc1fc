package grad

import "slices"

// unbroadcast sums g, a gradient of the broadcast shape, to the shape of x. The broadcast axes are constants if the
// shapes determine them; else they are found at run time by comparing the two shapes.
func (e *engine) unbroadcast(g, x string) string {
	c := &call{Builder: e.b, e: e}
	gv, xv := e.value(g), e.value(x)
	if !gv.Ranked || !xv.Ranked {
		return c.unbroadcastDynamic(g, x)
	}
	lead := len(gv.Shape) - len(xv.Shape)
	if lead < 0 {
		return g // the check of shapes names the node
	}
	var axes []int64
	for i := 0; i < lead; i++ {
		axes = append(axes, int64(i))
	}
	for i, d := range xv.Shape {
		h := gv.Shape[lead+i]
		switch {
		case d.Same(h):
		case d.Known() && d.Size == 1:
			axes = append(axes, int64(lead+i))
		case d.Known(), h.Known() && h.Size == 1: // the other is equal when the model runs
		default: // d may be 1
			return c.unbroadcastDynamic(g, x)
		}
	}
	switch {
	case len(axes) == 0:
		return g
	case len(axes) == lead:
		return c.sum(g, axes, false)
	case lead == 0:
		return c.sum(g, axes, true)
	}
	return c.reshapeLike(c.sum(g, axes, false), x)
}

// unbroadcastDynamic sums the axes where the shape of g differs from the shape of x, padded in front with ones.
func (c *call) unbroadcastDynamic(g, x string) string {
	gs, xs := c.shapeOf(g), c.shapeOf(x)
	padded := xs
	gr, xr := c.value(g).Rank(), c.value(x).Rank()
	if gr < 0 || xr < 0 {
		lead := c.Op("Sub", c.Op("Shape", gs), c.Op("Shape", xs))
		padded = c.concat(0, c.OpA("ConstantOfShape", attrs{"value": one}, lead), xs)
	} else if gr > xr {
		ones := slices.Repeat([]int64{1}, gr-xr)
		padded = c.concat(0, c.Ints(ones...), xs)
	}
	axes := c.Op("Reshape", c.Op("NonZero", c.Op("Not", c.Op("Equal", gs, padded))), c.Ints(-1))
	sum := c.OpA("ReduceSum", attrs{"keepdims": 1, "noop_with_empty_axes": 1}, g, axes)
	if gr >= 0 && gr == xr {
		return sum
	}
	return c.Op("Reshape", sum, xs)
}
