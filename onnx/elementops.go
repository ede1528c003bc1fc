package onnx

import (
	"fmt"
	"strings"
)

// inferences holds the typing function of each operator.
var inferences = map[string]func(*inference) error{}

func inferAs(f func(*inference) error, ops ...string) {
	for _, op := range ops {
		inferences[op] = f
	}
}

// inferShaped is inferAs for operators whose first output has the type of the first input. shape returns its dimensions
// from those of the input, whose rank is known; nil: unknown.
func inferShaped(shape func(c *inference, x []Dim) ([]Dim, error), ops ...string) {
	inferAs(func(c *inference) error {
		x, t := c.shape(0), c.arg(0).Type
		if c.set(0, t, nil); x == nil {
			return nil
		}
		out, err := shape(c, x)
		if err == nil {
			c.set(0, t, out)
		}
		return err
	}, ops...)
}

func init() {
	inferAs(inferSame, strings.Fields(`
		Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Ceil Celu Clip Cos Cosh CumProd CumSum Elu
		Erf Exp Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN LeakyRelu
		Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg PRelu RMSNormalization Reciprocal Relu
		ReverseSequence RotaryEmbedding Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax
		Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu com.microsoft.FastGelu com.microsoft.Gelu
		com.microsoft.QuickGelu com.microsoft.RotaryEmbedding`)...)
	inferAs(inferLike, "Bernoulli", "RandomNormalLike", "RandomUniformLike")
	inferAs(inferBroadcast, strings.Fields(`
		Add Sub Mul Div Pow Mod Min Max Sum Mean BitwiseAnd BitwiseOr BitwiseXor BitShift`)...)
	inferAs(inferCompare, strings.Fields("Equal Greater GreaterOrEqual Less LessOrEqual And Or Xor")...)
	inferAs(func(c *inference) error { c.set(0, Bool, c.shape(0)); return nil }, "IsNaN", "IsInf")
	inferAs(inferNot, "Not")
	inferShaped(inferReduce, strings.Fields(`
		ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
		ReduceSumSquare`)...)
	inferAs(inferWhere, "Where")
	inferAs(inferCast, "Cast", "CastLike")
	inferAs(inferDropout, "Dropout")
	inferAs(inferLayerNorm, "LayerNormalization", "SimplifiedLayerNormalization")
	inferAs(inferArg, "ArgMax", "ArgMin")
}

// inferSame: the output has the type and shape of the first input.
func inferSame(c *inference) error {
	x := c.arg(0)
	c.set(0, x.Type, c.shape(0))
	if c.n.Op == "Identity" || c.n.Op == "Clip" && !c.has(1) && !c.has(2) {
		c.out[0].Ints, c.out[0].Const = x.Ints, x.Const
	}
	if c.n.Op == "PRelu" && x.Ranked && c.arg(1).Ranked {
		if d, err := broadcastShapes(x.Shape, c.arg(1).Shape); err != nil || len(d) != len(x.Shape) {
			return fmt.Errorf("the slope does not broadcast to the data")
		}
	}
	return nil
}

// inferLike: the shape of the input, and its type unless an attribute gives another one.
func inferLike(c *inference) error {
	c.set(0, DType(c.n.Int("dtype", int64(c.arg(0).Type))), c.shape(0))
	return nil
}

func (c *inference) broadcastInputs() ([]Dim, error) {
	var shape []Dim
	for i := range c.in {
		s := c.shape(i)
		if s == nil {
			return nil, nil
		}
		if i == 0 {
			shape = s
			continue
		}
		var err error
		if shape, err = broadcastShapes(shape, s); err != nil {
			return nil, err
		}
	}
	return shape, nil
}

func inferBroadcast(c *inference) error {
	shape, err := c.broadcastInputs()
	if err != nil {
		return err
	}
	if c.n.Op != "BitShift" && c.n.Op != "Pow" {
		for i := range c.in {
			if a, b := c.arg(0).Type, c.arg(i).Type; a != b && a != Undefined && b != Undefined {
				return fmt.Errorf("the element types %v and %v differ", a, b)
			}
		}
	}
	c.set(0, c.arg(0).Type, shape)
	if len(c.in) == 2 {
		f := func(a, b Int) Int { return compute(c.n.Op, a, b) }
		c.out[0].Ints = zipInts(c.arg(0).Ints, c.arg(1).Ints, shape, f)
	}
	return nil
}

// compute applies an elementwise operator to two integers; the result may be unknown.
func compute(op string, a, b Int) Int {
	switch op {
	case "Add":
		return a.plus(b)
	case "Sub":
		return a.minus(b)
	case "Mul":
		return a.times(b)
	case "Div":
		if a.Known && a.Value < 0 || b.Known && b.Value <= 0 {
			return Int{}
		}
		return a.over(b, true)
	case "Min", "Max":
		switch {
		case a.same(b):
			return a
		case !a.Known || !b.Known:
		case op == "Min":
			return known(min(a.Value, b.Value))
		default:
			return known(max(a.Value, b.Value))
		}
	}
	return Int{}
}

// zipInts computes with the contents of two scalars or vectors; nil if the result is unknown.
func zipInts(a, b []Int, shape []Dim, f func(a, b Int) Int) []Int {
	if a == nil || b == nil || len(shape) > 1 || len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := make([]Int, max(len(a), len(b)))
	found := false
	for i := range out {
		out[i] = f(a[i%len(a)], b[i%len(b)])
		found = found || !out[i].unnamed()
	}
	if !found {
		return nil
	}
	return out
}

func inferCompare(c *inference) error {
	shape, err := c.broadcastInputs()
	if err != nil {
		return err
	}
	c.set(0, Bool, shape)
	if c.n.Op == "Equal" {
		out := zipInts(c.arg(0).Ints, c.arg(1).Ints, shape, func(a, b Int) Int {
			switch {
			case a.same(b):
				return known(1)
			case a.Known && b.Known, a.Known && a.Value < 0, b.Known && b.Value < 0: // symbols are sizes
				return known(0)
			}
			return Int{}
		})
		c.out[0].Ints = out
	}
	return nil
}

func inferNot(c *inference) error {
	c.set(0, Bool, c.shape(0))
	for _, n := range c.arg(0).Ints {
		switch {
		case !n.Known:
			n = Int{}
		case n.Value == 0:
			n = known(1)
		default:
			n = known(0)
		}
		c.out[0].Ints = append(c.out[0].Ints, n)
	}
	return nil
}

func inferWhere(c *inference) error {
	shape, err := c.broadcastInputs()
	if err != nil {
		return err
	}
	c.set(0, c.arg(1).Type, shape)
	cond, a, b := c.arg(0).Ints, c.arg(1).Ints, c.arg(2).Ints
	if len(cond) == 0 || len(a) == 0 || len(b) == 0 || len(shape) > 1 {
		return nil
	}
	out := make([]Int, max(len(cond), len(a), len(b)))
	for i := range out {
		switch p := cond[i%len(cond)]; {
		case !p.Known:
		case p.Value != 0:
			out[i] = a[i%len(a)]
		default:
			out[i] = b[i%len(b)]
		}
	}
	c.out[0].Ints = out
	return nil
}

func inferCast(c *inference) error {
	t := DType(c.n.Int("to", 0))
	if c.n.Op == "CastLike" {
		t = c.arg(1).Type
	}
	c.set(0, t, c.shape(0))
	if from := c.arg(0).Type; t == Int64 || t == Int32 && (from == Int64 || from == Int32 || from == Bool) {
		c.out[0].Ints = c.arg(0).Ints
	}
	return nil
}

func inferDropout(c *inference) error {
	c.set(0, c.arg(0).Type, c.shape(0))
	c.set(1, Bool, c.shape(0))
	return nil
}

func inferLayerNorm(c *inference) error {
	x := c.shape(0)
	c.set(0, c.arg(0).Type, x)
	if x == nil {
		return nil
	}
	a, err := axis(c.n.Int("axis", -1), len(x))
	if err != nil {
		return err
	}
	stats := append([]Dim{}, x...)
	for i := a; i < len(stats); i++ {
		stats[i] = Fixed(1)
	}
	for i := 1; i < 3; i++ {
		c.set(i, DType(c.n.Int("stash_type", int64(Float))), stats)
	}
	return nil
}

func inferReduce(c *inference, x []Dim) ([]Dim, error) {
	axes, ok, absent := c.ints(1, "axes")
	keep := c.n.Int("keepdims", 1) != 0
	if !ok {
		if keep {
			return unknownDims(len(x)), nil
		} else if n := c.arg(1); len(n.Shape) == 1 && n.Shape[0].Known() && n.Shape[0].Size > 0 {
			return unknownDims(max(0, len(x)-int(n.Shape[0].Size))), nil
		}
		return nil, nil
	}
	all := absent || len(axes) == 0
	if all && c.n.Int("noop_with_empty_axes", 0) != 0 {
		return x, nil
	}
	if all {
		axes = allAxes(x)
	}
	out, err := reducedDims(x, axes, keep)
	if err != nil {
		return nil, err
	}
	if v := c.arg(0).Ints; c.n.Op == "ReduceProd" && len(x) == 1 && v != nil && len(axes) > 0 {
		p := known(1)
		for _, n := range v {
			p = p.times(n)
		}
		c.out[0].Ints = []Int{p}
	}
	return out, nil
}

// allAxes returns all axes of a shape.
func allAxes(x []Dim) (axes []int64) {
	for i := range x {
		axes = append(axes, int64(i))
	}
	return axes
}

// reducedDims returns x without the axes, or with size 1 there if they are kept.
func reducedDims(x []Dim, axes []int64, keep bool) ([]Dim, error) {
	reduced := make([]bool, len(x))
	for _, a := range axes {
		i, err := axis(a, len(x))
		if err != nil {
			return nil, err
		}
		reduced[i] = true
	}
	out := []Dim{}
	for i, d := range x {
		if !reduced[i] {
			out = append(out, d)
		} else if keep {
			out = append(out, Fixed(1))
		}
	}
	return out, nil
}

func inferArg(c *inference) error {
	x := c.shape(0)
	c.set(0, Int64, nil)
	if x == nil {
		return nil
	}
	a, err := axis(c.n.Int("axis", 0), len(x))
	if err != nil {
		return err
	}
	out := append([]Dim{}, x[:a]...)
	if c.n.Int("keepdims", 1) != 0 {
		out = append(out, Fixed(1))
	}
	c.set(0, Int64, append(out, x[a+1:]...))
	return nil
}
