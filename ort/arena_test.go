package ort

import (
	"testing"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestSessionsShareTheArena: sessions that run in turn use the same memory for their values, 128 MB here. The second
// one allocates nothing; a session with its own arena does.
func TestSessionsShareTheArena(t *testing.T) {
	const side = 4096
	b := onnx.NewBuilder("large values", 21)
	x := b.Input("x", onnx.Float, onnx.Dims("n", 1))
	y := b.Op("MatMul", x, b.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0}}, x)) // [n, n]: 64 MB
	y = b.Op("Add", b.Op("Exp", y), b.Op("Sin", y))
	b.Output("y", b.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, y), onnx.Float, nil)
	grown := func(o Options) int {
		t.Helper()
		s := openTest(t, b.M, o)
		before := resident(t)
		runTest(t, s, map[string]*tensor.Dense{"x": floats([]int{side, 1}, make([]float32, side)...)})
		return resident(t) - before
	}
	first := grown(Options{LowMemory: true})
	if next := grown(Options{LowMemory: true}); next > 16 {
		t.Errorf("the second session: got %d MB, want at most 16; the first took %d", next, first)
	}
	if own := grown(Options{}); own < 100 {
		t.Errorf("a session with its own arena: got %d MB, want at least 100, or this test measures nothing", own)
	}
}
