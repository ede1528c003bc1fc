package grad

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/onnx"
	"assay/ort"
)

// line is x [2,3] -> MatMul by w [3,4] -> Tanh -> y.
func line() *onnx.Builder {
	b := onnx.NewBuilder("line", 17)
	b.Input("x", onnx.Float, onnx.Dims(2, 3))
	b.Input("w", onnx.Float, onnx.Dims(3, 4))
	b.M.Nodes = append(
		b.M.Nodes,
		&onnx.Node{Name: "product", Op: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"h"}},
		&onnx.Node{Name: "bend", Op: "Tanh", Inputs: []string{"h"}, Outputs: []string{"y"}},
	)
	return onnx.Extend(b.M)
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *onnx.Model, o *Options)
		want   []string
	}{
		"no rule": {func(m *onnx.Model, o *Options) {
			m.Nodes[1].Op, m.Nodes[1].Name = "Hardmax", "cliff"
		}, []string{`node "cliff"`, "ai.onnx.Hardmax", "opset 17", "no gradient rule"}},
		"no rule in this domain": {func(m *onnx.Model, o *Options) {
			m.Nodes[1].Op, m.Nodes[1].Domain, m.Opsets["com.microsoft"] = "Inverse", "com.microsoft", 1
			m.Values = append(m.Values, onnx.ValueInfo{Name: "y", Type: onnx.Float, Shape: onnx.Dims(2, 4), Ranked: true})
		}, []string{`node "bend"`, "com.microsoft.Inverse", "opset 1", "no gradient rule"}},
		"no rule for what a subgraph takes from around it": {func(m *onnx.Model, o *Options) {
			body := &onnx.Graph{Name: "body", Nodes: []*onnx.Node{
				{Op: "Identity", Inputs: []string{"before"}, Outputs: []string{"after"}},
				{Op: "Mul", Inputs: []string{"v", "h"}, Outputs: []string{"w"}}}}
			body.Inputs = []onnx.ValueInfo{{Name: "i", Type: onnx.Int64}, {Name: "before", Type: onnx.Bool},
				{Name: "v", Type: onnx.Float}}
			body.Outputs = []onnx.ValueInfo{{Name: "after", Type: onnx.Bool}, {Name: "w", Type: onnx.Float}}
			m.Inputs = append(m.Inputs, onnx.ValueInfo{Name: "c", Type: onnx.Bool, Ranked: true})
			m.Values = append(m.Values, onnx.ValueInfo{Name: "y", Type: onnx.Float, Shape: onnx.Dims(2, 4), Ranked: true})
			m.Nodes[1] = &onnx.Node{Name: "fork", Op: "Loop", Inputs: []string{"", "c", "x"}, Outputs: []string{"y"},
				Attrs: map[string]any{"body": body}}
		}, []string{`node "fork"`, "ai.onnx.Loop", "opset 17", "no gradient rule", "c, x, h"}},
		"rule that wants more": {func(m *onnx.Model, o *Options) {
			m.Nodes[1].Op, m.Nodes[1].Inputs = "Mish", []string{"h"}
			m.Opsets[""] = 18
			m.Nodes = append(m.Nodes, &onnx.Node{Name: "drop", Op: "Dropout", Inputs: []string{"y", "", "yes"},
				Outputs: []string{"z"}})
			m.Initializers = append(m.Initializers,
				&onnx.Tensor{Name: "yes", Type: onnx.Bool, Shape: []int64{}, Data: []byte{1}})
			o.Outputs = []string{"z"}
		}, []string{`node "drop"`, "ai.onnx.Dropout", "opset 18", "needs the second output"}},
		"shapes that do not fit": {func(m *onnx.Model, o *Options) { m.Inputs[1].Shape = onnx.Dims(5, 4) },
			[]string{`node "product"`, "ai.onnx.MatMul", "inner sizes 3 and 5", `"w" float[5,4]`}},
		"opset": {func(m *onnx.Model, o *Options) { m.Opsets[""] = 11 }, []string{"opset 11", "want 13 to"}},
		"later operator": {func(m *onnx.Model, o *Options) { m.Nodes[1].Op = "Gelu" },
			[]string{`node "bend"`, "ai.onnx.Gelu, opset 17", "added in opset 20"}},
		"no such operator": {func(m *onnx.Model, o *Options) { m.Nodes[1].Op = "Tahn" },
			[]string{`node "bend"`, "no such operator"}},
		"cycle": {func(m *onnx.Model, o *Options) { m.Nodes[0].Inputs[0] = "y" },
			[]string{"cycle", `node "product"`, `node "bend"`}},
		"integer": {func(m *onnx.Model, o *Options) {
			m.Inputs[0].Type = onnx.Int64
			m.Inputs[1].Type = onnx.Int64
		}, []string{"cannot be differentiated"}},
		"no such value": {func(m *onnx.Model, o *Options) { o.Wrt = []string{"v"} }, []string{`no value "v"`}},
		"no such output": {func(m *onnx.Model, o *Options) { o.Outputs = []string{"v"} },
			[]string{`no value "v"`}},
		"no such cotangent": {func(m *onnx.Model, o *Options) { o.Cotangents = map[string]string{"y": "v"} },
			[]string{`cotangent "v" of "y"`}},
		"cotangent that is no output": {func(m *onnx.Model, o *Options) { o.Cotangents = map[string]string{"h": "x"} },
			[]string{`"h"`, "not among the outputs"}},
		"cotangent's shape": {func(m *onnx.Model, o *Options) { o.Cotangents = map[string]string{"y": "x"} },
			[]string{`cotangent "x" of output "y"`, "float[2,3]", "float[2,4]"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := line().M
			o := Options{Outputs: []string{"y"}, Wrt: []string{"x", "w"}}
			c.change(m, &o)
			nodes := len(m.Nodes)
			_, err := Append(m, o)
			if err == nil {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got error %q, want %q in it", err, w)
				}
			}
			if len(m.Nodes) != nodes {
				t.Errorf("the failed call: got %d nodes more, want none", len(m.Nodes)-nodes)
			}
		})
	}
}

// TestFrozenWeightsCostNothing: only nodes between the leaves and the outputs are visited.
func TestFrozenWeightsCostNothing(t *testing.T) {
	m := line().M
	if _, err := Append(m, Options{Outputs: []string{"y"}, Wrt: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	products := 0
	for _, n := range m.Nodes[2:] {
		if n.Op == "MatMul" || n.Op == "Gemm" {
			products++
		}
		if n.Op == "Transpose" {
			t.Errorf("got %v, which transposes %v, want no Transpose", n, n.Inputs)
		}
	}
	if products != 1 {
		t.Errorf("%d products in the backward pass, want the one for x", products)
	}
}

// TestLeaves: intermediate values, values used several times, a value that is output and leaf, unused values, default
// ones.
func TestLeaves(t *testing.T) {
	b := line()
	b.Input("unused", onnx.Float, onnx.Dims("n"))
	b.Op("Mul", "y", "y")
	grads, err := Append(b.M, Options{Outputs: []string{"y", "Mul"}, Wrt: []string{"h", "y", "x", "unused", "Mul"}})
	if err != nil {
		t.Fatal(err)
	}
	b = onnx.Extend(b.M)
	for x, g := range grads {
		b.Output("grad."+x, g, onnx.Float, nil)
	}
	s, err := ort.Open(b.M, ort.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), map[string]*tensor.Dense{
		"x": dense(
			onnx.Float,
			[]int{2, 3},
			[]float64{0, 0, 0, 0, 0, 0},
		), "w": dense(onnx.Float, []int{3, 4}, make([]float64, 12)),
		"unused": dense(onnx.Float, []int{2}, []float64{1, 2}),
	})
	if err != nil {
		t.Fatal(err)
	}
	// tanh 0 = 0: d(y + y^2)/dy = 1
	for name, want := range map[string]float64{"h": 1, "y": 1, "x": 0, "unused": 0, "Mul": 1} {
		for _, v := range floats(out["grad."+name]) {
			if v != want {
				t.Errorf("gradient of %s is %v, want %v", name, floats(out["grad."+name]), want)
				break
			}
		}
	}
	if n := len(floats(out["grad.unused"])); n != 2 {
		t.Errorf("the unused input's gradient has %d elements, want 2", n)
	}
}

// TestGatherNeedsNoReduction: no scatter has a reduction, whose order of addition is undefined on some devices.
func TestGatherNeedsNoReduction(t *testing.T) {
	for _, c := range indexCases() {
		if strings.HasPrefix(c.op, "Scatter") {
			continue
		}
		g := newGen(c, 18, 1, onnx.Float, false, 1)
		grads, err := Append(g.b.M, Options{Outputs: g.outputs[:1], Wrt: g.wrt})
		if err != nil || len(grads) == 0 {
			t.Fatalf("got gradients %v, %v, want some", grads, err)
		}
		for _, n := range g.b.M.Nodes {
			if r := n.Str("reduction", "none"); r != "none" {
				t.Errorf("%s: got reduction %s of %v, want none", c.op, r, n)
			}
		}
	}
}

// TestEmpty: the gradient through an empty tensor is zero, whether its size is known before the model runs or not.
func TestEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		x, w  []onnx.Dim
		empty []int // the shape of x
		node  onnx.Node
		ints  []int64 // the second input, instead of w
	}{
		"Conv": {onnx.Dims(0, 2, 4, 4), onnx.Dims(4, 1, 2, 2), []int{0, 2, 4, 4},
			onnx.Node{Op: "Conv", Attrs: at{"group": int64(2)}}, nil},
		"Conv, open": {onnx.Dims("n", 2, 4, 4), onnx.Dims(3, 2, 2, 2), []int{0, 2, 4, 4}, onnx.Node{Op: "Conv"},
			nil},
		"Conv, groups, open": {onnx.Dims("n", 2, 4, 4), onnx.Dims(4, 1, 2, 2), []int{0, 2, 4, 4},
			onnx.Node{Op: "Conv", Attrs: at{"group": int64(2)}}, nil},
		"ConvTranspose, open": {onnx.Dims("n", 2, 4, 4), onnx.Dims(2, 3, 2, 2), []int{0, 2, 4, 4},
			onnx.Node{Op: "ConvTranspose"}, nil},
		"Tile":                 {onnx.Dims(0, 3), nil, []int{0, 3}, onnx.Node{Op: "Tile"}, []int64{2, 2}},
		"Tile, no repetitions": {onnx.Dims(2, 3), nil, []int{2, 3}, onnx.Node{Op: "Tile"}, []int64{2, 0}},
		"Reshape": {onnx.Dims(0, 2, 3), nil, []int{0, 2, 3},
			onnx.Node{Op: "Reshape", Attrs: at{"allowzero": int64(1)}}, []int64{3, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := onnx.NewBuilder("empty", 17)
			b.Input("x", onnx.Float, c.x)
			in, inputs := map[string]*tensor.Dense{
				"x": dense(onnx.Float, c.empty, make([]float64, tensor.Shape(c.empty).TotalSize())),
			}, []string{
				"x",
			}
			if c.ints != nil {
				inputs = append(inputs, b.Ints(c.ints...))
			} else {
				b.Input("w", onnx.Float, c.w)
				shape := make([]int, len(c.w))
				for i, d := range c.w {
					shape[i] = int(d.Size)
				}
				in["w"] = dense(onnx.Float, shape, make([]float64, tensor.Shape(shape).TotalSize()))
				inputs = append(inputs, "w")
			}
			c.node.Name, c.node.Inputs, c.node.Outputs = "node", inputs, []string{"y"}
			b.M.Nodes = append(b.M.Nodes, &c.node)
			wrt := []string{"x", "w"}[:1+min(len(c.w), 1)]
			grads, err := Append(b.M, Options{Outputs: []string{"y"}, Wrt: wrt})
			if err != nil {
				t.Fatal(err)
			}
			b = onnx.Extend(b.M)
			for _, x := range wrt {
				b.Output("grad."+x, grads[x], onnx.Float, nil)
			}
			s, err := ort.Open(b.M, ort.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out, err := s.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range wrt {
				if !out["grad."+x].Shape().Eq(in[x].Shape()) {
					t.Errorf("gradient of %s has shape %v, want %v", x, out["grad."+x].Shape(), in[x].Shape())
				}
				if in[x].Shape().TotalSize() == 0 {
					continue
				}
				for _, v := range floats(out["grad."+x]) {
					if v != 0 {
						t.Fatalf("gradient of %s is %v, want zeros", x, floats(out["grad."+x]))
					}
				}
			}
		})
	}
}

// TestTileAtRunTime: repeats that are an input of the model may be 0, and the gradient is then zero.
func TestTileAtRunTime(t *testing.T) {
	for _, opset := range []int64{13, 17, 25} {
		t.Run(fmt.Sprintf("opset %d", opset), func(t *testing.T) {
			b := onnx.NewBuilder("tile", opset)
			b.Input("x", onnx.Float, onnx.Dims("n", 3))
			b.Input("repeats", onnx.Int64, onnx.Dims(2))
			y := b.Op("Tile", "x", "repeats")
			grads, err := Append(b.M, Options{Outputs: []string{y}, Wrt: []string{"x"}})
			if err != nil {
				t.Fatal(err)
			}
			b = onnx.Extend(b.M)
			b.Output("grad", grads["x"], onnx.Float, nil)
			s, err := ort.Open(b.M, ort.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, repeats := range [][]int64{{2, 3}, {1, 1}, {2, 0}, {0, 2}, {0, 0}} {
				out, err := s.Run(context.Background(), map[string]*tensor.Dense{
					"x":       dense(onnx.Float, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}),
					"repeats": tensor.New(tensor.WithShape(2), tensor.WithBacking(slices.Clone(repeats))),
				})
				if err != nil {
					t.Errorf("opset %d, repeats %v: got error %v, want none", opset, repeats, err)
					continue
				}
				g := out["grad"]
				if !g.Shape().Eq(tensor.Shape{2, 3}) {
					t.Errorf("opset %d, repeats %v: got shape %v, want (2, 3)", opset, repeats, g.Shape())
				}
				for _, v := range floats(g) {
					if v != float64(repeats[0]*repeats[1]) {
						t.Fatalf("opset %d, repeats %v: got gradient %v, want %d in each place", opset, repeats, floats(g),
							repeats[0]*repeats[1])
					}
				}
			}
		})
	}
}
