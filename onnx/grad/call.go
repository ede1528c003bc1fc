package grad

import (
	"fmt"
	"math"
	"slices"

	"assay/onnx"
)

type attrs = onnx.Attrs

// call is one application of a rule: a node with the gradients of its outputs. Its methods emit nodes in the model's
// opset.
type call struct {
	*onnx.Builder
	e         *engine
	n         *onnx.Node
	x, y      []string // inputs and outputs (their second computation under recomputation)
	dy        []string // gradients of the outputs, "" for outputs that nothing depends on
	needsGrad []bool   // inputs whose gradient is needed
	// covered are inputs whose gradient the rule has included in the gradient of another input (see mulRule).
	covered      []bool
	captures     []string          // captures of the node's subgraphs that need a gradient
	captureGrads map[string]string // gradients of captures
	leaves       []string
	recomputed   map[string]string // forward values computed a second time
	err          error
}

// current returns the forward value to use in the backward pass: the recomputed one if there is one.
func (c *call) current(x string) string {
	if y, ok := c.recomputed[x]; ok {
		return y
	}
	return x
}

// fail records why the rule cannot be applied.
func (c *call) fail(format string, args ...any) []string {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
	return nil
}

// setCaptureGrad sets the gradient of a value that the node's subgraphs capture.
func (c *call) setCaptureGrad(x, g string) {
	if c.captureGrads == nil {
		c.captureGrads = map[string]string{}
	}
	c.captureGrads[x] = g
}

func (c *call) needs(i int) bool { return i < len(c.needsGrad) && c.needsGrad[i] }

// in returns input i, "" if it is omitted.
func (c *call) in(i int) string {
	if i < len(c.x) {
		return c.x[i]
	}
	return ""
}

func (c *call) value(name string) *onnx.Value { return c.e.value(name) }

// rank returns the rank of a value; the rule fails if it is unknown.
func (c *call) rank(name string) int {
	r := c.value(name).Rank()
	if r < 0 {
		c.fail("needs the rank of %q, which shape inference does not find", name)
		return 0
	}
	return r
}

// axis returns the attribute axis of the node as an axis of x counted from the front.
func (c *call) axis(fallback int64, x string) int64 {
	a, r := c.n.Int("axis", fallback), int64(c.rank(x))
	if a < 0 {
		a += r
	}
	if a < 0 || a >= max(r, 1) {
		c.fail("axis %d is out of range for rank %d", c.n.Int("axis", fallback), r)
	}
	return a
}

// ints returns constant integers given as an input, or as an attribute in older operator sets.
func (c *call) ints(input int, attr string) ([]int64, bool) {
	if v := c.n.Ints(attr); v != nil {
		return v, true
	}
	if c.in(input) == "" {
		return nil, true
	}
	return c.value(c.in(input)).Known()
}

// sizes returns the shape of a value that must be known before the model runs.
func (c *call) sizes(name, why string) []int64 {
	s, ok := c.value(name).Sizes()
	if !ok {
		c.fail("needs %s, but %q is %v", why, name, c.value(name))
	}
	return s
}

func (c *call) add(a, b string) string { return c.Op("Add", a, b) }
func (c *call) sub(a, b string) string { return c.Op("Sub", a, b) }
func (c *call) mul(a, b string) string { return c.Op("Mul", a, b) }
func (c *call) div(a, b string) string { return c.Op("Div", a, b) }
func (c *call) neg(a string) string    { return c.Op("Neg", a) }

// scalarLike returns the scalar v in the type of x.
func (c *call) scalarLike(x string, v float64) string { return c.Scalar(c.value(x).Type, v) }

// lowest returns the lowest finite number of the type of x.
func (c *call) lowest(x string) string {
	switch c.value(x).Type {
	case onnx.Float16:
		return c.scalarLike(x, -65504)
	case onnx.BFloat16:
		return c.scalarLike(x, -3.3895e38)
	}
	return c.scalarLike(x, -math.MaxFloat32)
}

// scale multiplies by a number; a factor of 1 emits nothing.
func (c *call) scale(x string, v float64) string {
	if v == 1 {
		return x
	}
	return c.mul(x, c.scalarLike(x, v))
}

func (c *call) where(cond, a, b string) string { return c.Op("Where", cond, a, b) }

// masked returns g where cond holds, else 0.
func (c *call) masked(cond, g string) string { return c.where(cond, g, c.scalarLike(g, 0)) }

func (c *call) cast(x string, t onnx.DType) string {
	if c.value(x).Type == t {
		return x
	}
	return c.OpA("Cast", attrs{"to": t}, x)
}

var one = &onnx.Tensor{Name: "value", Type: onnx.Int64, Shape: []int64{1}, Data: onnx.ScalarBytes(onnx.Int64, 1)}

// shapeOf returns the shape of x as an int64 vector: a constant if it is known.
func (c *call) shapeOf(x string) string {
	if s, ok := c.value(x).Sizes(); ok {
		return c.Ints(s...)
	}
	if parts := c.sizesOf(x); parts != nil {
		return c.shape(parts...)
	}
	return c.Op("Shape", x)
}

// noteSize records a value that consists of one unknown size.
func (e *engine) noteSize(name string) {
	if v := e.value(name); v.Type == onnx.Int64 && v.Rank() == 1 && len(v.Ints) == 1 && !v.Ints[0].Known {
		if size := v.Ints[0].Name; size != "" && e.sizes[size] == "" {
			e.sizes[size] = name
		}
	}
}

// sizesOf returns the sizes of x for [call.shape], if all of them are numbers or can be read from small values. A
// node of the backward pass that reads x itself, even if only for its shape, would keep x in memory until then.
func (c *call) sizesOf(x string) []any {
	v := c.value(x)
	if !v.Ranked || len(v.Shape) == 0 {
		return nil
	}
	var parts []any
	for _, d := range v.Shape {
		switch name := c.e.sizes[d.Name]; {
		case d.Known():
			parts = append(parts, d.Size)
		case name != "":
			parts = append(parts, name)
		default:
			return nil
		}
	}
	return parts
}

// size returns dimension i of x as an int64 vector of one element.
func (c *call) size(x string, i int) string {
	if v := c.value(x); v.Ranked && v.Shape[i].Known() {
		return c.Ints(v.Shape[i].Size)
	} else if v.Ranked && c.e.sizes[v.Shape[i].Name] != "" {
		return c.e.sizes[v.Shape[i].Name]
	}
	if c.Opset() >= 15 {
		return c.OpA("Shape", attrs{"start": i, "end": i + 1}, x)
	}
	return c.Op("Slice", c.Op("Shape", x), c.Ints(int64(i)), c.Ints(int64(i+1)))
}

// shape joins sizes (int, int64, or names of int64 vectors) into one vector.
func (c *call) shape(parts ...any) string {
	var names []string
	var numbers []int64
	flush := func() {
		if len(numbers) > 0 {
			names = append(names, c.Ints(numbers...))
			numbers = nil
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			numbers = append(numbers, int64(p))
		case int64:
			numbers = append(numbers, p)
		case string:
			if v, ok := c.value(p).Known(); ok {
				numbers = append(numbers, v...)
				continue
			}
			flush()
			names = append(names, p)
		}
	}
	flush()
	if len(names) == 1 {
		return names[0]
	}
	return c.concat(0, names...)
}

func (c *call) reshape(x string, parts ...any) string { return c.Op("Reshape", x, c.shape(parts...)) }

// reshapeLike gives g the shape of x, which has as many elements.
func (c *call) reshapeLike(g, x string) string {
	v := c.value(x)
	open, empty := 0, false
	dims := make([]int64, len(v.Shape))
	for i, d := range v.Shape {
		dims[i] = d.Size
		if !d.Known() {
			open++
		}
		empty = empty || d.Size == 0
	}
	if !v.Ranked || open > 1 || empty {
		return c.Op("Reshape", g, c.shapeOf(x))
	}
	return c.Op("Reshape", g, c.Ints(dims...))
}

// fullLike returns a tensor of the shape and type of x, filled with v.
func (c *call) fullLike(x string, v float64) string {
	t := c.value(x).Type
	if c.value(x).Rank() == 0 {
		return c.Scalar(t, v)
	}
	return c.full(c.shapeOf(x), t, v)
}

func (c *call) full(shape string, t onnx.DType, v float64) string {
	value := &onnx.Tensor{Name: "value", Type: t, Shape: []int64{1}, Data: onnx.ScalarBytes(t, v)}
	return c.OpA("ConstantOfShape", attrs{"value": value}, shape)
}

func (c *call) zerosLike(x string) string { return c.fullLike(x, 0) }

// reduce applies a Reduce operator; without axes it is a no-op.
func (c *call) reduce(op, x string, axes []int64, keep bool) string {
	if len(axes) == 0 {
		return x
	}
	if op == "ReduceSum" || c.Opset() >= 18 {
		return c.OpA(op, attrs{"keepdims": keep}, x, c.Ints(axes...))
	}
	return c.OpA(op, attrs{"keepdims": keep, "axes": axes}, x)
}

func (c *call) sum(x string, axes []int64, keep bool) string {
	return c.reduce("ReduceSum", x, axes, keep)
}

func (c *call) concat(axis int64, xs ...string) string {
	if len(xs) == 1 {
		return xs[0]
	}
	return c.OpA("Concat", attrs{"axis": axis}, xs...)
}

func (c *call) transpose(x string, perm ...int64) string {
	if slices.IsSorted(perm) {
		return x
	}
	return c.OpA("Transpose", attrs{"perm": perm}, x)
}

// swapLastAxes exchanges the last two axes.
func (c *call) swapLastAxes(x string) string {
	perm := axesUpTo(c.rank(x))
	if n := len(perm); n >= 2 {
		perm[n-1], perm[n-2] = perm[n-2], perm[n-1]
	}
	return c.transpose(x, perm...)
}

// toFront moves an axis to the front; fromFront moves it back.
func (c *call) toFront(x string, axis int64) string {
	perm := axesUpTo(c.rank(x))
	copy(perm[1:axis+1], perm[:axis])
	perm[0] = axis
	return c.transpose(x, perm...)
}

func (c *call) fromFront(x string, axis int64) string {
	perm := axesUpTo(c.rank(x))
	copy(perm[:axis], perm[1:axis+1])
	perm[axis] = 0
	return c.transpose(x, perm...)
}

func (c *call) unsqueeze(x string, axes ...int64) string {
	return c.Op("Unsqueeze", x, c.Ints(axes...))
}
func (c *call) squeeze(x string, axes ...int64) string { return c.Op("Squeeze", x, c.Ints(axes...)) }

// axesUpTo returns 0, 1, ..., n-1.
func axesUpTo(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i)
	}
	return v
}

// arange computes 0, 1, ..., n-1 at run time; n is an int64 vector of one element.
func (c *call) arange(n string) string {
	if v, ok := c.value(n).Known(); ok && v[0] <= 4096 {
		return c.Ints(axesUpTo(int(v[0]))...)
	}
	return c.Op("Range", c.Int(0), c.Op("Squeeze", n), c.Int(1))
}
