package grad

import "math"

var activationRules = []entry{
	// The output has the sign of the input, and is kept for the next operator anyway.
	unary(
		"Relu",
		func(c *call, x, y, dy string) string { return c.masked(c.Op("Greater", y, c.scalarLike(y, 0)), dy) },
	),
	// dX = dY y (1 - y)
	unary("Sigmoid", func(c *call, x, y, dy string) string { return c.mul(dy, c.mul(y, c.oneMinus(y))) }),
	// dX = dY (1 - y^2)
	unary("Tanh", func(c *call, x, y, dy string) string { return c.mul(dy, c.oneMinus(c.mul(y, y))) }),
	unary("LeakyRelu", func(c *call, x, y, dy string) string {
		return c.where(c.Op("Less", x, c.scalarLike(x, 0)), c.scale(dy, float64(c.n.Float("alpha", 0.01))), dy)
	}),
	{op: "PRelu", broadcast: true, rule: func(c *call) []string {
		negative := c.Op("Less", c.x[0], c.scalarLike(c.x[0], 0))
		g := make([]string, 2)
		if c.needs(0) {
			g[0] = c.where(negative, c.mul(c.dy[0], c.x[1]), c.dy[0])
		}
		if c.needs(1) {
			g[1] = c.masked(negative, c.mul(c.dy[0], c.x[0]))
		}
		return g
	}},
	unary("Gelu", geluRule),
	// dX = dY y' with y = alpha (e^x - 1) below 0: y' = y + alpha
	unary("Elu", func(c *call, x, y, dy string) string {
		return c.where(
			c.Op("Less", x, c.scalarLike(x, 0)),
			c.mul(dy, c.add(y, c.scalarLike(y, float64(c.n.Float("alpha", 1))))),
			dy,
		)
	}),
	unary("Selu", func(c *call, x, y, dy string) string {
		alpha, gamma := float64(c.n.Float("alpha", 1.6732632)), float64(c.n.Float("gamma", 1.050701))
		return c.where(
			c.Op("Less", x, c.scalarLike(x, 0)),
			c.mul(dy, c.add(y, c.scalarLike(y, alpha*gamma))),
			c.scale(dy, gamma),
		)
	}),
	// y = alpha (e^(x/alpha) - 1) below 0: y' = e^(x/alpha) = y/alpha + 1
	unary("Celu", func(c *call, x, y, dy string) string {
		derivative := c.add(c.scale(y, 1/float64(c.n.Float("alpha", 1))), c.scalarLike(y, 1))
		return c.where(c.Op("Less", x, c.scalarLike(x, 0)), c.mul(dy, derivative), dy)
	}),
	unary("Softplus", func(c *call, x, y, dy string) string { return c.mul(dy, c.Op("Sigmoid", x)) }),
	// y = x / (1 + |x|): y' = (1 - |y|)^2
	unary("Softsign", func(c *call, x, y, dy string) string {
		s := c.oneMinus(c.Op("Abs", y))
		return c.mul(dy, c.mul(s, s))
	}),
	// y = x tanh(softplus(x))
	{
		op:        "Mish",
		decompose: func(c *call) []string { return []string{c.mul(c.x[0], c.Op("Tanh", c.Op("Softplus", c.x[0])))} },
	},
	// y = max(0, min(1, alpha x + beta))
	unary("HardSigmoid", func(c *call, x, y, dy string) string {
		return c.masked(c.between(y, 0, 1), c.scale(dy, float64(c.n.Float("alpha", 0.2))))
	}),
	// y = x max(0, min(1, x/6 + 1/2))
	{op: "HardSwish", decompose: func(c *call) []string {
		return []string{c.mul(c.x[0], c.OpA("HardSigmoid", attrs{"alpha": 1.0 / 6, "beta": 0.5}, c.x[0]))}
	}},
	{op: "Swish", since: 24, decompose: func(c *call) []string { return c.swish(float64(c.n.Float("alpha", 1))) }},
	{
		op:        "QuickGelu",
		domain:    microsoft,
		decompose: func(c *call) []string { return c.swish(float64(c.n.Float("alpha", 1.702))) },
	},
	{
		op:     "Gelu",
		domain: microsoft,
		rule:   func(c *call) []string { return []string{geluRule(c, c.x[0], c.y[0], c.dy[0])} },
	},
	unary("ThresholdedRelu", func(c *call, x, y, dy string) string {
		return c.masked(c.Op("Greater", x, c.scalarLike(x, float64(c.n.Float("alpha", 1)))), dy)
	}),
	// y = x - bias above lambd, x + bias below -lambd, else 0
	unary("Shrink", func(c *call, x, y, dy string) string {
		return c.masked(c.Op("Greater", c.Op("Abs", x), c.scalarLike(x, float64(c.n.Float("lambd", 0.5)))), dy)
	}),
	{op: "Dropout", nonDifferentiable: []int{2}, rule: dropoutRule},
}

const microsoft = "com.microsoft"

func (c *call) between(x string, lo, hi float64) string {
	return c.Op("And", c.Op("Greater", x, c.scalarLike(x, lo)), c.Op("Less", x, c.scalarLike(x, hi)))
}

// y = x sigmoid(alpha x)
func (c *call) swish(alpha float64) []string {
	return []string{c.mul(c.x[0], c.Op("Sigmoid", c.scale(c.x[0], alpha)))}
}

// geluRule: y = x P(x), P the normal distribution: dX = dY (P(x) + x p(x)). Its approximation by tanh is y = x/2 (1 +
// t), t = tanh(k (x + a x^3)): dX = dY/2 (1 + t + x (1 - t^2) k (1 + 3 a x^2)).
func geluRule(c *call, x, y, dy string) string {
	xx := c.mul(x, x)
	if c.n.Str("approximate", "none") == "tanh" {
		k, a := math.Sqrt(2/math.Pi), 0.044715
		u := c.scale(c.mul(x, c.add(c.scale(xx, a), c.scalarLike(x, 1))), k)
		t := c.Op("Tanh", u)
		du := c.add(c.scale(xx, 3*a*k), c.scalarLike(x, k))
		bend := c.mul(c.mul(x, c.oneMinus(c.mul(t, t))), du)
		return c.mul(dy, c.scale(c.add(c.add(t, c.scalarLike(x, 1)), bend), 0.5))
	}
	p := c.scale(c.add(c.Op("Erf", c.scale(x, math.Sqrt(0.5))), c.scalarLike(x, 1)), 0.5)
	density := c.scale(c.Op("Exp", c.scale(xx, -0.5)), 1/math.Sqrt(2*math.Pi))
	return c.mul(dy, c.add(p, c.mul(x, density)))
}

// dropoutRule: without training it is the identity; in training the kept elements were scaled by 1/(1 - ratio). The
// gradient of the ratio is that of the elements kept this time: dR = sum dY y / (1 - ratio).
func dropoutRule(c *call) []string {
	g := make([]string, len(c.x))
	v := c.value(c.in(2)).Const
	if c.in(2) == "" || v != nil && len(v.Data) == 1 && v.Data[0] == 0 {
		if g[0] = c.dy[0]; c.needs(1) {
			g[1] = c.zerosLike(c.x[1])
		}
		return g
	}
	if len(c.y) < 2 || c.y[1] == "" {
		return c.fail("needs the second output, the mask, in training mode")
	}
	kept := c.scalarLike(c.dy[0], 0.5)
	if c.in(1) != "" {
		kept = c.cast(c.oneMinus(c.x[1]), c.value(c.x[0]).Type)
	}
	if c.needs(0) {
		g[0] = c.where(c.x[2], c.masked(c.y[1], c.div(c.dy[0], kept)), c.dy[0])
	}
	if c.needs(1) {
		r := c.cast(c.div(c.sumAll(c.mul(c.dy[0], c.y[0])), kept), c.value(c.x[1]).Type)
		g[1] = c.reshapeLike(c.masked(c.x[2], r), c.x[1])
	}
	return g
}

// sumAll returns the sum of all elements, a scalar.
func (c *call) sumAll(x string) string { return c.OpA("ReduceSum", attrs{"keepdims": 0}, x) }
