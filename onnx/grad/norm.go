package grad

import "assay/onnx"

var normRules = []entry{
	{op: "Softmax", rule: softmaxRule},
	{op: "LogSoftmax", rule: logSoftmaxRule},
	{op: "LayerNormalization", outputs: 3, broadcast: true, rule: layerNormRule},
	{op: "RMSNormalization", since: 23, broadcast: true, rule: rmsNormRule},
	{
		op:        "SimplifiedLayerNormalization",
		outputs:   2,
		broadcast: true,
		rule:      rmsNormRule,
		note:      "ONNX Runtime's name for RMSNormalization",
	},
	{op: "BatchNormalization", outputs: 3, decompose: batchNorm},
	{op: "InstanceNormalization", decompose: instanceNorm},
	{op: "GroupNormalization", since: 21, decompose: groupNorm},
	{op: "LpNormalization", decompose: lpNorm},
	{op: "MeanVarianceNormalization", decompose: meanVarianceNorm},
}

// dX = (dY - sum dY y) y. In attention, Z = y V, that sum over the keys is the sum of dZ Z over the much fewer
// elements of a head: dY = dZ V', so sum_k dZ_j V_kj y_k = dZ_j Z_j.
func softmaxRule(c *call) []string {
	y, dy, axis := c.y[0], c.dy[0], c.axis(-1, c.x[0])
	if product := c.weightedSum(); product != "" && axis == int64(c.rank(y)-1) {
		sum := c.sum(c.mul(c.e.totals[product], c.current(product)), []int64{axis}, true)
		return []string{c.mul(c.sub(dy, sum), y)}
	}
	p := c.mul(dy, y)
	return []string{c.sub(p, c.mul(y, c.sum(p, []int64{axis}, true)))}
}

// weightedSum returns Z = y V if that is the only use of the node's output y, and y is not broadcast in it.
func (c *call) weightedSum() string {
	y := c.n.Outputs[0]
	users := c.e.consumers[y]
	if len(users) != 1 || users[0].Op != "MatMul" || users[0].Inputs[0] != y || c.e.seeds[y] {
		return ""
	}
	z := users[0].Outputs[0]
	a, b := c.value(y), c.value(z)
	if c.e.totals[z] == "" || a.Rank() < 2 || a.Rank() != b.Rank() {
		return ""
	}
	for i := range a.Rank() - 1 {
		if !a.Shape[i].Same(b.Shape[i]) {
			return ""
		}
	}
	return z
}

// dX = dY - e^y sum dY
func logSoftmaxRule(c *call) []string {
	axis := c.axis(-1, c.x[0])
	return []string{c.sub(c.dy[0], c.mul(c.Op("Exp", c.y[0]), c.sum(c.dy[0], []int64{axis}, true)))}
}

// lastAxes returns the axes starting at the node's axis attribute.
func (c *call) lastAxes() []int64 {
	r := c.rank(c.x[0])
	return axesUpTo(r)[min(int64(r), c.axis(-1, c.x[0])):]
}

// meanOf returns the mean of a b over the axes, which are kept with size 1.
func (c *call) meanOf(a, b string, axes []int64) string {
	return c.reduce("ReduceMean", c.mul(a, b), axes, true)
}

// normType returns the type that a normalisation computes in.
func (c *call) normType() onnx.DType {
	if c.value(c.x[0]).Type == onnx.Double {
		return onnx.Double
	}
	return onnx.DType(c.n.Int("stash_type", int64(onnx.Float)))
}

// gradOf returns the gradient of output i in the type t, "" if there is none.
func (c *call) gradOf(i int, t onnx.DType) string {
	if i >= len(c.dy) || c.dy[i] == "" {
		return ""
	}
	return c.cast(c.dy[i], t)
}

// sumContributions sums gradients, some of which may be missing, into one of the shape of x.
func (c *call) sumContributions(x string, parts ...string) string {
	sum, whole := "", false
	for i, p := range parts {
		switch {
		case p == "":
			continue
		case sum == "":
			sum = p
		default:
			sum = c.add(sum, p)
		}
		whole = whole || i == 0
	}
	if !whole { // only statistics: one number for many elements
		sum = c.Op("Expand", sum, c.shapeOf(x))
	}
	return sum
}

// averaged divides the gradient of a statistic by the number of elements of x along axes, from which it is computed.
func (c *call) averaged(g, x string, axes []int64) string {
	n := int64(1)
	for _, a := range axes {
		d := c.value(x).Shape[a]
		if !d.Known() {
			return c.div(g, c.cast(c.Op("Div", c.Op("Size", x), c.Op("Size", g)), c.value(g).Type))
		}
		n *= d.Size
	}
	return c.scale(g, 1/float64(n))
}

// y = x r w, r = 1/sqrt(mean x^2 + eps): with t = dY w, dX = r (t - x r^2 mean(t x)) - dR r^3 x / N, dW = sum dY x r.
func rmsNormRule(c *call) []string {
	t, axes := c.normType(), c.lastAxes()
	x, dy, dr := c.cast(c.x[0], t), c.gradOf(0, t), c.gradOf(1, t)
	inv := c.inverseRoot(c.meanOf(x, x, axes))
	g := make([]string, 2)
	if c.needs(0) {
		first, second := "", ""
		if dy != "" {
			d := c.mul(dy, c.cast(c.x[1], t))
			k := c.mul(c.mul(inv, inv), c.meanOf(d, x, axes))
			first = c.mul(inv, c.sub(d, c.mul(x, k)))
		}
		if dr != "" {
			cube := c.mul(c.mul(inv, inv), inv)
			second = c.neg(c.mul(x, c.mul(cube, c.averaged(dr, x, axes))))
		}
		g[0] = c.cast(c.sumContributions(x, first, second), c.value(c.x[0]).Type)
	}
	if c.needs(1) {
		g[1] = c.zerosLike(c.x[1])
		if dy != "" {
			g[1] = c.cast(c.mul(dy, c.mul(x, inv)), c.value(c.x[1]).Type)
		}
	}
	return g
}

// inverseRoot returns 1/sqrt(v + epsilon).
func (c *call) inverseRoot(v string) string {
	return c.Op("Reciprocal", c.Op("Sqrt", c.add(v, c.scalarLike(v, float64(c.n.Float("epsilon", 1e-5))))))
}

// y = z w + b, z = (x - m) r, m = mean x, r = 1/sqrt(var x + eps). With t = dY w: dX = r (t - mean t - z mean(t z)) +
// dM / N - dR r^2 z / N, dW = sum dY z, dB = sum dY.
func layerNormRule(c *call) []string {
	t, axes := c.normType(), c.lastAxes()
	x, dy, dm, dr := c.cast(c.x[0], t), c.gradOf(0, t), c.gradOf(1, t), c.gradOf(2, t)
	centred := c.sub(x, c.reduce("ReduceMean", x, axes, true))
	inv := c.inverseRoot(c.meanOf(centred, centred, axes))
	z := c.mul(centred, inv)
	g := make([]string, len(c.x))
	if c.needs(0) {
		first, second, third := "", "", ""
		if dy != "" {
			d := c.mul(dy, c.cast(c.x[1], t))
			inner := c.sub(c.sub(d, c.reduce("ReduceMean", d, axes, true)), c.mul(z, c.meanOf(d, z, axes)))
			first = c.mul(inner, inv)
		}
		if dm != "" {
			second = c.averaged(dm, x, axes)
		}
		if dr != "" {
			third = c.neg(c.mul(z, c.mul(c.mul(inv, inv), c.averaged(dr, x, axes))))
		}
		g[0] = c.cast(c.sumContributions(x, first, second, third), c.value(c.x[0]).Type)
	}
	for i := 1; i < len(g); i++ {
		switch {
		case !c.needs(i):
		case dy == "":
			g[i] = c.zerosLike(c.x[i])
		case i == 1:
			g[1] = c.cast(c.mul(dy, z), c.value(c.x[1]).Type)
		default:
			g[2] = c.cast(dy, c.value(c.x[2]).Type)
		}
	}
	return g
}

// perChannel reshapes a vector over axis 1 so that it broadcasts to x.
func (c *call) perChannel(v, x string) string {
	if c.rank(x) <= 2 {
		return v
	}
	return c.unsqueeze(v, axesUpTo(c.rank(x) - 1)[1:]...)
}

// y = (x - mean) scale / sqrt(var + eps) + bias. mean and var are given; in training they are the batch statistics,
// and the given ones are running averages.
func batchNorm(c *call) []string {
	t := c.value(c.x[4]).Type // data, scale and statistics may have three types
	x, scale, bias := c.cast(c.x[0], t), c.cast(c.x[1], t), c.cast(c.x[2], t)
	per := func(v string) string { return c.perChannel(v, x) }
	mean, variance, rest := c.x[3], c.x[4], []string{}
	switch {
	case c.n.Int("training_mode", 0) != 0:
		axes := append([]int64{0}, axesUpTo(c.rank(x))[min(2, c.rank(x)):]...)
		mean = c.reduce("ReduceMean", x, axes, false)
		centred := c.sub(x, per(mean))
		variance = c.reduce("ReduceMean", c.mul(centred, centred), axes, false)
		m := float64(c.n.Float("momentum", 0.9))
		for i, now := range []string{mean, variance} {
			given := c.x[3+i]
			rest = append(rest, c.add(c.scale(given, m), c.scale(now, 1-m)))
		}
	case len(c.y) > 1:
		return c.fail("needs one output if training_mode is 0")
	}
	factor := c.mul(scale, c.inverseRoot(variance))
	y := c.add(c.mul(c.sub(x, per(mean)), per(factor)), per(bias))
	return append([]string{c.cast(y, c.value(c.x[0]).Type)}, rest...)
}

// standardised returns (x - mean) / sqrt(var + eps) over axes.
func (c *call) standardised(x string, axes []int64) string {
	centred := c.sub(x, c.reduce("ReduceMean", x, axes, true))
	return c.mul(centred, c.inverseRoot(c.meanOf(centred, centred, axes)))
}

func instanceNorm(c *call) []string {
	x := c.x[0]
	z := c.standardised(x, axesUpTo(c.rank(x))[2:])
	return []string{c.add(c.mul(z, c.perChannel(c.x[1], x)), c.perChannel(c.x[2], x))}
}

// groupNorm normalises channels in groups.
func groupNorm(c *call) []string {
	x, groups := c.x[0], c.n.Int("num_groups", 1)
	grouped := c.reshape(x, 0, groups, -1)
	z := c.standardised(grouped, []int64{2})
	return []string{c.add(c.mul(c.reshapeLike(z, x), c.perChannel(c.x[1], x)), c.perChannel(c.x[2], x))}
}

// y = x / |x|_p along an axis
func lpNorm(c *call) []string {
	op := "ReduceL2"
	if c.n.Int("p", 2) == 1 {
		op = "ReduceL1"
	}
	return []string{c.div(c.x[0], c.reduce(op, c.x[0], []int64{c.axis(-1, c.x[0])}, true))}
}

func meanVarianceNorm(c *call) []string {
	axes := c.n.Ints("axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	centred := c.sub(c.x[0], c.reduce("ReduceMean", c.x[0], axes, true))
	return []string{c.div(centred, c.add(c.Op("Sqrt", c.meanOf(centred, centred, axes)), c.scalarLike(c.x[0], 1e-9)))}
}
