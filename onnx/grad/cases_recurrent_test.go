package grad

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// lens is a graph input of the lengths of sequences.
func (g *gen) lens(v ...int32) string {
	name := fmt.Sprintf("x%d", len(g.feeds))
	g.b.Input(name, onnx.Int32, onnx.Dims(len(v)))
	g.feeds[name] = tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v))
	return name
}

func recurrentCases() []opCase {
	var cases []opCase
	type variant struct {
		a         onnx.Attrs
		directed  int64
		optional  bool // bias, lengths and initial states
		peepholes bool
		empty     bool // the second sequence has no steps
		kinked    bool // activations have a kink at 0: keep sums well away from it
	}
	operators := []struct {
		op            string
		gates, states int64
		variants      []variant
	}{
		{
			"RNN",
			1,
			1,
			[]variant{
				{},
				{a: at{"direction": "reverse"}, optional: true},
				{a: at{"direction": "bidirectional", "clip": 0.9}, directed: 2, optional: true},
				{
					a: at{
						"activations":      []string{"Affine"},
						"activation_alpha": []float32{0.7},
						"activation_beta":  []float32{0.2},
					},
				},
				{
					a: at{
						"activations":      []string{"Elu", "Softsign"},
						"activation_alpha": []float32{0.7},
						"direction":        "bidirectional",
					},
					directed: 2,
					kinked:   true,
				},
				{
					a: at{
						"activations":      []string{"HardSigmoid", "LeakyRelu"},
						"activation_alpha": []float32{0.1, 0.3},
						"activation_beta":  []float32{0.45},
						"direction":        "bidirectional",
					},
					directed: 2,
					kinked:   true,
				},
			},
		},
		{
			"GRU",
			3,
			1,
			[]variant{
				{},
				{optional: true},
				{a: at{"linear_before_reset": 1}, optional: true},
				{optional: true, empty: true},
				{
					a:        at{"direction": "bidirectional", "linear_before_reset": 1},
					directed: 2,
					optional: true,
				},
				{a: at{"direction": "reverse", "clip": 0.9}, optional: true},
				{
					a: at{
						"activations":      []string{"HardSigmoid", "Softplus"},
						"activation_alpha": []float32{0.3},
					},
					optional: true,
				},
			},
		},
		{"LSTM", 4, 2, []variant{{}, {optional: true}, {a: at{"direction": "reverse"}, optional: true, peepholes: true},
			{
				a:         at{"direction": "bidirectional"},
				directed:  2,
				optional:  true,
				peepholes: true,
			}, {a: at{"input_forget": 1}, optional: true, empty: true},
			{
				a:         at{"clip": 0.9},
				optional:  true,
				peepholes: true,
			}, {a: at{"activations": []string{"Sigmoid", "Softsign", "ScaledTanh"},
				"activation_alpha": []float32{1.2}, "activation_beta": []float32{0.6}}}}},
	}
	for _, o := range operators {
		for _, v := range o.variants {
			cases = append(cases, opCase{op: o.op, from: 14, single: true, build: func(g *gen) {
				d, steps, batch, in, hidden := max(v.directed, 1), 1+2*g.k, int64(2), int64(2), 1+g.k/2
				a := at{"hidden_size": hidden}
				for k, x := range v.a {
					a[k] = x
				}
				scale := func(s float64) func(int) float64 { return func(int) float64 { return s * (2*g.rng.Float64() - 1) } }
				inputs := []string{"", "", "", "", "", "", "", ""}
				_, clipped := a["clip"]
				if clipped || v.kinked { // keep the sums well inside or well outside the bounds
					far := []float64{2, -2, 0.05, -0.05}
					if v.kinked {
						far = far[:2]
					}
					inputs[0] = g.input(
						[]int64{steps, batch, 1},
						func(int) float64 { return far[g.rng.IntN(len(far))] },
						true,
					)
					inputs[1] = g.input(
						[]int64{d, o.gates * hidden, 1},
						func(int) float64 { return 0.8 + 0.4*g.rng.Float64() },
						true,
					)
					inputs[2] = g.input([]int64{d, o.gates * hidden, hidden}, scale(0.1), true)
				} else {
					inputs[0], inputs[1], inputs[2] = g.x(
						steps,
						batch,
						in,
					), g.unit(
						d,
						o.gates*hidden,
						in,
					), g.unit(
						d,
						o.gates*hidden,
						hidden,
					)
				}
				if v.optional {
					inputs[3] = g.input([]int64{d, 2 * o.gates * hidden}, scale(0.1), true)
					second := int32(steps - 1)
					if v.empty {
						second = 0
					}
					inputs[4] = g.lens(int32(steps), second)
					for i := range o.states {
						inputs[5+i] = g.unit(d, batch, hidden)
					}
				}
				if v.peepholes {
					inputs[7] = g.input([]int64{d, 3 * hidden}, scale(0.1), true)
				}
				g.nodes("", o.op, int(1+o.states), a, inputs[:6+2*(o.states-1)]...)
			}})
		}
	}
	return cases
}

// branchOf returns a subgraph of one output, which captures its inputs.
func branchOf(name string, nodes ...*onnx.Node) *onnx.Graph {
	y := nodes[len(nodes)-1].Outputs[0]
	return &onnx.Graph{Name: name, Nodes: nodes, Outputs: []onnx.ValueInfo{{Name: y, Type: onnx.Undefined}}}
}

func (g *gen) declare(graphs ...*onnx.Graph) {
	for _, s := range graphs {
		for i := range s.Outputs {
			s.Outputs[i].Type = g.t
		}
	}
}

func node(op, y string, in ...string) *onnx.Node {
	return &onnx.Node{Op: op, Name: "make_" + y, Inputs: in, Outputs: []string{y}}
}

func controlCases() []opCase {
	var cases []opCase
	for _, taken := range []float64{1, 0} {
		cases = append(cases, opCase{op: "If", from: 13, build: func(g *gen) {
			x, w, only := g.x(2, 3*g.k), g.pos(3*g.k), g.x(2, 1)
			yes := branchOf("yes", node("Mul", "yes_product", x, w), node("Sigmoid", "yes_y", "yes_product"))
			no := branchOf("no", node("Tanh", "no_t", x), node("Sub", "no_y", "no_t", only))
			g.declare(yes, no)
			h := g.b.OpA("If", at{"then_branch": yes, "else_branch": no}, g.b.Scalar(onnx.Bool, taken))
			g.op("Mul", nil, h, x)
		}}, opCase{op: "If", from: 13, build: func(g *gen) { // nested, and with one output passed through
			x, w := g.x(2, 2*g.k), g.pos(2, 2*g.k)
			inner := func(name, op string) *onnx.Graph { return branchOf(name, node(op, name+"_y", "middle", w)) }
			a, b := inner("a", "Mul"), inner("b", "Div")
			nested := &onnx.Node{
				Op:      "If",
				Name:    "nested",
				Inputs:  []string{"flag"},
				Outputs: []string{"yes_y"},
				Attrs:   map[string]any{"then_branch": a, "else_branch": b},
			}
			yes, no := branchOf("yes", node("Exp", "middle", x), nested), branchOf("no", node("Identity", "no_y", x))
			g.declare(a, b, yes, no)
			flag := g.b.Op("Identity", g.b.Scalar(onnx.Bool, 1))
			nested.Inputs[0] = flag
			g.op("If", at{"then_branch": yes, "else_branch": no}, g.b.Scalar(onnx.Bool, taken))
		}})
	}
	for _, way := range [][]int64{{0, 0, 0}, {1, 0, 1}, {0, 1, 0}} {
		cases = append(cases, opCase{op: "Scan", from: 13, build: func(g *gen) {
			w, steps := g.unit(2, 2), 2+g.k
			body := &onnx.Graph{Name: "body", Nodes: []*onnx.Node{
				node(
					"MatMul",
					"sw",
					"s",
					w,
				), node("Mul", "ab", "a", "b"), node("Add", "sum", "sw", "ab"), node("Tanh", "s_next", "sum"),
				node(
					"Add",
					"n_next",
					"n",
					g.b.Int(1),
				), {Op: "Cast", Name: "cast", Inputs: []string{"n"}, Outputs: []string{"nf"},
					Attrs: map[string]any{"to": int64(g.t)}},
				node("Mul", "scaled", "s_next", "nf"), node("Add", "y", "scaled", "b"), node("Mul", "y2", "s", "s"),
			}}
			for _, v := range []string{"s", "n", "a", "b"} {
				body.Inputs = append(body.Inputs, onnx.ValueInfo{Name: v, Type: g.t})
			}
			body.Inputs[1].Type = onnx.Int64
			for _, v := range []string{"s_next", "n_next", "y", "y2"} {
				body.Outputs = append(body.Outputs, onnx.ValueInfo{Name: v, Type: g.t})
			}
			body.Outputs[1].Type = onnx.Int64
			start := g.b.Numbers(onnx.Int64, []int64{1}, 2)
			g.nodes(
				"",
				"Scan",
				4,
				at{
					"body":                   body,
					"num_scan_inputs":        2,
					"scan_input_axes":        []int64{0, 1},
					"scan_input_directions":  way[:2],
					"scan_output_axes":       []int64{1, 0},
					"scan_output_directions": []int64{way[2], 0},
				},
				g.unit(3, 2),
				start,
				g.x(steps, 3, 2),
				g.x(3, steps, 2),
			)
		}})
	}
	return slices.Concat(cases)
}
