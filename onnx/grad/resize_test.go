package grad

import (
	"fmt"
	"strings"
	"testing"

	"assay/onnx"
)

// TestCornersOfBrokenSizes: ONNX Runtime and the standard disagree on align_corners with a scale that does not result
// in a whole size.
func TestCornersOfBrokenSizes(t *testing.T) {
	for _, height := range []onnx.Dim{onnx.Fixed(4), onnx.Symbol("h")} {
		t.Run(fmt.Sprintf("height %v", height), func(t *testing.T) {
			b := onnx.NewBuilder("resize", 17)
			b.Input("x", onnx.Float, []onnx.Dim{onnx.Fixed(1), onnx.Fixed(1), height})
			y := b.OpA(
				"Resize",
				onnx.Attrs{"mode": "linear", "coordinate_transformation_mode": "align_corners"},
				"x",
				"",
				b.Floats([]int64{3}, 1, 1, 0.6),
			)
			_, err := Append(b.M, Options{Outputs: []string{y}, Wrt: []string{"x"}})
			if err == nil || !strings.Contains(err.Error(), alignCornersDiffer) ||
				!strings.Contains(err.Error(), `"Resize"`) {
				t.Errorf("height %v: got error %v, want one with %q and the node's name", height, err, alignCornersDiffer)
			}
		})
	}
}
