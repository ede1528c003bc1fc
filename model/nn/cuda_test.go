package nn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestSizesOnHost: sizes are read through a node that also reads a shape, and stay what they are.
func TestSizesOnHost(t *testing.T) {
	g := NewGraph("sizes", matrices{})
	x := g.Input("x", onnx.Float, onnx.Dims("rows", 4))
	p := NewPacking(g, 2, false)
	g.Output("y", g.Op("Reshape", x, g.Shape(g.element(p.Lengths, 1), -1)), onnx.Float, nil)
	want := len(g.M.Nodes) + 3
	SizesOnHost(g.M)
	if err := onnx.Check(g.M); err != nil {
		t.Fatal(err)
	}
	for i, n := range g.M.Nodes {
		if reads := slices.Contains(n.Inputs, inLengths); reads != (n.Op == "Add") || n.Op == "Add" && i != 2 {
			t.Errorf("node %d, %s: reads the lengths: %t", i, n.Op, reads)
		}
	}
	out := runModel(t, g.M, map[string]*tensor.Dense{"x": random(rand.New(rand.NewPCG(1, 2)), 6, 4),
		inLengths:    tensor.New(tensor.WithShape(2), tensor.WithBacking([]int64{2, 8})),
		"group_rows": tensor.New(tensor.WithShape(2), tensor.WithBacking([]int64{2, 4}))})
	if got := out["y"].Shape(); len(g.M.Nodes) != want || !got.Eq(tensor.Shape{8, 3}) {
		t.Errorf("got shape %v of %d nodes, want [8 3] of %d", got, len(g.M.Nodes), want)
	}
}

// TestRepeatableSums: products sum rows of any number as ReduceSum does, and other sums stay.
func TestRepeatableSums(t *testing.T) {
	for _, c := range []struct {
		shape   []any
		axes    []int64
		keep    int
		replace bool
	}{
		{[]any{"rows", 5}, []int64{0}, 0, true},
		{[]any{"rows", 5}, []int64{0}, 1, true},
		{[]any{"rows", 1}, []int64{0}, 0, true},
		{[]any{2, "rows", 5}, []int64{0, 1}, 0, true},
		{[]any{"rows", 2, 5}, []int64{0}, 0, true},
		{[]any{"rows", "columns"}, []int64{0}, 0, true},
		{[]any{"rows", "columns"}, []int64{0}, 1, true},
		{[]any{"rows", 5}, []int64{1}, 0, false},
		{[]any{"rows", 5}, []int64{0, 1}, 0, false},
		{[]any{2, "rows", 5}, []int64{0}, 0, false}, // of two numbers each
		{[]any{7, 5}, []int64{0}, 0, false},
	} {
		t.Run(fmt.Sprint(c.shape, c.axes, c.keep), func(t *testing.T) {
			shape, size := make([]int, len(c.shape)), 1
			for i, d := range c.shape {
				if n, ok := d.(int); ok {
					shape[i] = n
				} else {
					shape[i] = len(d.(string))
				}
				size *= shape[i]
			}
			x := tensor.New(tensor.WithShape(shape...),
				tensor.WithBacking(random(rand.New(rand.NewPCG(3, 4)), 1, int64(size)).Float32s()))
			var outputs []*tensor.Dense
			for _, change := range []func(*onnx.Model){func(*onnx.Model) {}, RepeatableSums} {
				b := onnx.NewBuilder("sums", Opset)
				in := b.Input("x", onnx.Float, onnx.Dims(c.shape...))
				sum := b.OpA("ReduceSum", onnx.Attrs{"keepdims": c.keep}, in, b.Ints(c.axes...))
				b.Output("y", b.Op("Neg", sum), onnx.Float, nil)
				change(b.M)
				if got := b.M.Nodes[0].Op != "ReduceSum"; len(outputs) > 0 && got != c.replace {
					t.Errorf("replaced: got %t, want %t", got, c.replace)
				}
				outputs = append(outputs, runModel(t, b.M, map[string]*tensor.Dense{"x": x})["y"])
			}
			want, got := outputs[0], outputs[1]
			if diff := cmp.Diff(want.Data(), got.Data(), cmpopts.EquateApprox(1e-6, 1e-6)); diff != "" ||
				!got.Shape().Eq(want.Shape()) {
				t.Errorf("got shape %v, want %v; sums (-ReduceSum +product):\n%s", got.Shape(), want.Shape(), diff)
			}
		})
	}
}
