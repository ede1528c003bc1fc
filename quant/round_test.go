package quant

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/onnx"
)

// TestRangeOverflows: a block whose range float32 does not hold is an error, not a NaN.
func TestRangeOverflows(t *testing.T) {
	w := make([]float32, 32)
	w[1], w[2] = 3e38, -3e38
	_, _, err := Quantizer{Bits: 4, Block: 16}.RoundStored(onnx.Float32Bytes(w), onnx.Float, 2, 16)
	if err == nil || !strings.Contains(err.Error(), "further apart than float32 reaches") {
		t.Error(err)
	}
}

// TestHalfScales: scales in float16 cost little, and those that it cannot hold are errors.
func TestHalfScales(t *testing.T) {
	w := make([]float32, 4*64)
	for i := range w {
		w[i] = float32(math.Sin(float64(i*i))) / 50
	}
	for _, symmetric := range []bool{false, true} {
		exact := Quantizer{Bits: 4, Block: 32, Symmetric: symmetric}
		half := exact
		half.Half = true
		a, lossA, errA := exact.RoundStored(onnx.Float32Bytes(w), onnx.Float, 4, 64)
		b, lossB, errB := half.RoundStored(onnx.Float32Bytes(w), onnx.Float, 4, 64)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Scales {
			if onnx.Float16Value(onnx.Float16Bits(s)) != s {
				t.Errorf("the scale %g is not in float16", s)
			}
		}
		if math.Abs(lossA.Relative-lossB.Relative) > 0.001*lossA.Relative {
			t.Errorf("errors %g and %g", lossA.Relative, lossB.Relative)
		}
		for _, tiny := range []float32{1e-6, 1e9} {
			v := slices.Clone(w)
			for i := range 32 {
				v[i] *= tiny
			}
			if _, _, err := half.RoundStored(onnx.Float32Bytes(v), onnx.Float, 4, 64); err == nil ||
				!strings.Contains(err.Error(), "float16") {
				t.Errorf("%g: error %v, want one about float16", tiny, err)
			}
		}
	}
}
