package grad

import (
	"assay/onnx"
)

func reduceCases() []opCase {
	var cases []opCase
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
		"ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd"} {
		in := func(g *gen) string {
			switch op {
			case "ReduceMax", "ReduceMin":
				return g.distinct(2, 3, g.k)
			case "ReduceLogSum", "ReduceProd":
				return g.pos(2, 3, g.k)
			}
			return g.off([]float64{0}, 2, 3, g.k)
		}
		for _, keep := range []int64{0, 1} {
			cases = append(cases,
				opCase{op: op, from: 18, build: func(g *gen) { g.op(op, at{"keepdims": keep}, in(g), g.c(-2)) }},
				opCase{op: op, from: 18, build: func(g *gen) { g.op(op, at{"keepdims": keep}, in(g), g.c(0, 2)) }},
				opCase{op: op, from: 18, build: func(g *gen) { g.op(op, at{"keepdims": keep}, in(g)) }})
			if op != "ReduceSum" {
				cases = append(
					cases,
					opCase{
						op:    op,
						from:  13,
						to:    17,
						build: func(g *gen) { g.op(op, at{"keepdims": keep, "axes": []int{1}}, in(g)) },
					},
				)
			}
		}
		if op == "ReduceProd" { // one zero in a row, and two
			cases = append(cases, opCase{op: op, from: 18, build: func(g *gen) {
				g.op(
					op,
					nil,
					g.input(
						[]int64{3, 3},
						func(i int) float64 { return []float64{0.5, 0, 2, 0, 0, 3, 1, 2, -1}[i] },
						true,
					),
					g.c(1),
				)
			}})
		}
		if op == "ReduceSum" || op == "ReduceMean" {
			cases = append(
				cases,
				opCase{op: op, from: 18, build: func(g *gen) { g.op(op, at{"noop_with_empty_axes": 1}, in(g)) }},
			)
		}
	}
	for _, a := range []at{nil, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}} {
		cases = append(
			cases,
			opCase{
				op:    "CumSum",
				from:  14,
				build: func(g *gen) { g.op("CumSum", a, g.x(2, 3*g.k), g.i([]int64{}, -1)) },
			},
		)
	}
	return cases
}

func normCases() []opCase {
	cases := []opCase{
		{op: "LayerNormalization", from: 17, build: func(g *gen) {
			g.op("LayerNormalization", at{"axis": -1, "epsilon": 1e-3}, g.x(2, 4*g.k), g.pos(4*g.k), g.x(4*g.k))
		}},
		{
			op:    "LayerNormalization",
			from:  17,
			build: func(g *gen) { g.op("LayerNormalization", at{"axis": 1}, g.x(2, 2, 2*g.k), g.pos(2, 2*g.k)) },
		},
		{
			op:     "LayerNormalization",
			from:   17,
			single: true,
			build: func(g *gen) { // with the mean and the inverse deviation
				g.nodes(
					"",
					"LayerNormalization",
					3,
					at{"axis": 1, "epsilon": 1e-2},
					g.x(2, 2, 2*g.k),
					g.pos(2, 2*g.k),
					g.x(2*g.k),
				)
			},
		},
		{op: "LayerNormalization", from: 17, single: true, build: func(g *gen) { // with only these
			x, w := g.x(2, 4*g.k), g.pos(4*g.k)
			g.outputs = g.b.Node("", "LayerNormalization", 3, at{"epsilon": 1e-2}, x, w)[1:]
		}},
		{op: "SimplifiedLayerNormalization", from: 17, single: true, build: func(g *gen) {
			g.nodes("", "SimplifiedLayerNormalization", 2, at{"axis": -1, "epsilon": 1e-2}, g.x(2, 4*g.k), g.pos(4*g.k))
		}},
		{op: "BatchNormalization", from: 15, single: true, build: func(g *gen) {
			x, rest := g.x(3, 2, g.k+1), []string{g.pos(2), g.x(2), g.fixed(2), g.fixed(2)}
			// The runtime overwrites the given statistics with the updated ones, so they cannot be compared here;
			// tools/parity does.
			g.outputs = g.b.Node("", "BatchNormalization", 3, at{"training_mode": 1, "momentum": 0.7},
				append([]string{x}, rest...)...)[:1]
		}},
		{
			op:    "RMSNormalization",
			from:  23,
			build: func(g *gen) { g.op("RMSNormalization", at{"axis": -1, "epsilon": 1e-3}, g.x(2, 4*g.k), g.pos(4*g.k)) },
		},
		{
			op:    "RMSNormalization",
			from:  23,
			build: func(g *gen) { g.op("RMSNormalization", at{"axis": 1}, g.x(2, 2, 2*g.k), g.pos(2, 2*g.k)) },
		},
		{op: "SimplifiedLayerNormalization", from: 17, build: func(g *gen) {
			g.op("SimplifiedLayerNormalization", at{"axis": -1, "epsilon": 1e-3}, g.x(2, 4*g.k), g.pos(4*g.k))
		}},
		{op: "BatchNormalization", from: 15, build: func(g *gen) {
			g.op("BatchNormalization", at{"epsilon": 1e-3}, g.x(2, 2, g.k, 2), g.pos(2), g.x(2), g.x(2), g.pos(2))
		}},
		{
			op:    "BatchNormalization",
			from:  15,
			build: func(g *gen) { g.op("BatchNormalization", nil, g.x(2*g.k, 3), g.pos(3), g.x(3), g.x(3), g.pos(3)) },
		},
		{
			op:    "InstanceNormalization",
			from:  13,
			build: func(g *gen) { g.op("InstanceNormalization", at{"epsilon": 1e-2}, g.x(1, 2, 3*g.k), g.pos(2), g.x(2)) },
		},
		{op: "GroupNormalization", from: 21, single: true, build: func(g *gen) {
			g.op("GroupNormalization", at{"num_groups": 2, "epsilon": 1e-2}, g.x(1, 4, 2*g.k), g.pos(4), g.x(4))
		}},
		{
			op:    "LpNormalization",
			from:  13,
			build: func(g *gen) { g.op("LpNormalization", at{"axis": 1}, g.x(2, 3*g.k)) },
		},
		{
			op:    "LpNormalization",
			from:  13,
			build: func(g *gen) { g.op("LpNormalization", at{"axis": 0, "p": 1}, g.off([]float64{0}, 3*g.k, 2)) },
		},
		{
			op:    "MeanVarianceNormalization",
			from:  13,
			build: func(g *gen) { g.op("MeanVarianceNormalization", nil, g.x(2, 2, g.k, 2)) },
		},
	}
	for _, op := range []string{"Softmax", "LogSoftmax"} {
		for _, axis := range []int{-1, 0, 1} {
			cases = append(
				cases,
				opCase{op: op, from: 13, build: func(g *gen) { g.op(op, at{"axis": axis}, g.x(2, 3, g.k+1)) }},
			)
		}
	}
	return cases
}

func shapeCases() []opCase {
	cases := []opCase{
		{op: "Reshape", from: 13, build: func(g *gen) { g.op("Reshape", nil, g.x(2, 6, g.k), g.c(0, -1, 3)) }},
		{op: "Flatten", from: 13, build: func(g *gen) { g.op("Flatten", at{"axis": 2}, g.x(2, 2, g.k)) }},
		{op: "Squeeze", from: 13, build: func(g *gen) { g.op("Squeeze", nil, g.x(1, 3*g.k, 1), g.c(-1)) }},
		{op: "Unsqueeze", from: 13, build: func(g *gen) { g.op("Unsqueeze", nil, g.x(2, g.k), g.c(0, -1)) }},
		{op: "Expand", from: 13, build: func(g *gen) { g.op("Expand", nil, g.x(2, 1), g.c(2, 1, 3)) }},
		{op: "Transpose", from: 13, build: func(g *gen) { g.op("Transpose", nil, g.x(2, 3, g.k)) }},
		{
			op:    "Transpose",
			from:  13,
			build: func(g *gen) { g.op("Transpose", at{"perm": []int{1, 2, 0}}, g.x(2, 3, g.k)) },
		},
		{
			op:    "Concat",
			from:  13,
			build: func(g *gen) { g.op("Concat", at{"axis": -1}, g.x(2, g.k), g.x(2, 3), g.x(2, 1)) },
		},
		{op: "Concat", from: 13, build: func(g *gen) { g.op("Concat", at{"axis": 0}, g.x(2, g.k)) }},
		{
			op:    "Split",
			from:  13,
			build: func(g *gen) { g.nodes("", "Split", 3, at{"axis": 1}, g.x(2, 3*g.k), g.c(1, 3*g.k-2, 1)) },
		},
		{op: "Split", from: 13, to: 17, build: func(g *gen) { g.nodes("", "Split", 2, at{"axis": 0}, g.x(2, g.k)) }},
		{
			op:    "Split",
			from:  18,
			build: func(g *gen) { g.nodes("", "Split", 2, at{"axis": 0, "num_outputs": 2}, g.x(3*g.k, 2)) },
		},
		{op: "Trilu", from: 14, build: func(g *gen) { g.op("Trilu", nil, g.x(2, 3, 3*g.k)) }},
		{
			op:    "Trilu",
			from:  14,
			build: func(g *gen) { g.op("Trilu", at{"upper": 0}, g.x(3, 3*g.k), g.i([]int64{}, 1)) },
		},
		{op: "Tile", from: 13, build: func(g *gen) { g.op("Tile", nil, g.x(2, g.k), g.c(3, 2)) }},
		{
			op:    "SpaceToDepth",
			from:  13,
			build: func(g *gen) { g.op("SpaceToDepth", at{"blocksize": 2}, g.x(1, 2, 2, 2*g.k)) },
		},
		{
			op:     "DepthToSpace",
			from:   13,
			static: true,
			build:  func(g *gen) { g.op("DepthToSpace", at{"blocksize": 2}, g.x(1, 8, 1, g.k)) },
		},
		{
			op:     "DepthToSpace",
			from:   13,
			static: true,
			build:  func(g *gen) { g.op("DepthToSpace", at{"blocksize": 2, "mode": "CRD"}, g.x(1, 8, 1, g.k)) },
		},
		{op: "Pad", from: 13, build: func(g *gen) { g.op("Pad", nil, g.x(2, g.k+1), g.c(1, 0, 0, 2), g.x()) }},
		{op: "Pad", from: 13, build: func(g *gen) { g.op("Pad", nil, g.x(3, g.k+1), g.c(-1, 0, 1, -1)) }},
		{op: "Pad", from: 18, build: func(g *gen) { g.op("Pad", nil, g.x(2, g.k+1), g.c(1, 2), g.x(), g.c(-1)) }},
		{
			op:    "Pad",
			from:  13,
			build: func(g *gen) { g.op("Pad", at{"mode": "reflect"}, g.x(2, g.k+2), g.c(0, 2, 1, 1)) },
		},
		{op: "Pad", from: 13, build: func(g *gen) { g.op("Pad", at{"mode": "edge"}, g.x(2, g.k+2), g.c(2, 0, 1, 3)) }},
		{op: "Pad", from: 19, build: func(g *gen) { g.op("Pad", at{"mode": "wrap"}, g.x(2, g.k+2), g.c(0, 1, 1, 2)) }},
	}
	for _, s := range []struct{ starts, ends, axes, steps []int64 }{
		{[]int64{1}, []int64{3}, nil, nil}, {[]int64{1, 0}, []int64{-1, 2}, []int64{0, -1}, nil},
		{[]int64{-1}, []int64{-100}, []int64{0}, []int64{-2}},
		{[]int64{0, 5}, []int64{4, 0}, []int64{0, 1}, []int64{2, -1}},
		{[]int64{-3}, []int64{1 << 40}, []int64{1}, []int64{1}},
	} {
		cases = append(cases, opCase{op: "Slice", from: 13, build: func(g *gen) {
			in := []string{g.x(4, 2+g.k), g.c(s.starts...), g.c(s.ends...), "", ""}
			if s.axes != nil {
				in[3] = g.c(s.axes...)
			}
			if s.steps != nil {
				in[4] = g.c(s.steps...)
			}
			g.op("Slice", nil, in...)
		}})
	}
	for _, end := range []int64{3, -1, 9} { // from the start to an end that is only known when the model runs
		cases = append(cases, opCase{op: "Slice", from: 13, build: func(g *gen) {
			g.op("Slice", nil, g.x(4, 2+g.k), g.c(0), g.i([]int64{1}, end), g.c(0))
		}})
	}
	return cases
}

func indexCases() []opCase {
	cases := []opCase{
		{
			op:    "Gather",
			from:  13,
			build: func(g *gen) { g.op("Gather", nil, g.x(4, g.k), g.i([]int64{2, 2}, 0, 3, -1, 0)) },
		},
		{
			op:    "Gather",
			from:  13,
			build: func(g *gen) { g.op("Gather", at{"axis": 1}, g.x(2, 3, g.k), g.i([]int64{}, -1)) },
		},
		{
			op:    "Gather",
			from:  13,
			build: func(g *gen) { g.op("Gather", at{"axis": -1}, g.x(2, 3, g.k+1), g.i([]int64{3}, 1, 0, 1)) },
		},
		{op: "Gather", from: 13, build: func(g *gen) { // too many rows for a one-hot product
			g.op(
				"Gather",
				nil,
				g.b.Op("Pad", g.x(3, g.k), g.c(0, 0, maxOneHotRows, 0)),
				g.i([]int64{5}, 0, 2, maxOneHotRows, 2, 0),
			)
		}},
		{op: "Gather", from: 13, build: func(g *gen) {
			g.op("Gather", at{"axis": 1}, g.x(2, 3, g.k), g.i([]int64{2}, 2, 0))
			g.b.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
		}},
		{op: "Gather", from: 13, build: func(g *gen) {
			g.op("Gather", nil, g.x(4, g.k), g.i([]int64{2, 1}, 2, -1))
			g.b.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
		}},
		{op: "GatherElements", from: 13, build: func(g *gen) {
			g.op("GatherElements", at{"axis": 1}, g.x(3, 2+g.k), g.i([]int64{2, 3}, 0, -1, 0, 1, 2, 2))
		}},
		{
			op:    "GatherElements",
			from:  13,
			build: func(g *gen) { g.op("GatherElements", nil, g.x(3, 2*g.k), g.index(3, 1, 2*g.k)) },
		},
		{
			op:    "GatherND",
			from:  13,
			build: func(g *gen) { g.op("GatherND", nil, g.x(3, 2, g.k), g.i([]int64{3, 2}, 0, 1, 2, -1, 0, 1)) },
		},
		{
			op:    "GatherND",
			from:  13,
			build: func(g *gen) { g.op("GatherND", nil, g.x(3, g.k), g.i([]int64{2, 2, 1}, 0, 1, 1, -1)) },
		},
		{
			op:    "ScatterND",
			from:  16,
			build: func(g *gen) { g.op("ScatterND", nil, g.x(3, g.k), g.i([]int64{2, 1}, 2, 0), g.x(2, g.k)) },
		},
		{op: "ScatterND", from: 16, build: func(g *gen) {
			g.op("ScatterND", at{"reduction": "add"}, g.x(3, 2, g.k), g.i([]int64{2, 2}, 2, 0, 2, 0), g.x(2, g.k))
		}},
		{op: "ScatterElements", from: 16, build: func(g *gen) {
			g.op("ScatterElements", at{"axis": 1}, g.x(2, 3*g.k), g.i([]int64{2, 2}, 0, 2, 1, 0), g.x(2, 2))
		}},
		{op: "ScatterElements", from: 16, build: func(g *gen) {
			g.op("ScatterElements", at{"reduction": "add"}, g.x(3, 2*g.k), g.i([]int64{2, 2}, 0, 2, 0, 2), g.x(2, 2))
		}},
		{
			op:    "TopK",
			from:  13,
			build: func(g *gen) { g.nodes("", "TopK", 2, at{"axis": 0}, g.distinct(4, g.k), g.c(2)) },
		},
		{op: "Compress", from: 13, build: func(g *gen) {
			g.op("Compress", at{"axis": 1}, g.x(g.k, 3), g.b.Numbers(onnx.Bool, []int64{3}, 1, 0, 1))
		}},
		{
			op:    "Compress",
			from:  13,
			build: func(g *gen) { g.op("Compress", nil, g.x(2, 2*g.k), g.b.Numbers(onnx.Bool, []int64{4}, 0, 1, 1, 0)) },
		},
	}
	return cases
}
