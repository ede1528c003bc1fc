package grad

import (
	"math"

	"assay/onnx"
)

// resizeDynamic resizes an axis whose sizes are only known when the model runs. The graph computes the interpolation
// matrix [out, in], in float32 as the runtime computes coordinates. i is the axis's index in sizes and scales.
func (c *call) resizeDynamic(y string, axis, i int) string {
	if c.n.Int("antialias", 0) != 0 || c.n.Int("exclude_outside", 0) != 0 ||
		c.n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
		c.fail("needs the sizes of axis %d of %q before the model runs, which antialias, exclude_outside and "+
			"keep_aspect_ratio_policy depend on", axis, c.x[0])
		return y
	}
	in, out := c.size(c.x[0], axis), c.size(c.y[0], axis)
	last := c.cast(c.sub(in, c.Ints(1)), onnx.Float)
	at := c.sourceDynamic(
		c.cast(in, onnx.Float),
		c.cast(out, onnx.Float),
		c.unsqueeze(c.cast(c.arange(out), onnx.Float), 1),
		i,
	)
	place := c.cast(c.arange(in), onnx.Float)
	inside := func(v string) string { return c.Op("Min", c.Op("Max", v, c.float(0)), last) }
	var m string
	switch mode := c.n.Str("mode", "nearest"); mode {
	case "nearest":
		m = c.cast(c.Op("Equal", inside(c.nearestDynamic(at)), place), onnx.Float)
	case "linear": // taps outside count as the edge, like a coordinate at the edge
		m = c.Op("Max", c.sub(c.float(1), c.Op("Abs", c.sub(inside(at), place))), c.float(0))
	case "cubic":
		m = c.cubicDynamic(at, place, inside)
	default:
		c.fail("needs mode nearest, linear or cubic, not %s", mode)
		return y
	}
	m = c.cast(m, c.value(y).Type)
	r := c.rank(y)
	if axis == r-2 {
		return c.Op("MatMul", m, y)
	}
	perm := axesUpTo(r)
	perm[axis], perm[r-1] = perm[r-1], perm[axis]
	return c.transpose(c.Op("MatMul", c.transpose(y, perm...), c.transpose(m, 1, 0)), perm...)
}

func (c *call) float(v float64) string { return c.Scalar(onnx.Float, v) }

// sourceDynamic is interpolation.source for all output elements x, [out, 1].
func (c *call) sourceDynamic(in, out, x string, i int) string {
	scale := c.div(out, in)
	if c.in(2) != "" && c.in(3) == "" {
		scale = c.Op("Slice", c.x[2], c.Ints(int64(i)), c.Ints(int64(i+1)))
	}
	half := func() string { return c.sub(c.div(c.add(x, c.float(0.5)), scale), c.float(0.5)) }
	single := c.Op("Equal", out, c.float(1))
	switch mode := c.n.Str("coordinate_transformation_mode", "half_pixel"); mode {
	case "half_pixel":
		return half()
	case "half_pixel_symmetric":
		adjustment := c.div(out, c.mul(scale, in))
		return c.add(c.mul(c.div(in, c.float(2)), c.sub(c.float(1), adjustment)), half())
	case "pytorch_half_pixel":
		return c.where(single, c.float(0), half())
	case "asymmetric":
		return c.div(x, scale)
	case "align_corners":
		if c.in(2) != "" && c.in(3) == "" && !c.wholeScale(i) {
			c.fail(alignCornersDiffer)
			return x
		}
		apart := c.where(single, c.float(1), c.sub(out, c.float(1)))
		return c.where(single, c.float(0), c.div(c.mul(x, c.sub(in, c.float(1))), apart))
	default:
		c.fail("unsupported coordinate_transformation_mode %s", mode)
		return x
	}
}

// wholeScale reports whether scale i is known to be a whole number.
func (c *call) wholeScale(i int) bool {
	scales := onnx.Floats(c.value(c.x[2]).Const)
	return i < len(scales) && scales[i] == math.Trunc(scales[i])
}

// nearestDynamic is interpolation.nearest.
func (c *call) nearestDynamic(x string) string {
	switch mode := c.n.Str("nearest_mode", "round_prefer_floor"); mode {
	case "round_prefer_floor":
		return c.Op("Ceil", c.sub(x, c.float(0.5)))
	case "round_prefer_ceil":
		return c.Op("Floor", c.add(x, c.float(0.5)))
	case "floor":
		return c.Op("Floor", x)
	case "ceil":
		return c.Op("Ceil", x)
	default:
		c.fail("unsupported nearest_mode %s", mode)
		return x
	}
}

// cubicDynamic sums four taps, with the kernel of interpolation.filter.
func (c *call) cubicDynamic(at, place string, inside func(string) string) string {
	a := float64(c.n.Float("cubic_coeff_a", -0.75))
	base := c.Op("Floor", at)
	m := ""
	for k := -1; k <= 2; k++ {
		tap := c.add(base, c.float(float64(k)))
		d := c.Op("Abs", c.sub(at, tap))
		near := c.add(c.mul(c.mul(c.sub(c.scale(d, a+2), c.float(a+3)), d), d), c.float(1))
		far := c.sub(c.mul(c.add(c.mul(c.sub(c.scale(d, a), c.float(5*a)), d), c.float(8*a)), d), c.float(4*a))
		w := c.masked(c.Op("Equal", inside(tap), place), c.where(c.Op("LessOrEqual", d, c.float(1)), near, far))
		if m == "" {
			m = w
		} else {
			m = c.add(m, w)
		}
	}
	return m
}
