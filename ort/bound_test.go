package ort

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestSumsInMemory: a session adds to memory that it was given, in place, and reads a factor from it. What a run begins
// with may be a single zero that all elements share.
func TestSumsInMemory(t *testing.T) {
	ctx := context.Background()
	b := onnx.NewBuilder("sum", 21)
	x := b.Input("x", onnx.Float, onnx.Dims(2, 2))
	factor := b.Input("factor", onnx.Float, onnx.Dims(2, 2))
	sum := b.Input("sum", onnx.Float, onnx.Dims("rows", "columns"))
	b.Output("summed", b.Op("Add", sum, b.Op("Mul", x, factor)), onnx.Float, onnx.Dims(2, 2))
	b.Output("square", b.Op("Mul", x, x), onnx.Float, onnx.Dims(2, 2))
	s := openTest(t, b.M, Options{})
	memory, err := NewMemory("cpu", 3*256)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := memory.Close(); err != nil {
			t.Error(err)
		}
	}()
	view := func(at int64, shape ...int64) *View {
		t.Helper()
		v, err := memory.View(at, onnx.Float, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	zero, factors, sums := view(0, 1, 1), view(256, 2, 2), view(2*256, 2, 2)
	all := make([]float32, 3*64)
	copy(all[64:], []float32{1, 10, 100, 1000})
	all[2*64] = 5 // never read: the first run begins with zero
	if err := memory.Write(0, all); err != nil {
		t.Fatal(err)
	}
	in := map[string]*tensor.Dense{"x": floats([]int{2, 2}, 1, 2, 3, 4)}
	for n, want := range [][]float32{{1, 20, 300, 4000}, {2, 40, 600, 8000}} {
		from := sums
		if n == 0 {
			from = zero
		}
		out, err := s.RunWith(ctx, in, nil, Views{In: map[string]*View{"factor": factors, "sum": from},
			Out: map[string]*View{"summed": sums}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{1, 4, 9, 16}, out["square"].Data()); diff != "" || len(out) != 1 {
			t.Errorf("got %d results, want only square (-want +got):\n%s", len(out), diff)
		}
		got := make([]float32, 4)
		if err := memory.Read(2*256, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	for name, wrong := range map[string]Views{
		"no such input":  {In: map[string]*View{"factor": factors, "sum": sums, "none": zero}},
		"no such output": {In: map[string]*View{"factor": factors, "sum": sums}, Out: map[string]*View{"none": zero}},
		"another shape":  {In: map[string]*View{"factor": zero, "sum": sums}},
		"given twice":    {In: map[string]*View{"factor": factors, "sum": sums, "x": zero}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.RunWith(ctx, in, nil, wrong); err == nil {
				t.Errorf("%s: got error %v, want one", name, err)
			}
		})
	}
	for _, at := range []int64{-4, 3*256 - 4} {
		if err := memory.Write(at, make([]float32, 2)); err == nil {
			t.Errorf("writing 8 bytes at byte %d of %d: got error %v, want one", at, memory.Bytes(), err)
		}
		if err := memory.Read(at, make([]float32, 2)); err == nil {
			t.Errorf("reading 8 bytes at byte %d of %d: got error %v, want one", at, memory.Bytes(), err)
		}
	}
}
