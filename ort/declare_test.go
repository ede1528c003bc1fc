package ort

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// deep multiplies x [rows, 4] by 2 in every one of the layers, through a Reshape whose sizes are computed, behind which
// ONNX Runtime does not know them.
func deep(layers int) *onnx.Model {
	b := onnx.NewBuilder("deep", 18)
	x := b.Input("x", onnx.Float, onnx.Dims("rows", 4))
	for range layers {
		flat := b.Op("Reshape", x, b.Ints(-1))
		x = b.Op("Reshape", b.Op("Add", flat, flat), b.Op("Shape", x))
	}
	b.Output("y", x, onnx.Float, onnx.Dims("rows", 4))
	return b.M
}

// TestDeclare: intermediate values have the shapes that follow from the inputs, with names that end with their stretch
// of nodes; the output's stay as they are, and so does a model with shapes of its own.
func TestDeclare(t *testing.T) {
	m := deep(2 * stretch)
	got := declare(*m)
	if len(m.Values) > 0 {
		t.Fatalf("got %d values in the model that was given, want none", len(m.Values))
	}
	stretches := map[string]int{}
	for i, n := range m.Nodes {
		stretches[n.Outputs[0]] = i / stretch
	}
	names := map[string]int{} // of the first axis of what has the shape of x, by stretch
	for _, v := range got.Values {
		if v.Name == "y" {
			t.Error("got the output declared, want it left out")
		}
		if len(v.Shape) == 2 {
			if want := fmt.Sprintf("rows@%d", stretches[v.Name]); v.Shape[0].Name != want || v.Shape[1] != onnx.Fixed(4) {
				t.Fatalf("%s: got shape %v, want [%s 4]", v.Name, v.Shape, want)
			}
			names[v.Shape[0].Name]++
		}
	}
	if want := len(m.Nodes) / stretch; len(names) < want {
		t.Errorf("got names %v, want %d of them", names, want)
	}
	own := deep(1)
	own.Values = []onnx.ValueInfo{{Name: "other", Type: onnx.Float}}
	if got := declare(*own); !cmp.Equal(got.Values, own.Values) {
		t.Errorf("got values %v, want the model's own", got.Values)
	}
}

// TestEncode: the runtime gets the shapes of intermediate values on the CPU, not on a GPU.
func TestEncode(t *testing.T) {
	m := deep(2)
	for d, want := range map[device]int{cpu: len(declare(*m).Values), 0: 0} {
		raw, err := encode(*m, d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := onnx.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Values) != want || want == 0 && d == cpu {
			t.Errorf("%v: got %d declared values, want %d", d, len(got.Values), want)
		}
	}
}

// TestDeclared: a session over declared shapes takes any number of rows, and buffers that it reuses by shape mix
// nothing up.
func TestDeclared(t *testing.T) {
	const layers = 20
	s := openTest(t, deep(layers), Options{Device: "cpu"})
	for _, rows := range []int{1, 7, 3} {
		x := make([]float32, 4*rows)
		for i := range x {
			x[i] = float32(i + 1)
		}
		y := runTest(t, s, map[string]*tensor.Dense{"x": floats([]int{rows, 4}, x...)})["y"].Data().([]float32)
		for i, v := range y {
			if want := x[i] * (1 << layers); v != want {
				t.Fatalf("%d rows, value %d: got %g, want %g", rows, i, v, want)
			}
		}
	}
}
