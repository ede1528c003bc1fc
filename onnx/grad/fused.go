package grad

import "assay/onnx"

// Rules of the fused operators (ops/), whose gradients are operators.
var fusedRules = []entry{
	{
		domain:            onnx.FusedDomain,
		op:                "FlashAttention",
		nonDifferentiable: []int{3},
		rule:              flashAttentionRule,
		note:              "requires the second output, lse",
	},
	{domain: onnx.FusedDomain, op: "RopeSplit", nonDifferentiable: []int{1, 2}, outputs: 3, rule: ropeSplitRule},
	{
		domain:    onnx.FusedDomain,
		op:        "AddRMSNorm",
		outputs:   2,
		rule:      addRMSNormRule,
		decompose: addRMSNorm,
		note:      "the weight's gradient by decomposition",
	},
	{domain: onnx.FusedDomain, op: "Dropout", nonDifferentiable: []int{1, 2}, rule: func(c *call) []string {
		return append(c.Node(onnx.FusedDomain, "Dropout", 1, c.n.Attrs, c.dy[0], c.x[1]), make([]string, len(c.x)-1)...)
	}},
	{domain: onnx.FusedDomain, op: "SwiGLU", rule: func(c *call) []string {
		return c.Node(onnx.FusedDomain, "SwiGLUGrad", 1, nil, c.dy[0], c.x[0])
	}},
}

// The probabilities are recomputed from the rows' log-sum-exp.
func flashAttentionRule(c *call) []string {
	if len(c.y) < 2 || c.y[1] == "" {
		return c.fail("needs the second output, lse, which the gradient reads")
	}
	g := c.Node(onnx.FusedDomain, "FlashAttentionGrad", 3, c.n.Attrs, c.dy[0], c.x[0], c.x[1], c.x[2], c.x[3], c.y[0],
		c.y[1])
	return append(g, "")
}

func ropeSplitRule(c *call) []string {
	g := make([]string, 3)
	copy(g, c.dy)
	return []string{
		c.Node(onnx.FusedDomain, "RopeSplitGrad", 1, c.n.Attrs, g[0], g[1], g[2], c.x[1], c.x[2])[0],
		"",
		"",
	}
}

// The fused gradient does not include the weight, which is frozen wherever the operator is used. It reads the normed
// rows, not the sum, which is freed in the forward pass, and divides them by the weight, unless a constant in the
// model has a 0.
func addRMSNormRule(c *call) []string {
	if c.needs(2) || len(c.y) < 3 || c.y[1] == "" || c.y[2] == "" ||
		onnx.HasZero(onnx.Floats(c.value(c.x[2]).Const)) {
		return nil
	}
	var dsum, dn string
	dsum = c.dy[0]
	if len(c.dy) > 1 {
		dn = c.dy[1]
	}
	outputs := 2
	if c.x[1] == "" {
		outputs = 1
	}
	g := c.Node(onnx.FusedDomain, "RMSNormGrad", outputs, nil, dn, dsum, c.y[1], c.x[2], c.y[2])
	if outputs == 1 {
		g = append(g, "")
	}
	return append(g, "")
}

func addRMSNorm(c *call) []string {
	sum, rows := c.x[0], c.x[0]
	if c.x[1] != "" {
		sum, rows = c.add(c.x[0], c.cast(c.x[1], c.value(c.x[0]).Type)), c.x[1]
	}
	r := c.inverseRoot(c.meanOf(sum, sum, []int64{-1}))
	n := c.cast(c.mul(c.mul(sum, r), c.x[2]), c.value(rows).Type)
	return []string{sum, n, c.Op("Squeeze", r, c.Ints(-1))}
}
