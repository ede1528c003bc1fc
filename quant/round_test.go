package quant

import (
	"strings"
	"testing"

	"assay/onnx"
)

// TestRangeOverflows: a block whose range float32 does not hold is an error, not a NaN.
func TestRangeOverflows(t *testing.T) {
	w := make([]float32, 32)
	w[1], w[2] = 3e38, -3e38
	_, err := RoundStored(onnx.Float32Bytes(w), onnx.Float, 2, 16, 4, 16, false)
	if err == nil || !strings.Contains(err.Error(), "further apart than float32 reaches") {
		t.Error(err)
	}
}
