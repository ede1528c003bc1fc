package ort

import (
	"runtime"
	"testing"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestDenormalsAreZeros: both on the calling thread and on the session's threads; Go's own arithmetic keeps
// denormals.
func TestDenormalsAreZeros(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the runtime flushes denormal numbers to zero on x86 only")
	}
	runtime.LockOSThread() // its mode is changed and restored
	defer runtime.UnlockOSThread()
	const n = 1 << 20 // enough work for all threads
	b := onnx.NewBuilder("product", 18)
	x := b.Input("x", onnx.Float, onnx.Dims(n))
	b.Output("y", b.Op("Mul", x, x), onnx.Float, onnx.Dims(n))
	s := openTest(t, b.M, Options{Threads: 2})
	small := make([]float32, n)
	for i := range small {
		small[i] = 1e-20
	}
	for i, y := range runTest(t, s, map[string]*tensor.Dense{"x": floats([]int{n}, small...)})["y"].Data().([]float32) {
		if y != 0 {
			t.Fatalf("element %d: got %g, want 0: a thread of the session keeps denormal numbers", i, y)
		}
	}
	if y := small[0] * small[1]; y == 0 {
		t.Errorf("Go's arithmetic: got %g, want a denormal number", y)
	}
}
