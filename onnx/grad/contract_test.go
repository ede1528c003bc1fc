package grad

import (
	"errors"
	"strings"
	"testing"

	"assay/onnx"
)

// through returns x [2,4] -> the node -> h -> Sigmoid -> y, and a path around the node if aside: y + x.
func through(opset int64, n *onnx.Node, aside bool, more func(m *onnx.Model)) *onnx.Model {
	b := onnx.NewBuilder("through", opset)
	b.Input("x", onnx.Float, onnx.Dims(2, 4))
	b.Input("w", onnx.Float, onnx.Dims(4))
	b.Input("c", onnx.Bool, []onnx.Dim{})
	n.Name = "middle"
	if n.Domain != "" {
		b.M.Opsets[n.Domain] = 1
	}
	last := "h"
	b.M.Nodes = append(
		b.M.Nodes,
		n,
		&onnx.Node{Name: "after", Op: "Sigmoid", Inputs: []string{last}, Outputs: []string{"s"}},
	)
	last = "s"
	if aside {
		b.M.Nodes = append(
			b.M.Nodes,
			&onnx.Node{Name: "sum", Op: "Add", Inputs: []string{"x", "s"}, Outputs: []string{"t"}},
		)
		last = "t"
	}
	b.M.Outputs = []onnx.ValueInfo{{Name: last, Type: onnx.Float}}
	if more != nil {
		more(b.M)
	}
	return b.M
}

// TestNothingEndsSilently: a gradient that reaches a node without a rule is refused with the node's name, whether or
// not the types around it are known.
func TestNothingEndsSilently(t *testing.T) {
	branch := func(op string) *onnx.Graph {
		return &onnx.Graph{
			Name:    op,
			Nodes:   []*onnx.Node{{Op: op, Inputs: []string{"x"}, Outputs: []string{"in_" + op}}},
			Outputs: []onnx.ValueInfo{{Name: "in_" + op, Type: onnx.Float}},
		}
	}
	body := &onnx.Graph{
		Name:    "body",
		Inputs:  []onnx.ValueInfo{{Name: "e", Type: onnx.Float}},
		Outputs: []onnx.ValueInfo{{Name: "f", Type: onnx.Float}},
		Nodes:   []*onnx.Node{{Op: "Mul", Inputs: []string{"e", "w"}, Outputs: []string{"f"}}},
	}
	node := func(op string, in ...string) *onnx.Node {
		return &onnx.Node{Op: op, Inputs: in, Outputs: []string{"h"}}
	}
	contrib := func(op string, in ...string) *onnx.Node {
		n := node(op, in...)
		n.Domain = microsoft
		return n
	}
	cast := func(to int64) *onnx.Node {
		n := node("Cast", "x")
		n.Attrs = map[string]any{"to": to}
		return n
	}
	sequence := func(m *onnx.Model) {
		at := &onnx.Tensor{Name: "at", Type: onnx.Int64, Shape: []int64{}, Data: make([]byte, 8)}
		m.Initializers = append(m.Initializers, at)
		m.Nodes = append(
			[]*onnx.Node{{Name: "pack", Op: "SequenceConstruct", Inputs: []string{"x", "x"}, Outputs: []string{"q"}}},
			m.Nodes...)
	}
	for name, c := range map[string]struct {
		opset int64
		n     *onnx.Node
		more  func(m *onnx.Model)
		at    string // the node that is named, "middle" if empty
	}{
		"GRU":        {17, node("GRU", "x", "x", "x"), nil, ""},
		"RNN":        {17, node("RNN", "x", "x", "x"), nil, ""},
		"GridSample": {17, node("GridSample", "x", "x"), nil, ""},
		"Det":        {17, node("Det", "x"), nil, ""},
		"AffineGrid": {20, node("AffineGrid", "x", "x"), nil, ""},
		"Col2Im":     {18, node("Col2Im", "x", "x", "x"), nil, ""},
		"DeformConv": {19, node("DeformConv", "x", "x", "x"), nil, ""},
		"MaxUnpool": {17,
			&onnx.Node{Op: "MaxUnpool", Inputs: []string{"x", "x"}, Outputs: []string{"h"},
				Attrs: map[string]any{"kernel_shape": []int64{2}}}, nil, ""},
		"STFT":                    {17, node("STFT", "x", "x"), nil, ""},
		"SoftmaxCrossEntropyLoss": {17, node("SoftmaxCrossEntropyLoss", "x", "x"), nil, ""},
		"Scan": {17,
			&onnx.Node{Op: "Scan", Inputs: []string{"x"}, Outputs: []string{"h"},
				Attrs: map[string]any{"body": body, "num_scan_inputs": int64(1)}}, nil, ""},
		"If": {17, &onnx.Node{Op: "If", Inputs: []string{"c"}, Outputs: []string{"h"}, Attrs: map[string]any{
			"then_branch": branch("Relu"), "else_branch": branch("Tanh")}}, nil, ""},
		"SequenceAt":             {17, node("SequenceAt", "q", "at"), sequence, "middle"},
		"BiasGelu":               {17, contrib("BiasGelu", "x", "w"), nil, ""},
		"SkipLayerNormalization": {17, contrib("SkipLayerNormalization", "x", "x", "w"), nil, ""},
		"FusedGemm":              {17, contrib("FusedGemm", "x", "x"), nil, ""},
		"8 bits":                 {19, cast(17), nil, "after"}, // FLOAT8E4M3FN
		"declared": {17, contrib("BiasGelu", "x", "w"), func(m *onnx.Model) {
			m.Values = []onnx.ValueInfo{{Name: "h", Type: onnx.Float, Shape: onnx.Dims(2, 4), Ranked: true}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.at == "" {
				c.at = "middle"
			}
			if strings.Contains("LSTM GRU RNN If Scan", name) && lookup(c.n, c.opset) != nil {
				return // it has a rule by now, which is tested elsewhere
			}
			for _, aside := range []bool{false, true} {
				if name == "8 bits" && aside {
					continue // the sum of two types
				}
				m := through(c.opset, c.n, aside, c.more)
				grads, err := Append(m, Options{Outputs: []string{m.Outputs[0].Name}, Wrt: []string{"x"}})
				if err == nil || !strings.Contains(err.Error(), `"`+c.at+`"`) {
					t.Errorf("%s, aside %v: gradients %v, error %v; want a refusal that names node %q",
						name, aside, grads, err, c.at)
				}
				if errors.As(err, new(*onnx.InternalError)) {
					t.Errorf("%s: got the internal error %v, want a refusal", name, err)
				}
			}
		})
	}
}

// TestDiscreteValuesEndPaths: a path through an integer carries no gradient, even after an operator without a rule.
func TestDiscreteValuesEndPaths(t *testing.T) {
	m := through(
		17,
		&onnx.Node{Op: "ArgMax", Inputs: []string{"x"}, Outputs: []string{"i"}},
		true,
		func(m *onnx.Model) {
			m.Nodes = append(
				[]*onnx.Node{
					m.Nodes[0],
					{
						Name:    "hashed",
						Op:      "Cast",
						Inputs:  []string{"i"},
						Outputs: []string{"h"},
						Attrs:   map[string]any{"to": int64(1)},
					},
				},
				m.Nodes[1:]...)
		},
	)
	if _, err := Append(m, Options{Outputs: []string{"t"}, Wrt: []string{"x"}}); err != nil {
		t.Error(err)
	}
}

// TestUnknownTypesOfFrozenValues: an operator without a rule does not matter if no gradient flows into it, and its
// type follows from the values that it is combined with.
func TestUnknownTypesOfFrozenValues(t *testing.T) {
	for _, op := range []string{"Mul", "Max", "Concat"} {
		t.Run(op, func(t *testing.T) {
			b := onnx.NewBuilder("frozen", 17)
			b.Input("x", onnx.Float, onnx.Dims(2, 4))
			b.Input("w", onnx.Float, onnx.Dims(2, 4))
			f := b.Node(microsoft, "BiasGelu", 1, nil, "w", "w")[0]
			b.OpA(op, onnx.Attrs{"axis": 0}, f, b.Op("Relu", "x"))
			b.M.Values = []onnx.ValueInfo{{Name: f, Shape: onnx.Dims(2, 4), Ranked: true}}
			if op != "Concat" {
				b.Last().Attrs = nil
			}
			y := b.Last().Outputs[0]
			if _, err := Append(b.M, Options{Outputs: []string{y}, Wrt: []string{"x"}}); err != nil {
				t.Errorf("%s: got error %v, want none", op, err)
			}
		})
	}
}

// TestOutputsThatARuleDoesNotTake: a gradient that reaches one is refused.
func TestOutputsThatARuleDoesNotTake(t *testing.T) {
	b := onnx.NewBuilder("stats", 15)
	b.Input("x", onnx.Float, onnx.Dims(2, 3, 4))
	b.Input("s", onnx.Float, onnx.Dims(3))
	old := rules[[2]string{"", "Split"}]
	defer func() { rules[[2]string{"", "Split"}] = old }()
	partial := *old[0]
	partial.outputs = 1
	rules[[2]string{"", "Split"}] = []*entry{&partial}
	y := b.Node("", "Split", 2, onnx.Attrs{"axis": 2}, "x")
	_, err := Append(b.M, Options{Outputs: y[1:], Wrt: []string{"x"}})
	if err == nil || !strings.Contains(err.Error(), `"Split"`) || !strings.Contains(err.Error(), "output 1") {
		t.Errorf("%v; want a refusal that names node and output", err)
	}
}

// TestMistakesInRulesAreOurs: a panic, a gradient that does not fit, a missing one and an invalid emitted node are
// reported as internal errors, with the cause.
func TestMistakesInRulesAreOurs(t *testing.T) {
	key := [2]string{"", "Tanh"}
	old := rules[key]
	defer func() { rules[key] = old }()
	for name, c := range map[string]struct {
		rule func(c *call) []string
		want string
	}{
		"panic":     {func(c *call) []string { return c.x[7:] }, "slice bounds out of range"},
		"own words": {func(c *call) []string { panic("the sky is falling") }, "the sky is falling"},
		"shape":     {func(c *call) []string { return []string{c.Ints(1)} }, "int64[1], want float[2,4]"},
		"missing":   {func(c *call) []string { return []string{""} }, "returned no gradient of input 0"},
		"emitted":   {func(c *call) []string { return []string{c.Op("MatMul", c.x[0], c.x[0])} }, "inner sizes 4 and 2"},
		"type": {func(c *call) []string { return []string{c.OpA("Cast", attrs{"to": 11}, c.dy[0])} },
			"double[2,4], want float[2,4]"},
		"no such rank": {func(c *call) []string { return []string{c.sum(c.dy[0], []int64{0}, false)} },
			"float[4], want float[2,4]"},
	} {
		t.Run(name, func(t *testing.T) {
			rules[key] = []*entry{{op: "Tanh", rule: c.rule}}
			_, err := Append(line().M, Options{Outputs: []string{"y"}, Wrt: []string{"x"}})
			var internal *onnx.InternalError
			if !errors.As(err, &internal) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), `node "bend"`) {
				t.Errorf("%s: %v; want an internal error that names the node and contains %q", name, err, c.want)
				return
			}
			if _, panicked := internal.Cause.(error); (name == "panic" || name == "own words") &&
				(internal.Stack == nil || !strings.Contains(err.Error(), "contract_test.go")) {
				t.Errorf("%s: got stack %v of %v, want the rule in it", name, panicked, err)
			}
		})
	}
}
