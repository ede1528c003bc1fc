package grad

import (
	"slices"

	"assay/onnx"
)

type at = onnx.Attrs

// opCases returns the checks of all rules, at least one for each.
func opCases() []opCase {
	return slices.Concat(
		elementwiseCases(),
		activationCases(),
		linearCases(),
		reduceCases(),
		normCases(),
		shapeCases(),
		indexCases(),
		convCases(),
		attentionCases(),
		recurrentCases(),
		controlCases(),
		fusedCases(),
	)
}

// simple checks an operator of one input.
func simple(op string, in func(g *gen) string, a onnx.Attrs) opCase {
	return opCase{op: op, from: 13, build: func(g *gen) { g.op(op, a, in(g)) }}
}

func normal(g *gen) string   { return g.x(2, 3*g.k) }
func positive(g *gen) string { return g.pos(2, 3*g.k) }
func unit(g *gen) string     { return g.unit(3, 2*g.k) }
func above1(g *gen) string {
	return g.input([]int64{4 * g.k}, func(int) float64 { return 1.2 + g.rng.Float64() }, true)
}
func off(kinks ...float64) func(g *gen) string {
	return func(g *gen) string { return g.off(kinks, 2, 4*g.k) }
}

func elementwiseCases() []opCase {
	cases := []opCase{
		simple(
			"Neg",
			normal,
			nil,
		), simple("Identity", normal, nil), simple("Abs", off(0), nil), simple("Sqrt", positive, nil),
		simple(
			"Reciprocal",
			positive,
			nil,
		), simple("Exp", normal, nil), simple("Log", positive, nil), simple("Sin", normal, nil),
		simple(
			"Cos",
			normal,
			nil,
		), simple("Tan", unit, nil), simple("Asin", unit, nil), simple("Acos", unit, nil), simple("Atan", normal, nil),
		simple(
			"Sinh",
			normal,
			nil,
		), simple("Cosh", normal, nil), simple("Asinh", normal, nil), simple("Acosh", above1, nil),
		simple(
			"Atanh",
			unit,
			nil,
		), simple("Erf", normal, nil), simple("Floor", off(-4, -3, -2, -1, 0, 1, 2, 3, 4), nil),
		simple(
			"Ceil",
			off(-4, -3, -2, -1, 0, 1, 2, 3, 4),
			nil,
		), simple("Round", off(-4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5), nil),
		simple("Sign", off(0), nil),
		{op: "Bernoulli", from: 15, to: 21, build: func(g *gen) {
			g.op("Bernoulli", at{"seed": 3.0}, g.input([]int64{2, 2}, func(int) float64 { return 1 }, true)) // always 1
		}},
		{
			op:    "RandomNormalLike",
			from:  13,
			to:    21,
			build: func(g *gen) { g.op("RandomNormalLike", at{"scale": 1e-30, "mean": 1.0}, g.x(2, 3*g.k)) },
		},
		{
			op:    "RandomUniformLike",
			from:  13,
			to:    21,
			build: func(g *gen) { g.op("RandomUniformLike", at{"low": 1.0, "high": 1.0}, g.x(2, 3*g.k)) },
		},
		{op: "Pow", from: 13, build: func(g *gen) { g.op("Pow", nil, g.pos(2, 1), g.x(3*g.k)) }},
		{op: "Pow", from: 13, build: func(g *gen) { g.op("Pow", nil, g.off([]float64{0}, 2, g.k), g.s(2)) }},
		{op: "Pow", from: 15, build: func(g *gen) { g.op("Pow", nil, g.off([]float64{0}, 2, g.k), g.i([]int64{}, 3)) }},
		{op: "Pow", from: 13, build: func(g *gen) { x := g.pos(2, g.k); g.op("Pow", nil, x, x) }},
		{op: "Pow", from: 13, build: func(g *gen) { // 0^0, 0^2 and 0^3: no NaN
			g.op(
				"Pow",
				nil,
				g.input([]int64{3}, func(int) float64 { return 0 }, true),
				g.input([]int64{3}, func(i int) float64 { return []float64{0, 2, 3}[i] }, false),
			)
		}},
		{
			op:    "Pow",
			from:  13,
			build: func(g *gen) { g.op("Pow", nil, g.input([]int64{3}, func(int) float64 { return 0 }, true), g.s(0)) },
		},
		{op: "Mul", from: 13, build: func(g *gen) { x := g.x(2, g.k); g.op("Mul", nil, x, x) }},
		{op: "Mul", from: 13, build: func(g *gen) { x := g.x(2, g.k); g.op("Mul", nil, g.b.Op("Sigmoid", x), x) }},
		{op: "Mod", from: 13, build: func(g *gen) {
			g.op("Mod", at{"fmod": 1}, g.off([]float64{0, 1, 2, 3, 4, -1, -2, -3, -4}, 3*g.k), g.s(1))
		}},
		{op: "Sum", from: 13, build: func(g *gen) { g.op("Sum", nil, g.x(2, 1), g.x(3*g.k), g.x()) }},
		{op: "Sum", from: 13, build: func(g *gen) { g.op("Sum", nil, g.x(3*g.k)) }},
		{op: "Mean", from: 13, build: func(g *gen) { g.op("Mean", nil, g.x(2, 1), g.x(3*g.k), g.x(2, 1)) }},
		{op: "Where", from: 13, build: func(g *gen) { g.op("Where", nil, g.bools(2, 3*g.k), g.x(3*g.k), g.x(2, 1)) }},
		{
			op:    "Clip",
			from:  13,
			build: func(g *gen) { g.op("Clip", nil, g.off([]float64{-1, 1}, 3, 2*g.k), g.s(-1), g.s(1)) },
		},
		{op: "Clip", from: 13, build: func(g *gen) {
			g.op("Clip", nil, g.off([]float64{0.4}, 3, 2*g.k), "", g.input(nil, func(int) float64 { return 0.4 }, true))
		}},
		{op: "Clip", from: 13, build: func(g *gen) {
			g.op("Clip", nil, g.off([]float64{0.4}, 3, 2*g.k), g.input(nil, func(int) float64 { return 0.4 }, true))
		}},
		{op: "Clip", from: 13, build: func(g *gen) { g.op("Clip", nil, g.x(3, 2*g.k)) }},
		{op: "Clip", from: 13, build: func(g *gen) { // the lower bound is above the upper one, which wins
			bound := func(v float64) string { return g.input(nil, func(int) float64 { return v }, true) }
			g.op("Clip", nil, g.off([]float64{-0.5, 0.5}, 3, 2*g.k), bound(0.5), bound(-0.5))
		}},
		{
			op:    "Cast",
			from:  13,
			build: func(g *gen) { g.op("Cast", at{"to": g.t}, g.b.OpA("Cast", at{"to": onnx.Float}, g.x(2))) },
		},
		{op: "CastLike", from: 15, build: func(g *gen) { g.op("CastLike", nil, g.x(2, g.k), g.fixed(1)) }},
	}
	cases[len(cases)-2].build = func(g *gen) { g.op("Cast", at{"to": g.t}, g.x(2, g.k)) }
	for _, op := range []string{"Add", "Sub", "Mul", "Div"} {
		cases = append(
			cases,
			opCase{op: op, from: 13, build: func(g *gen) { g.op(op, nil, g.x(2, 1, 2*g.k), g.pos(2, 1)) }},
			opCase{op: op, from: 13, build: func(g *gen) { g.op(op, nil, g.x(), g.pos(1, 3*g.k)) }},
		)
	}
	for _, op := range []string{"Min", "Max"} {
		cases = append(
			cases,
			opCase{
				op:    op,
				from:  13,
				build: func(g *gen) { g.op(op, nil, g.distinct(4*g.k), g.off([]float64{-2, -1, 0, 1, 2}, 2, 1)) },
			},
			opCase{op: op, from: 13, build: func(g *gen) {
				g.op(
					op,
					nil,
					g.input([]int64{3 * g.k}, func(i int) float64 { return float64(i % 3) }, true),
					g.s(0.5),
					g.input([]int64{2, 1}, func(i int) float64 { return float64(i) + 0.7 }, true),
				)
			}},
		)
	}
	return cases
}

func activationCases() []opCase {
	cases := []opCase{
		simple(
			"Relu",
			off(0),
			nil,
		), simple("Sigmoid", normal, nil), simple("Tanh", normal, nil), simple("LeakyRelu", off(0), at{"alpha": 0.2}),
		simple(
			"Elu",
			off(0),
			at{"alpha": 0.7},
		), simple("Selu", off(0), nil), simple("Celu", off(0), at{"alpha": 0.6}), simple("Softplus", normal, nil),
		simple(
			"Softsign",
			off(0),
			nil,
		), simple("HardSigmoid", off(-2.5, 2.5), nil), simple("ThresholdedRelu", off(1), nil),
		simple(
			"Shrink",
			off(-0.5, 0.5),
			at{"bias": 0.1},
		), simple("Gelu", normal, nil), simple("Gelu", normal, at{"approximate": "tanh"}),
		simple("Mish", normal, nil), simple("HardSwish", off(-3, 3), nil), simple("Swish", normal, at{"alpha": 1.3}),
		{
			op:    "PRelu",
			from:  16,
			build: func(g *gen) { g.op("PRelu", nil, g.off([]float64{0}, 2, 2*g.k, 2), g.x(2*g.k, 1)) },
		},
		{op: "com.microsoft.Gelu", from: 13, build: func(g *gen) { g.nodes(microsoft, "Gelu", 1, nil, g.x(2, 3*g.k)) }},
		{
			op:    "com.microsoft.QuickGelu",
			from:  13,
			build: func(g *gen) { g.nodes(microsoft, "QuickGelu", 1, at{"alpha": 1.702}, g.x(2, 3*g.k)) },
		},
		{op: "Dropout", from: 13, build: func(g *gen) { g.op("Dropout", nil, g.x(2, g.k)) }},
		{op: "Dropout", from: 13, build: func(g *gen) {
			g.op("Dropout", nil, g.x(2, g.k), g.b.Scalar(onnx.Float, 0.4), g.b.Scalar(onnx.Bool, 0))
		}},
	}
	since := map[string]int64{"Gelu": 20, "Mish": 18, "HardSwish": 14, "Swish": 24}
	for i, c := range cases {
		cases[i].single = c.op == "Shrink"
		if s := since[c.op]; s > 0 {
			cases[i].from, cases[i].to = s, max(s, 23)
		}
	}
	return cases
}

func linearCases() []opCase {
	cases := []opCase{
		{op: "com.microsoft.FusedMatMul", from: 13, build: func(g *gen) {
			g.nodes(microsoft, "FusedMatMul", 1, at{"transA": 1, "alpha": 0.7}, g.x(2, 3, g.k), g.x(2, 3, 2))
		}},
		{op: "com.microsoft.FusedMatMul", from: 13, build: func(g *gen) {
			g.nodes(microsoft, "FusedMatMul", 1, at{"transB": 1, "alpha": 0.7}, g.x(2, g.k, 3), g.x(2, 4, 3))
		}},
		{op: "com.microsoft.FusedMatMul", from: 13, build: func(g *gen) {
			g.nodes(microsoft, "FusedMatMul", 1, at{"alpha": 0.7}, g.x(2, g.k, 3), g.x(1, 3, 4))
		}},
		{op: "com.microsoft.FusedMatMul", from: 13, build: func(g *gen) {
			g.nodes(microsoft, "FusedMatMul", 1, at{"transB": 1}, g.x(2, g.k, 3), g.x(2, 3))
		}},
		{op: "Gemm", from: 13, build: func(g *gen) { x := g.x(2*g.k, 2*g.k); g.op("Gemm", nil, x, x) }},
	}
	cases = append(cases, packedCases()...)
	for _, ta := range []int64{0, 1} {
		for _, tb := range []int64{0, 1} {
			cases = append(cases, opCase{op: "Gemm", from: 13, build: func(g *gen) {
				a, b := []int64{2, 3 * g.k}, []int64{3 * g.k, 2}
				if ta == 1 {
					a[0], a[1] = a[1], a[0]
				}
				if tb == 1 {
					b[0], b[1] = b[1], b[0]
				}
				g.op(
					"Gemm",
					at{"transA": ta, "transB": tb, "alpha": 0.5, "beta": 1.5},
					g.x(a...),
					g.x(b...),
					g.x([][]int64{{2, 2}, {2}, {1}, {2, 1}}[2*ta+tb]...),
				)
			}})
		}
	}
	for _, s := range [][2][]int64{{{2, 3}, {3, 2}}, {{3}, {3}}, {{3}, {3, 2}}, {{2, 3}, {3}}, {{2, 1, 2, 3}, {2, 3, 1}},
		{{2, 2, 3}, {3, 2}}, {{3}, {2, 3, 2}}, {{2, 2, 3}, {3}}, {{2, 3}, {2, 3, 2}}} {
		cases = append(
			cases,
			opCase{op: "MatMul", from: 13, build: func(g *gen) { g.op("MatMul", nil, g.x(s[0]...), g.x(s[1]...)) }},
		)
	}
	for _, e := range []struct {
		equation string
		shapes   [][]int64
	}{
		{"ij,jk->ik", [][]int64{{2, 3}, {3, 2}}}, {"bij,bkj->bik", [][]int64{{2, 2, 3}, {2, 2, 3}}},
		{"ij->", [][]int64{{2, 3}}}, {"ij->j", [][]int64{{2, 3}}},
		{"ij,j", [][]int64{{2, 3}, {3}}}, {"ii->i", [][]int64{{3, 3}}}, {"ii", [][]int64{{3, 3}}},
		{"abc,cd,d->ab", [][]int64{{2, 1, 3}, {3, 2}, {2}}},
		{"i,i,i->", [][]int64{{3}, {3}, {3}}}, {"...ij,...jk->...ik", [][]int64{{2, 2, 3}, {2, 3, 2}}},
		{"...ij,jk->...ik", [][]int64{{2, 1, 2, 3}, {3, 2}}},
		{"ij,kl->ijkl", [][]int64{{2, 2}, {1, 2}}}, {"ij,k->i", [][]int64{{2, 3}, {2}}},
	} {
		cases = append(cases, opCase{op: "Einsum", from: 13, build: func(g *gen) {
			var in []string
			for _, s := range e.shapes {
				in = append(in, g.x(s...))
			}
			g.op("Einsum", at{"equation": e.equation}, in...)
		}})
	}
	return cases
}
