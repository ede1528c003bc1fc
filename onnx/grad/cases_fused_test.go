package grad

import "assay/onnx"

// segments are a constant table of FlashAttention: q0, qn, k0, kn and offset of each.
func segments(g *gen, rows ...[5]int64) string {
	var v []float64
	for _, r := range rows {
		for _, n := range r {
			v = append(v, float64(n))
		}
	}
	return g.b.Numbers(onnx.Int32, []int64{int64(len(rows)), 5}, v...)
}

func fusedCases() []opCase {
	// Only the first outputs are used.
	fused := func(op string, outputs, used int, a onnx.Attrs, in func(g *gen) []string) opCase {
		return opCase{op: "assay." + op, from: 17, single: true, build: func(g *gen) {
			g.outputs = append(g.outputs, g.b.Node(onnx.FusedDomain, op, outputs, a, in(g)...)[:used]...)
		}}
	}
	attend := func(a onnx.Attrs, queries, keys, q, k int64, rows func(k int64) [][5]int64) opCase {
		return opCase{op: "assay.FlashAttention", from: 17, single: true, build: func(g *gen) {
			in := []string{g.x(queries*g.k, q), g.x(keys*g.k, k), g.x(keys*g.k, k), segments(g, rows(g.k)...)}
			g.outputs = append(g.outputs, g.b.Node(onnx.FusedDomain, "FlashAttention", 2, a, in...)[0])
		}}
	}
	return []opCase{
		// causal; two sequences in a row, the second of which also attends to the first keys (a shared prefix); no
		// mask, with a row that attends to nothing; a window
		attend(at{"heads": 1}, 3, 3, 4, 4, func(k int64) [][5]int64 { return [][5]int64{{0, 3 * k, 0, 3 * k, 0}} }),
		attend(at{"heads": 2, "kv_heads": 1, "scale": 0.7}, 4, 4, 6, 3, func(k int64) [][5]int64 {
			return [][5]int64{{0, 2 * k, 0, 2 * k, 0}, {2 * k, 2 * k, 0, k, k}, {2 * k, 2 * k, 2 * k, 2 * k, 0}}
		}),
		attend(at{"heads": 2}, 3, 4, 4, 4, func(k int64) [][5]int64 { return [][5]int64{{0, 2 * k, 0, 4 * k, 4 * k}} }),
		attend(at{"heads": 1, "window": 2}, 4, 4, 3, 3, func(k int64) [][5]int64 {
			return [][5]int64{{0, 4 * k, 0, 4 * k, 0}}
		}),
		fused("Dropout", 1, 1, at{"rate": 0.4, "site": 3}, func(g *gen) []string {
			return []string{g.x(2, 5*g.k), g.i([]int64{1}, 1<<40+7)}
		}),
		// outputs that gradients read, and draw again
		{op: "assay.Dropout", from: 17, single: true, build: func(g *gen) {
			x, seed := g.x(2, 5*g.k), g.i([]int64{1}, 9)
			for site := range 3 {
				y := g.b.Node(onnx.FusedDomain, "Dropout", 1, at{"rate": 0.4, "site": site}, x, seed)[0]
				if site == 2 {
					y = g.b.OpA("Cast", at{"to": onnx.Float}, y)
				}
				g.outputs = append(g.outputs, g.b.Op("MatMul", y, g.x(5*g.k, 3)))
			}
		}},
		fused("SwiGLU", 1, 1, nil, func(g *gen) []string { return []string{g.x(2, 4*g.k)} }),
		fused("AddRMSNorm", 3, 2, at{"epsilon": 1e-2}, func(g *gen) []string {
			return []string{g.x(2, 3*g.k), g.x(2, 3*g.k), g.fixed(3 * g.k)}
		}),
		fused("AddRMSNorm", 3, 2, nil, func(g *gen) []string { // by decomposition: the fused gradient divides by the weight
			return []string{g.x(2, 3), g.x(2, 3), g.b.Numbers(onnx.Float, []int64{3}, 0.5, 0, -2)}
		}),
		fused("AddRMSNorm", 3, 1, nil, func(g *gen) []string {
			return []string{g.x(2, 3*g.k), g.x(2, 3*g.k), g.fixed(3 * g.k)}
		}),
		fused("AddRMSNorm", 3, 2, at{"epsilon": 1e-2}, func(g *gen) []string { // including the gradient of the weight
			return []string{g.x(2, 3*g.k), g.x(2, 3*g.k), g.pos(3 * g.k)}
		}),
		fused("AddRMSNorm", 2, 2, nil, func(g *gen) []string { // without rstd, which the fused gradient reads
			return []string{g.x(2, 3*g.k), g.x(2, 3*g.k), g.fixed(3 * g.k)}
		}),
		fused("AddRMSNorm", 1, 1, nil, func(g *gen) []string { // only a sum
			return []string{g.x(2, 3*g.k), g.x(2, 3*g.k), g.fixed(3 * g.k)}
		}),
		{op: "assay.AddRMSNorm", from: 17, single: true, build: func(g *gen) { // rstd omitted by an empty name
			y := g.b.Node(onnx.FusedDomain, "AddRMSNorm", 3, nil, g.x(2, 3*g.k), g.x(2, 3*g.k), g.fixed(3*g.k))
			g.b.Last().Outputs[2] = ""
			g.outputs = append(g.outputs, y[:2]...)
		}},
		{op: "assay.AddRMSNorm", from: 17, single: true, build: func(g *gen) { // only a norm, of rows in two axes
			y := g.b.Node(onnx.FusedDomain, "AddRMSNorm", 3, nil, g.x(2, 2, 3*g.k), "", g.fixed(3*g.k))
			g.b.Last().Outputs[0] = ""
			g.outputs = append(g.outputs, y[1])
		}},
		fused("RopeSplit", 3, 3, at{"heads": 2, "kv_heads": 1}, func(g *gen) []string {
			return []string{g.x(2, 4*5*g.k), g.fixed(2, 2*g.k), g.fixed(2, 2*g.k)}
		}),
		fused("RopeSplit", 3, 2, at{"heads": 1}, func(g *gen) []string { // v has no gradient
			return []string{g.x(2, 3*4*g.k), g.fixed(2, 2*g.k), g.fixed(2, 2*g.k)}
		}),
	}
}
