package grad

import (
	"assay/onnx"
)

func convCases() []opCase {
	var cases []opCase
	for _, s := range []struct {
		x, w []int64
		a    onnx.Attrs
	}{
		{[]int64{1, 2, 4, 3}, []int64{2, 2, 3, 2}, at{"pads": []int{1, 0, 1, 1}}},
		{[]int64{2, 2, 5, 4}, []int64{2, 1, 2, 2}, at{"group": 2, "strides": []int{2, 3}}},
		{[]int64{1, 1, 5, 5}, []int64{2, 1, 2, 2}, at{"dilations": []int{2, 3}, "pads": []int{1, 2, 0, 1}}},
		{[]int64{2, 2, 6}, []int64{3, 2, 3}, at{"strides": []int{2}, "pads": []int{1, 1}}},
		{[]int64{1, 1, 2, 3, 3}, []int64{2, 1, 2, 2, 2}, at{"strides": []int{1, 2, 1}}},
		{[]int64{1, 1, 4, 5}, []int64{1, 1, 2, 3}, at{"auto_pad": "SAME_LOWER"}},
		{[]int64{1, 1, 4, 5}, []int64{1, 1, 2, 3}, at{"auto_pad": "VALID"}},
	} {
		cases = append(cases, opCase{op: "Conv", from: 13, build: func(g *gen) {
			shape := append([]int64{s.x[0] * g.k}, s.x[1:]...)
			g.op("Conv", s.a, g.x(shape...), g.wide(s.w...), g.wide(s.w[0]))
		}})
	}
	cases = append(cases, opCase{op: "Conv", from: 13, static: true, build: func(g *gen) {
		g.op("Conv", at{"auto_pad": "SAME_UPPER", "strides": []int{2, 2}}, g.x(1, 1, 4, 5), g.wide(1, 1, 3, 2))
	}})
	for _, s := range []struct {
		x, w []int64
		a    onnx.Attrs
	}{
		{[]int64{1, 2, 3, 2}, []int64{2, 2, 3, 3},
			at{"strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}, "output_padding": []int{1, 0}}},
		{[]int64{2, 2, 2, 2}, []int64{2, 1, 2, 2}, at{"strides": []int{3, 2}, "group": 2}},
		{[]int64{1, 1, 3, 3}, []int64{1, 2, 2, 2}, at{"dilations": []int{2, 1}, "pads": []int{1, 0, 0, 1}}},
		{[]int64{1, 2, 4}, []int64{2, 1, 3}, at{"strides": []int{2}, "pads": []int{1, 1}}},
		{[]int64{1, 2, 4}, []int64{2, 1, 3}, at{"strides": []int{2}, "auto_pad": "SAME_UPPER"}},
	} {
		cases = append(cases, opCase{op: "ConvTranspose", from: 13, build: func(g *gen) {
			shape := append([]int64{s.x[0] * g.k}, s.x[1:]...)
			var bias []string
			if group, ok := s.a["group"].(int); ok {
				bias = append(bias, g.wide(s.w[1]*int64(group)))
			}
			g.op("ConvTranspose", s.a, append([]string{g.x(shape...), g.wide(s.w...)}, bias...)...)
		}})
	}
	cases = append(cases, opCase{op: "ConvTranspose", from: 13, static: true, build: func(g *gen) {
		g.op(
			"ConvTranspose",
			at{"strides": []int{2, 2}, "output_shape": []int{6, 5}},
			g.x(1, 1, 3, 3),
			g.wide(1, 1, 3, 3),
		)
	}})
	return append(append(cases, poolCases()...), resizeCases()...)
}

// wide is a kernel: its shape is known even if no other is.
func (g *gen) wide(shape ...int64) string {
	dynamic := g.dynamic
	g.dynamic = false
	defer func() { g.dynamic = dynamic }()
	return g.x(shape...)
}

func poolCases() []opCase {
	pool := func(op string, static bool, from int64, a onnx.Attrs, shape ...int64) opCase {
		return opCase{op: op, from: from, static: static, build: func(g *gen) {
			g.op(op, a, g.distinct(append([]int64{g.k}, shape...)...))
		}}
	}
	return []opCase{
		pool("MaxPool", false, 13, at{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}}, 2, 4, 5),
		pool("MaxPool", false, 13, at{"kernel_shape": []int{3, 2}, "pads": []int{1, 1, 1, 0}}, 1, 4, 3),
		pool("MaxPool", false, 13, at{"kernel_shape": []int{2, 3}, "dilations": []int{2, 1}}, 1, 4, 4),
		pool(
			"MaxPool",
			true,
			13,
			at{"kernel_shape": []int{3, 3}, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1}, "ceil_mode": 1},
			1,
			4,
			5,
		),
		pool("MaxPool", true, 13, at{"kernel_shape": []int{3}, "strides": []int{2}, "auto_pad": "SAME_UPPER"}, 2, 6),
		pool("MaxPool", false, 13, at{"kernel_shape": []int{2, 2, 2}}, 1, 2, 3, 3),
		pool("AveragePool", false, 13, at{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}}, 2, 4, 5),
		pool("AveragePool", false, 13, at{"kernel_shape": []int{3, 3}, "pads": []int{1, 0, 1, 1}}, 1, 4, 4),
		pool(
			"AveragePool",
			false,
			13,
			at{"kernel_shape": []int{3, 3}, "pads": []int{1, 0, 1, 1}, "count_include_pad": 1},
			1,
			4,
			4,
		),
		pool(
			"AveragePool",
			true,
			19,
			at{
				"kernel_shape":      []int{3, 2},
				"strides":           []int{2, 2},
				"pads":              []int{1, 0, 0, 0},
				"ceil_mode":         1,
				"count_include_pad": 1,
			},
			1,
			4,
			5,
		),
		pool(
			"AveragePool",
			true,
			19,
			at{"kernel_shape": []int{3, 2}, "strides": []int{2, 2}, "pads": []int{1, 0, 0, 0}, "ceil_mode": 1},
			1,
			4,
			5,
		),
		pool("AveragePool", false, 19, at{"kernel_shape": []int{2}, "dilations": []int{2}}, 1, 5),
		pool(
			"AveragePool",
			true,
			13,
			at{"kernel_shape": []int{3}, "strides": []int{2}, "auto_pad": "SAME_LOWER"},
			2,
			6,
		),
		pool("GlobalAveragePool", false, 13, nil, 2, 3, 2), pool("GlobalMaxPool", false, 13, nil, 2, 3, 2),
	}
}

func resizeCases() []opCase {
	var cases []opCase
	add := func(from int64, a onnx.Attrs, scales []float64, sizes []int64, shape ...int64) {
		fixed := a["antialias"] != nil || a["exclude_outside"] != nil // these need known sizes
		cases = append(cases, opCase{op: "Resize", from: from, static: fixed, build: func(g *gen) {
			in := []string{g.x(append([]int64{g.k}, shape...)...), "", "", ""}
			if scales != nil {
				in[2] = g.b.Numbers(onnx.Float, []int64{int64(len(scales))}, scales...)
			} else if len(sizes) == len(shape)+1 {
				in[3] = g.c(append([]int64{g.k}, sizes[1:]...)...)
			} else {
				in[3] = g.c(sizes...)
			}
			g.op("Resize", a, in...)
		}})
	}
	for _, coordinates := range []string{"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
		"half_pixel_symmetric"} {
		from := int64(13)
		if coordinates == "half_pixel_symmetric" {
			from = 19
		}
		for _, mode := range []string{"linear", "cubic", "nearest"} {
			a := at{"mode": mode, "coordinate_transformation_mode": coordinates}
			add(from, a, nil, []int64{1, 1, 5, 2}, 1, 3, 4)
			scales := []float64{1, 1, 1.7, 0.6}
			if coordinates == "align_corners" { // others are refused
				scales = []float64{1, 1, 2, 3}
			}
			add(from, a, scales, nil, 1, 3, 4)
		}
	}
	for _, rounding := range []string{"round_prefer_ceil", "round_prefer_floor", "floor", "ceil"} {
		add(13, at{"mode": "nearest", "nearest_mode": rounding}, nil, []int64{1, 1, 7, 3}, 1, 3, 5)
	}
	add(13, at{"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}, nil, []int64{1, 1, 5, 7}, 1, 3, 4)
	add(18, at{"mode": "linear", "antialias": 1}, nil, []int64{1, 1, 2, 3}, 1, 6, 7)
	add(18, at{"mode": "cubic", "antialias": 1}, nil, []int64{1, 1, 3, 8}, 1, 7, 5)
	add(18, at{"mode": "linear", "axes": []int{2}}, nil, []int64{5}, 1, 3, 2)
	add(13, at{"mode": "linear"}, nil, []int64{1, 1, 6}, 1, 4)
	for _, mode := range []string{"linear", "cubic", "nearest"} { // with sizes and scales that the graph computes
		cases = append(cases, opCase{op: "Resize", from: 13, build: func(g *gen) {
			x := g.x(g.k, 1, 3, 4)
			g.op("Resize", at{"mode": mode}, x, "", "", g.b.Op("Add", g.b.Op("Shape", x), g.c(0, 0, 2, -1)))
		}}, opCase{op: "Resize", from: 13, build: func(g *gen) {
			x := g.x(1, 1, 3, 4)
			scales := g.input([]int64{4}, func(i int) float64 { return []float64{1, 1, 1.7, 0.6}[i] }, false)
			g.op(
				"Resize",
				at{"mode": mode, "coordinate_transformation_mode": "asymmetric"},
				x,
				"",
				g.b.OpA("Cast", at{"to": onnx.Float}, scales),
			)
		}})
	}
	return cases
}

func attentionCases() []opCase {
	rotary := func(a onnx.Attrs, shape []int64, cache func(g *gen) (cos, sin, ids string)) opCase {
		return opCase{op: "RotaryEmbedding", from: 23, build: func(g *gen) {
			sizes := append([]int64{shape[0] * g.k}, shape[1:]...)
			x := g.wide(sizes...)
			cos, sin, ids := cache(g)
			g.op("RotaryEmbedding", a, x, cos, sin, ids)
		}}
	}
	tables := func(make func(g *gen, s ...int64) string, half int64) func(g *gen) (string, string, string) {
		return func(g *gen) (string, string, string) {
			return make(g, 5, half), make(g, 5, half), g.index(5, g.k, 3)
		}
	}
	plain := func(half int64) func(g *gen) (string, string, string) {
		return func(g *gen) (string, string, string) { return g.wideFixed(g.k, 3, half), g.wideFixed(g.k, 3, half), "" }
	}
	cases := []opCase{
		rotary(nil, []int64{1, 2, 3, 4}, tables((*gen).wideFixed, 2)),
		rotary(nil, []int64{1, 2, 3, 4}, tables((*gen).wide, 2)), // also with respect to the tables
		rotary(at{"interleaved": 1}, []int64{1, 2, 3, 4}, tables((*gen).wide, 2)),
		rotary(at{"interleaved": 1}, []int64{1, 1, 3, 4}, plain(2)),
		rotary(at{"num_heads": 2}, []int64{1, 3, 8}, tables((*gen).wide, 2)),
		rotary(at{"num_heads": 2, "rotary_embedding_dim": 2}, []int64{1, 3, 8}, plain(1)),
		rotary(at{"rotary_embedding_dim": 4}, []int64{1, 1, 3, 6}, plain(2)),
		{op: "com.microsoft.RotaryEmbedding", from: 17, build: func(g *gen) {
			g.nodes(
				microsoft,
				"RotaryEmbedding",
				1,
				nil,
				g.wide(g.k, 2, 3, 4),
				g.index(5, g.k, 3),
				g.wideFixed(5, 2),
				g.wideFixed(5, 2),
			)
		}},
	}
	attend := func(a onnx.Attrs, n int, q, k, v []int64, more func(g *gen) []string) {
		cases = append(cases, opCase{op: "Attention", from: 23, build: func(g *gen) {
			b := func(s []int64) string { return g.wide(append([]int64{g.k}, s...)...) }
			in := []string{b(q), b(k), b(v)}
			if more != nil {
				in = append(in, more(g)...)
			}
			g.nodes("", "Attention", n, a, in...)
		}})
	}
	attend(nil, 1, []int64{1, 3, 2}, []int64{1, 3, 2}, []int64{1, 3, 2}, nil)
	attend(at{"is_causal": 1}, 1, []int64{2, 3, 2}, []int64{1, 3, 2}, []int64{1, 3, 2}, nil)
	attend(at{"scale": 0.7, "softcap": 0.9}, 1, []int64{2, 2, 2}, []int64{2, 3, 2}, []int64{2, 3, 1}, nil)
	attend(at{"q_num_heads": 2, "kv_num_heads": 1}, 1, []int64{3, 4}, []int64{2, 2}, []int64{2, 2}, nil)
	attend(
		nil,
		1,
		[]int64{2, 2, 2},
		[]int64{1, 3, 2},
		[]int64{1, 3, 2},
		func(g *gen) []string { return []string{g.wide(2, 3)} },
	)
	attend(
		nil,
		1,
		[]int64{2, 2, 2},
		[]int64{1, 3, 2},
		[]int64{1, 3, 2},
		func(g *gen) []string { return []string{g.wide(g.k, 1, 2, 3)} },
	)
	attend(nil, 1, []int64{1, 2, 2}, []int64{1, 3, 2}, []int64{1, 3, 2}, func(g *gen) []string {
		return []string{g.b.Numbers(onnx.Bool, []int64{2, 3}, 1, 0, 1, 1, 1, 0)}
	})
	past := func(g *gen) []string { return []string{"", g.wide(g.k, 1, 2, 2), g.wide(g.k, 1, 2, 2)} }
	attend(nil, 3, []int64{2, 2, 2}, []int64{1, 1, 2}, []int64{1, 1, 2}, past)
	attend(
		at{"qk_matmul_output_mode": 0},
		4,
		[]int64{1, 2, 2},
		[]int64{1, 3, 2},
		[]int64{1, 3, 2},
		func(g *gen) []string {
			return append([]string{}, "", g.wide(g.k, 1, 1, 2), g.wide(g.k, 1, 1, 2))
		},
	)
	attend(
		at{"softcap": 0.9},
		1,
		[]int64{1, 2, 2},
		[]int64{1, 3, 2},
		[]int64{1, 3, 2},
		func(g *gen) []string { return []string{g.wide(2, 3)} },
	)
	attend(at{"is_causal": 1}, 3, []int64{2, 2, 2}, []int64{1, 1, 2}, []int64{1, 1, 2}, past)
	attend(
		at{"is_causal": 1},
		1,
		[]int64{2, 2, 2},
		[]int64{1, 3, 2},
		[]int64{1, 3, 2},
		func(g *gen) []string { return []string{g.wide(2, 3)} },
	)
	for mode := range 4 {
		attend(
			at{"qk_matmul_output_mode": mode, "softcap": 0.8},
			4,
			[]int64{1, 2, 2},
			[]int64{1, 1, 2},
			[]int64{1, 1, 2},
			func(g *gen) []string {
				return []string{g.wide(2, 3), g.wide(g.k, 1, 2, 2), g.wide(g.k, 1, 2, 2)}
			},
		)
	}
	cases = append(cases, opCase{op: "Attention", from: 24, to: 24, build: func(g *gen) {
		kv := func() string { return g.wide(g.k, 1, 3, 2) }
		lengths := g.i([]int64{g.k}, append([]int64{2}, make([]int64, g.k-1)...)...)
		if g.k > 1 {
			lengths = g.i([]int64{g.k}, 2, 3, 1)
		}
		g.op("Attention", nil, g.wide(g.k, 2, 2, 2), kv(), kv(), "", "", "", lengths)
	}})
	return cases
}

func (g *gen) wideFixed(shape ...int64) string {
	name := g.wide(shape...)
	g.wrt = g.wrt[:len(g.wrt)-1]
	return name
}
