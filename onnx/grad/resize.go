package grad

import (
	"math"

	"assay/onnx"
)

// resize: along every axis the output is the product with an interpolation matrix, which follows from attributes and
// sizes.
func resize(c *call) []string {
	x := c.x[0]
	r := c.rank(x)
	axes := c.n.Ints("axes")
	if axes == nil {
		axes = axesUpTo(r)
	}
	scales := onnx.Floats(c.value(c.in(2)).Const)
	y := x
	for i, a := range axes {
		a = (a + int64(r)) % int64(r)
		in, out := c.value(x).Shape[a], c.value(c.y[0]).Shape[a]
		if in.Same(out) && (scales == nil || scales[i] == 1) {
			continue
		}
		if !in.Known() || !out.Known() || c.in(2) != "" && c.in(3) == "" && scales == nil {
			if y = c.resizeDynamic(y, int(a), i); c.err != nil {
				return nil
			}
			continue
		}
		if in.Size < 1 || out.Size < 1 || in.Size > maxConstant/out.Size {
			return c.fail("axis %d: no interpolation matrix from size %d to %d",
				a, in.Size, out.Size)
		}
		scale := float32(out.Size) / float32(in.Size)
		if len(scales) > i {
			scale = float32(scales[i])
		} else if c.n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
			return c.fail("needs keep_aspect_ratio_policy stretch")
		}
		m := interpolation{n: c.n, in: int(in.Size), out: int(out.Size), scale: scale}
		weights, err := m.matrix()
		if err != "" {
			return c.fail("%s", err)
		}
		y = c.alongAxis(y, weights, m.in, m.out, int(a))
	}
	return []string{y}
}

// alongAxis multiplies an axis of x by a matrix [out, in].
func (c *call) alongAxis(x string, weights []float64, in, out, axis int) string {
	t, r := c.value(x).Type, c.rank(x)
	if axis == r-2 {
		return c.Op("MatMul", c.Numbers(t, []int64{int64(out), int64(in)}, weights...), x)
	}
	transposed := make([]float64, len(weights))
	for o := range out {
		for i := range in {
			transposed[i*out+o] = weights[o*in+i]
		}
	}
	m := c.Numbers(t, []int64{int64(in), int64(out)}, transposed...)
	if axis == r-1 {
		return c.Op("MatMul", x, m)
	}
	perm := axesUpTo(r)
	perm[axis], perm[r-1] = perm[r-1], perm[axis]
	return c.transpose(c.Op("MatMul", c.transpose(x, perm...), m), perm...)
}

// interpolation describes a Resize along one axis.
type interpolation struct {
	n       *onnx.Node
	in, out int
	scale   float32
}

// matrix returns the weights [out, in], or the reason why the node has no gradient.
func (p interpolation) matrix() ([]float64, string) {
	m := make([]float64, p.out*p.in)
	for o := range p.out {
		at, bad := p.source(o)
		if bad != "" {
			return nil, bad
		}
		row := m[o*p.in : (o+1)*p.in]
		switch mode := p.n.Str("mode", "nearest"); mode {
		case "nearest":
			i, bad := p.nearest(at)
			if bad != "" {
				return nil, bad
			}
			row[min(max(i, 0), p.in-1)] = 1
		case "linear", "cubic":
			p.filter(row, float64(at), mode)
		default:
			return nil, "needs mode nearest, linear or cubic, not " + mode
		}
	}
	return m, ""
}

// alignCornersDiffer refuses sizes for which the standard, which divides by in*scale - 1, differs from ONNX Runtime,
// which divides by out - 1.
const alignCornersDiffer = "needs sizes, or scales that result in whole sizes, with align_corners: " +
	"ONNX Runtime and the standard differ otherwise"

// source returns the input coordinate of output element o, in float32 as the runtime computes it.
func (p interpolation) source(o int) (float32, string) {
	x, in, out := float32(o), float32(p.in), float32(p.out)
	switch mode := p.n.Str("coordinate_transformation_mode", "half_pixel"); mode {
	case "half_pixel":
		return (x+0.5)/p.scale - 0.5, ""
	case "half_pixel_symmetric":
		adjustment := out / (p.scale * in)
		return in/2*(1-adjustment) + (x+0.5)/p.scale - 0.5, ""
	case "pytorch_half_pixel":
		if p.out > 1 {
			return (x+0.5)/p.scale - 0.5, ""
		}
		return 0, ""
	case "asymmetric":
		return x / p.scale, ""
	case "align_corners":
		if math.Abs(float64(p.scale*in-out)) > 1e-4*float64(out) {
			return 0, alignCornersDiffer
		}
		if p.out == 1 {
			return 0, ""
		}
		return x * (in - 1) / (out - 1), ""
	default:
		return 0, "unsupported coordinate_transformation_mode " + mode
	}
}

func (p interpolation) nearest(x float32) (int, string) {
	v := float64(x)
	switch mode := p.n.Str("nearest_mode", "round_prefer_floor"); mode {
	case "round_prefer_floor":
		return int(math.Ceil(v - 0.5)), ""
	case "round_prefer_ceil":
		return int(math.Floor(v + 0.5)), ""
	case "floor":
		return int(math.Floor(v)), ""
	case "ceil":
		return int(math.Ceil(v)), ""
	default:
		return 0, "unsupported nearest_mode " + mode
	}
}

// filter adds the weights of the taps around x to a row. Taps outside count as the edge, or not at all.
func (p interpolation) filter(row []float64, x float64, mode string) {
	reach, kernel := 1.0, func(d float64) float64 { return max(0, 1-math.Abs(d)) }
	if mode == "cubic" {
		a := float64(p.n.Float("cubic_coeff_a", -0.75))
		reach, kernel = 2, func(d float64) float64 {
			switch d = math.Abs(d); {
			case d <= 1:
				return ((a+2)*d-(a+3))*d*d + 1
			case d < 2:
				return ((a*d-5*a)*d+8*a)*d - 4*a
			}
			return 0
		}
	}
	squeeze, exclude := 1.0, p.n.Int("exclude_outside", 0) != 0
	if p.n.Int("antialias", 0) != 0 && p.scale < 1 {
		squeeze = float64(p.scale)
	}
	sum := 0.0
	for i := int(math.Floor(x - reach/squeeze)); i <= int(math.Ceil(x+reach/squeeze)); i++ {
		w := kernel((float64(i) - x) * squeeze)
		if inside := i >= 0 && i < p.in; !inside && exclude {
			continue
		}
		row[min(max(i, 0), p.in-1)] += w
		sum += w
	}
	for i := range row {
		if sum != 0 {
			row[i] /= sum
		}
	}
}
