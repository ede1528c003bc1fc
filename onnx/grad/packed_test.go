package grad

import (
	"testing"

	"assay/onnx"
)

// TestZeroPointsFillBytes: no row of a model's zero points ends in the middle of a byte. The CUDA kernel of
// GatherBlockQuantized would silently use the wrong zero points for the following rows: gradients on a GPU were 12 %
// too large.
func TestZeroPointsFillBytes(t *testing.T) {
	seen := false
	for _, c := range packedCases() {
		if c.op != "com.microsoft.MatMulNBits" {
			continue
		}
		g := newGen(c, 23, 1, onnx.Float, false, 1)
		if _, err := Append(g.b.M, Options{Outputs: g.outputs[:1], Wrt: g.wrt}); err != nil {
			t.Fatal(err)
		}
		types, err := onnx.Infer(g.b.M)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range g.b.M.Nodes {
			if n.Op != "GatherBlockQuantized" {
				continue
			}
			if len(n.Inputs) < 4 || n.Inputs[3] == "" {
				t.Errorf("%v: got inputs %v, want zero points among them", n, n.Inputs)
			}
			if given := g.b.M.Nodes[0].Inputs; len(given) < 4 || given[3] == "" { // implicit zero points are all equal
				continue
			}
			scales, _ := types.Of(n.Inputs[2]).Sizes()
			if seen = true; len(scales) != 2 || scales[1]*n.Int("bits", 4)%8 != 0 {
				t.Errorf("%v: got %d blocks a row, want zero points that fill bytes", n, scales)
			}
		}
	}
	if !seen {
		t.Errorf("got zero points in a case %t, want %t", seen, true)
	}
}
