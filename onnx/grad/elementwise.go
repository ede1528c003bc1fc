package grad

import (
	"math"
	"slices"

	"assay/onnx"
)

// unary makes a rule from the derivative: d returns dX for input x, output y and gradient dy.
func unary(op string, d func(c *call, x, y, dy string) string) entry {
	return entry{op: op, rule: func(c *call) []string { return []string{d(c, c.x[0], c.y[0], c.dy[0])} }}
}

// binary makes a rule of two broadcast inputs.
func binary(op string, da, db func(c *call, a, b, y, dy string) string) entry {
	return entry{op: op, broadcast: true, rule: func(c *call) []string {
		g := make([]string, 2)
		for i, d := range []func(c *call, a, b, y, dy string) string{da, db} {
			if c.needs(i) {
				g[i] = d(c, c.x[0], c.x[1], c.y[0], c.dy[0])
			}
		}
		return g
	}}
}

var elementwiseRules = slices.Concat([]entry{
	// y = a + b
	binary(
		"Add",
		func(c *call, a, b, y, dy string) string { return dy },
		func(c *call, a, b, y, dy string) string { return dy },
	),
	// y = a - b
	binary(
		"Sub",
		func(c *call, a, b, y, dy string) string { return dy },
		func(c *call, a, b, y, dy string) string { return c.neg(dy) },
	),
	{op: "Mul", broadcast: true, rule: mulRule},
	// y = a / b: dA = dY / b, dB = -dY y / b
	binary("Div", func(c *call, a, b, y, dy string) string { return c.div(dy, b) },
		func(c *call, a, b, y, dy string) string { return c.neg(c.div(c.mul(dy, y), b)) }),
	{op: "Pow", broadcast: true, rule: powRule},
	// y = a - n b with a whole number n: dA = dY, dB = -n dY
	binary("Mod", func(c *call, a, b, y, dy string) string { return dy },
		func(c *call, a, b, y, dy string) string { return c.neg(c.mul(dy, c.div(c.sub(a, y), b))) }),
	{op: "Min", broadcast: true, rule: func(c *call) []string { return extremeRule(c, "LessOrEqual") }},
	{op: "Max", broadcast: true, rule: func(c *call) []string { return extremeRule(c, "GreaterOrEqual") }},
	{op: "Sum", broadcast: true, rule: func(c *call) []string { return slices.Repeat(c.dy, len(c.x)) }},
	{op: "Mean", broadcast: true, rule: func(c *call) []string {
		return slices.Repeat([]string{c.scale(c.dy[0], 1/float64(len(c.x)))}, len(c.x))
	}},
	{op: "Where", nonDifferentiable: []int{0}, broadcast: true, rule: func(c *call) []string {
		zero := c.scalarLike(c.dy[0], 0)
		g := make([]string, 3)
		if c.needs(1) {
			g[1] = c.where(c.x[0], c.dy[0], zero)
		}
		if c.needs(2) {
			g[2] = c.where(c.x[0], zero, c.dy[0])
		}
		return g
	}},
	{op: "Clip", broadcast: true, rule: clipRule},
	unary("Cast", func(c *call, x, y, dy string) string { return c.cast(dy, c.value(x).Type) }),
	{
		op:                "CastLike",
		nonDifferentiable: []int{1},
		rule:              func(c *call) []string { return []string{c.cast(c.dy[0], c.value(c.x[0]).Type), ""} },
	},
	unary("Identity", func(c *call, x, y, dy string) string { return dy }),
	unary("Neg", func(c *call, x, y, dy string) string { return c.neg(dy) }),
	unary("Abs", func(c *call, x, y, dy string) string { return c.mul(dy, c.Op("Sign", x)) }),
	unary("Sqrt", func(c *call, x, y, dy string) string { return c.div(c.scale(dy, 0.5), y) }),
	// y = 1/x: dX = -dY y^2
	unary("Reciprocal", func(c *call, x, y, dy string) string { return c.neg(c.mul(dy, c.mul(y, y))) }),
	unary("Exp", func(c *call, x, y, dy string) string { return c.mul(dy, y) }),
	unary("Log", func(c *call, x, y, dy string) string { return c.div(dy, x) }),
	unary("Sin", func(c *call, x, y, dy string) string { return c.mul(dy, c.Op("Cos", x)) }),
	unary("Cos", func(c *call, x, y, dy string) string { return c.neg(c.mul(dy, c.Op("Sin", x))) }),
	// dX = dY (1 + y^2)
	unary("Tan", func(c *call, x, y, dy string) string { return c.add(dy, c.mul(dy, c.mul(y, y))) }),
	// dX = dY / sqrt(1 - x^2)
	unary("Asin", func(c *call, x, y, dy string) string { return c.div(dy, c.Op("Sqrt", c.oneMinus(c.mul(x, x)))) }),
	unary(
		"Acos",
		func(c *call, x, y, dy string) string { return c.neg(c.div(dy, c.Op("Sqrt", c.oneMinus(c.mul(x, x))))) },
	),
	unary("Atan", func(c *call, x, y, dy string) string { return c.div(dy, c.add(c.mul(x, x), c.scalarLike(x, 1))) }),
	unary("Sinh", func(c *call, x, y, dy string) string { return c.mul(dy, c.Op("Cosh", x)) }),
	unary("Cosh", func(c *call, x, y, dy string) string { return c.mul(dy, c.Op("Sinh", x)) }),
	unary("Asinh", func(c *call, x, y, dy string) string {
		return c.div(dy, c.Op("Sqrt", c.add(c.mul(x, x), c.scalarLike(x, 1))))
	}),
	unary("Acosh", func(c *call, x, y, dy string) string {
		return c.div(dy, c.Op("Sqrt", c.sub(c.mul(x, x), c.scalarLike(x, 1))))
	}),
	unary("Atanh", func(c *call, x, y, dy string) string { return c.div(dy, c.oneMinus(c.mul(x, x))) }),
	// dX = dY 2/sqrt(pi) exp(-x^2)
	unary("Erf", func(c *call, x, y, dy string) string {
		return c.mul(dy, c.scale(c.Op("Exp", c.neg(c.mul(x, x))), 2/math.Sqrt(math.Pi)))
	}),
}, zeroRules("Floor", "Ceil", "Round", "Sign", "Bernoulli", "RandomNormalLike", "RandomUniformLike"))

// zeroRules cover piecewise constant operators, whose derivative is zero.
func zeroRules(ops ...string) []entry {
	var out []entry
	for _, op := range ops {
		out = append(out, entry{op: op, nonDifferentiable: allInputs, note: "zero"})
	}
	return out
}

func (c *call) oneMinus(x string) string { return c.sub(c.scalarLike(x, 1), x) }

// y = a b: dA = dY b, dB = dY a. SiLU, y = a s with s = sigmoid(a), has one formula, which saves two passes over
// memory: dA = dY (s + y - y s).
func mulRule(c *call) []string {
	a, b, y, dy := c.x[0], c.x[1], c.y[0], c.dy[0]
	for i := range 2 {
		s := c.e.producers[c.n.Inputs[1-i]]
		if s != nil && s.Op == "Sigmoid" && s.Domain == "" && s.Inputs[0] == c.n.Inputs[i] &&
			!slices.Contains(c.leaves, s.Outputs[0]) {
			s := c.x[1-i]
			g := make([]string, 2)
			g[i], c.covered[1-i] = c.mul(dy, c.add(s, c.sub(y, c.mul(y, s)))), true
			return g
		}
	}
	g := make([]string, 2)
	if c.needs(0) {
		g[0] = c.mul(dy, b)
	}
	if c.needs(1) {
		g[1] = c.mul(dy, a)
	}
	return g
}

// y = x^p: dX = dY p x^(p-1), dP = dY y log x where x > 0, else 0.
func powRule(c *call) []string {
	x, p, y, dy := c.x[0], c.x[1], c.y[0], c.dy[0]
	g := make([]string, 2)
	t := c.value(x).Type
	if c.needs(0) {
		exponent := onnx.Floats(c.value(p).Const)
		if k := c.value(p).Const; k != nil && (k.Type == onnx.Int64 || k.Type == onnx.Int32) {
			if v, ok := c.value(p).Known(); ok && len(v) == 1 {
				exponent = []float64{float64(v[0])}
			}
		}
		switch {
		case len(exponent) == 1 && exponent[0] == 2:
			g[0] = c.mul(dy, c.add(x, x))
		case len(exponent) == 1 && exponent[0] == 0:
			g[0] = c.zerosLike(x)
		case len(exponent) == 1:
			g[0] = c.mul(dy, c.scale(c.Op("Pow", x, c.Scalar(t, exponent[0]-1)), exponent[0]))
		default:
			q := c.cast(p, t)
			flat := c.Op("Equal", q, c.scalarLike(x, 0)) // not 0 times infinity at x = 0
			derivative := c.mul(q, c.Op("Pow", x, c.where(flat, c.scalarLike(x, 0), c.sub(q, c.scalarLike(x, 1)))))
			g[0] = c.mul(dy, derivative)
		}
	}
	if c.needs(1) {
		positive := c.Op("Greater", x, c.scalarLike(x, 0))
		log := c.Op("Log", c.where(positive, x, c.scalarLike(x, 1)))
		g[1] = c.cast(c.mul(c.cast(dy, t), c.mul(c.cast(y, t), log)), c.value(p).Type)
	}
	return g
}

// The full gradient goes to the extreme input; among equal ones, to the first.
func extremeRule(c *call, wins string) []string {
	g := make([]string, len(c.x))
	rest := c.dy[0]
	best := make([]string, len(c.x)) // extreme of inputs 0 to i
	best[0] = c.x[0]
	for i := 1; i < len(c.x); i++ {
		best[i] = c.Op(c.n.Op, best[i-1], c.x[i])
	}
	for i := len(c.x) - 1; i > 0; i-- {
		before := c.Op(wins, best[i-1], c.x[i])
		zero := c.scalarLike(rest, 0)
		g[i] = c.where(before, zero, rest)
		rest = c.where(before, rest, zero)
	}
	g[0] = rest
	return g
}

// y = min(max(x, lo), hi): the gradient goes to x inside, to the bounds outside, and only to hi where lo > hi.
func clipRule(c *call) []string {
	x, lo, hi, dy := c.x[0], c.in(1), c.in(2), c.dy[0]
	g := make([]string, 3)
	rest := dy // the part that does not go to hi
	if hi != "" {
		below := c.Op("LessOrEqual", x, hi)
		if lo != "" {
			below = c.Op("And", below, c.Op("LessOrEqual", lo, hi))
		}
		if c.needs(2) {
			g[2] = c.masked(c.Op("Not", below), dy)
		}
		rest = c.masked(below, dy)
	}
	if lo != "" {
		above := c.Op("GreaterOrEqual", x, lo)
		if c.needs(1) {
			g[1] = c.masked(c.Op("Not", above), rest)
		}
		rest = c.masked(above, rest)
	}
	g[0] = rest
	return g[:len(c.x)]
}
