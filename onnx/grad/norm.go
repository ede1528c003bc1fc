package grad

import "assay/onnx"

var normRules = []entry{
	{op: "Softmax", rule: softmaxRule},
	{op: "LogSoftmax", rule: logSoftmaxRule},
	{op: "LayerNormalization", broadcast: true, rule: layerNormRule},
	{op: "RMSNormalization", since: 23, broadcast: true, rule: rmsNormRule},
	{op: "SimplifiedLayerNormalization", broadcast: true, rule: rmsNormRule, note: "ONNX Runtime's name of RMSNormalization"},
	{op: "BatchNormalization", expand: batchNorm, note: "inference"},
	{op: "InstanceNormalization", expand: instanceNorm},
	{op: "GroupNormalization", since: 21, expand: groupNorm},
	{op: "LpNormalization", expand: lpNorm},
	{op: "MeanVarianceNormalization", expand: meanVarianceNorm},
}

// dX = (dY - sum dY y) y. In attention, Z = y V, that sum over the keys is the sum of dZ Z over the much fewer elements of a
// head: dY = dZ V', so sum_k dZ_j V_kj y_k = dZ_j Z_j.
func softmaxRule(c *call) []string {
	y, dy, axis := c.y[0], c.dy[0], c.axis("axis", -1, c.x[0])
	if product := c.weightedSum(); product != "" && axis == int64(c.rank(y)-1) {
		sum := c.sum(c.mul(c.e.sums[product], c.now(product)), []int64{axis}, true)
		return []string{c.mul(c.sub(dy, sum), y)}
	}
	p := c.mul(dy, y)
	return []string{c.sub(p, c.mul(y, c.sum(p, []int64{axis}, true)))}
}

// weightedSum returns Z = y V if that is the only thing the node's output y is used for, and y is not stretched for it.
func (c *call) weightedSum() string {
	y := c.n.Outputs[0]
	users := c.e.users[y]
	if len(users) != 1 || users[0].Op != "MatMul" || users[0].Inputs[0] != y || c.e.seeds[y] {
		return ""
	}
	z := users[0].Outputs[0]
	a, b := c.of(y), c.of(z)
	if c.e.sums[z] == "" || a.Rank() < 2 || a.Rank() != b.Rank() {
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
	axis := c.axis("axis", -1, c.x[0])
	return []string{c.sub(c.dy[0], c.mul(c.Op("Exp", c.y[0]), c.sum(c.dy[0], []int64{axis}, true)))}
}

// lastAxes returns the axes from the node's axis attribute on.
func (c *call) lastAxes() []int64 {
	r := c.rank(c.x[0])
	return iota64(r)[min(int64(r), c.axis("axis", -1, c.x[0])):]
}

// meanOf is the mean of a b over the axes, which stay with size 1.
func (c *call) meanOf(a, b string, axes []int64) string {
	return c.reduce("ReduceMean", c.mul(a, b), axes, true)
}

// y = x r w, r = 1/sqrt(mean x^2 + eps): with t = dY w, dX = r (t - x r^2 mean(t x)), dW = sum dY x r.
func rmsNormRule(c *call) []string {
	t := onnx.DType(c.n.Int("stash_type", int64(onnx.Float)))
	if c.of(c.x[0]).Type == onnx.Double {
		t = onnx.Double
	}
	x, dy, axes := c.cast(c.x[0], t), c.cast(c.dy[0], t), c.lastAxes()
	inv := c.inverseRoot(c.meanOf(x, x, axes))
	g := make([]string, 2)
	if c.want(0) {
		d := c.mul(dy, c.cast(c.x[1], t))
		k := c.mul(c.mul(inv, inv), c.meanOf(d, x, axes))
		g[0] = c.cast(c.mul(inv, c.sub(d, c.mul(x, k))), c.of(c.x[0]).Type)
	}
	if c.want(1) {
		g[1] = c.cast(c.mul(dy, c.mul(x, inv)), c.of(c.x[1]).Type)
	}
	return g
}

// inverseRoot is 1/sqrt(v + epsilon).
func (c *call) inverseRoot(v string) string {
	return c.Op("Reciprocal", c.Op("Sqrt", c.add(v, c.like(v, float64(c.n.Float("epsilon", 1e-5))))))
}

// y = z w + b, z = (x - mean x) r, r = 1/sqrt(var x + eps): with t = dY w, dX = r (t - mean t - z mean(t z)),
// dW = sum dY z, dB = sum dY.
func layerNormRule(c *call) []string {
	t := onnx.DType(c.n.Int("stash_type", int64(onnx.Float)))
	if c.of(c.x[0]).Type == onnx.Double {
		t = onnx.Double
	}
	x, dy, axes := c.cast(c.x[0], t), c.cast(c.dy[0], t), c.lastAxes()
	centred := c.sub(x, c.reduce("ReduceMean", x, axes, true))
	inv := c.inverseRoot(c.meanOf(centred, centred, axes))
	z := c.mul(centred, inv)
	g := make([]string, len(c.x))
	if c.want(0) {
		d := c.mul(dy, c.cast(c.x[1], t))
		inner := c.sub(c.sub(d, c.reduce("ReduceMean", d, axes, true)), c.mul(z, c.meanOf(d, z, axes)))
		g[0] = c.cast(c.mul(inner, inv), c.of(c.x[0]).Type)
	}
	if c.want(1) {
		g[1] = c.cast(c.mul(dy, z), c.of(c.x[1]).Type)
	}
	if c.want(2) {
		g[2] = c.cast(dy, c.of(c.x[2]).Type)
	}
	return g
}

// perChannel makes a vector over axis 1 broadcast to x.
func (c *call) perChannel(v, x string) string {
	if c.rank(x) <= 2 {
		return v
	}
	return c.unsqueeze(v, iota64(c.rank(x) - 1)[1:]...)
}

// y = (x - mean) scale / sqrt(var + eps) + bias with given statistics.
func batchNorm(c *call) []string {
	if c.n.Int("training_mode", 0) != 0 {
		return c.fail("wanted training_mode = 0")
	}
	x := c.x[0]
	per := func(v string) string { return c.perChannel(v, x) }
	factor := c.mul(c.x[1], c.inverseRoot(c.x[4]))
	return []string{c.add(c.mul(c.sub(x, per(c.x[3])), per(factor)), per(c.x[2]))}
}

// standardised is (x - mean) / sqrt(var + eps) over axes.
func (c *call) standardised(x string, axes []int64) string {
	centred := c.sub(x, c.reduce("ReduceMean", x, axes, true))
	return c.mul(centred, c.inverseRoot(c.meanOf(centred, centred, axes)))
}

func instanceNorm(c *call) []string {
	x := c.x[0]
	z := c.standardised(x, iota64(c.rank(x))[2:])
	return []string{c.add(c.mul(z, c.perChannel(c.x[1], x)), c.perChannel(c.x[2], x))}
}

// groupNorm: channels are normalised in groups.
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
	return []string{c.div(c.x[0], c.reduce(op, c.x[0], []int64{c.axis("axis", -1, c.x[0])}, true))}
}

func meanVarianceNorm(c *call) []string {
	axes := c.n.Ints("axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	centred := c.sub(c.x[0], c.reduce("ReduceMean", c.x[0], axes, true))
	return []string{c.div(centred, c.add(c.Op("Sqrt", c.meanOf(centred, centred, axes)), c.like(c.x[0], 1e-9)))}
}
