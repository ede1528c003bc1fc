package grad

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// gen builds the one-node model of a case. Its methods make operands, with values away from kinks.
type gen struct {
	k       int64 // size factor: 1 for full Jacobians, more for random directions
	t       onnx.DType
	dynamic bool // no size of a graph input is known before the model runs
	rng     *rand.Rand
	b       *onnx.Builder
	feeds   map[string]*tensor.Dense
	wrt     []string
	outputs []string
}

func (g *gen) input(shape []int64, value func(i int) float64, differentiate bool) string {
	name := fmt.Sprintf("x%d", len(g.feeds))
	dims := make([]onnx.Dim, len(shape))
	count, ints := 1, make([]int, len(shape))
	for i, d := range shape {
		if dims[i] = onnx.Fixed(d); g.dynamic {
			dims[i] = onnx.Symbol(fmt.Sprintf("%s_%d", name, i))
		}
		ints[i] = int(d)
		count *= int(d)
	}
	data := make([]float64, count)
	for i := range data {
		data[i] = value(i)
	}
	g.b.Input(name, g.t, dims)
	g.feeds[name] = dense(g.t, ints, data)
	if differentiate {
		g.wrt = append(g.wrt, name)
	}
	return name
}

func dense(t onnx.DType, shape []int, data []float64) *tensor.Dense {
	if t == onnx.Double {
		if len(shape) == 0 {
			return tensor.New(tensor.FromScalar(data[0]))
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(slices.Clone(data)))
	}
	single := make([]float32, len(data))
	for i, v := range data {
		single[i] = float32(v)
	}
	if len(shape) == 0 {
		return tensor.New(tensor.FromScalar(single[0]))
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(single))
}

// x is normally distributed, pos lies in 0.3 to 2, unit in -0.8 to 0.8, off at least 0.15 away from the kinks. distinct
// has no two elements closer than 0.2.
func (g *gen) x(shape ...int64) string {
	return g.input(shape, func(int) float64 { return g.rng.NormFloat64() }, true)
}
func (g *gen) pos(shape ...int64) string {
	return g.input(shape, func(int) float64 { return 0.3 + 1.7*g.rng.Float64() }, true)
}
func (g *gen) unit(shape ...int64) string {
	return g.input(shape, func(int) float64 { return 1.6*g.rng.Float64() - 0.8 }, true)
}
func (g *gen) off(kinks []float64, shape ...int64) string {
	return g.input(shape, func(int) float64 {
		for {
			v := 1.5 * g.rng.NormFloat64()
			if !slices.ContainsFunc(kinks, func(k float64) bool { return math.Abs(v-k) < 0.15 }) {
				return v
			}
		}
	}, true)
}
func (g *gen) distinct(shape ...int64) string {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	order := g.rng.Perm(int(n))
	return g.input(shape, func(i int) float64 { return 0.2 * (float64(order[i]) - float64(n)/2 + 0.1) }, true)
}

// fixed is like pos, but nothing is differentiated with respect to it.
func (g *gen) fixed(shape ...int64) string {
	return g.input(shape, func(int) float64 { return 0.3 + 1.7*g.rng.Float64() }, false)
}

// s is a constant scalar, c a constant int64 vector, i an int64 constant of a shape.
func (g *gen) s(v float64) string { return g.b.Scalar(g.t, v) }
func (g *gen) c(v ...int64) string {
	return g.b.Ints(v...)
}
func (g *gen) i(shape []int64, v ...int64) string {
	f := make([]float64, len(v))
	for i := range v {
		f[i] = float64(v[i])
	}
	return g.b.Numbers(onnx.Int64, shape, f...)
}

// index is an int64 constant with random numbers below n.
func (g *gen) index(n int64, shape ...int64) string {
	count := int64(1)
	for _, d := range shape {
		count *= d
	}
	v := make([]int64, count)
	for i := range v {
		v[i] = g.rng.Int64N(n)
	}
	return g.i(shape, v...)
}

// bools is a constant mask.
func (g *gen) bools(shape ...int64) string {
	count := int64(1)
	for _, d := range shape {
		count *= d
	}
	v := make([]float64, count)
	for i := range v {
		v[i] = float64(g.rng.IntN(2))
	}
	return g.b.Numbers(onnx.Bool, shape, v...)
}

func (g *gen) op(op string, a onnx.Attrs, inputs ...string) { g.nodes("", op, 1, a, inputs...) }

func (g *gen) nodes(domain, op string, n int, a onnx.Attrs, inputs ...string) {
	g.outputs = append(g.outputs, g.b.Node(domain, op, n, a, inputs...)...)
}

// opCase is one check of a rule.
type opCase struct {
	op       string // the rule it checks: operator, with its domain unless it is ai.onnx
	from, to int64  // opsets it is checked in: the first with full Jacobians, the last with a random direction
	static   bool   // needs sizes
	single   bool   // the runtime computes it in single precision whatever the type
	build    func(g *gen)
}

func newGen(c opCase, opset, k int64, t onnx.DType, dynamic bool, seed uint64) *gen {
	g := &gen{
		k:       k,
		t:       t,
		dynamic: dynamic,
		rng:     rand.New(rand.NewPCG(seed, 1)),
		b:       onnx.NewBuilder(c.op, opset),
		feeds:   map[string]*tensor.Dense{},
	}
	c.build(g)
	return g
}
