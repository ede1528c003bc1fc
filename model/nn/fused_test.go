package nn

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/onnx"
)

// TestOmitUnread: a fused operator has no optional output that nothing reads, be it a node, the body of one, or the
// caller. Other outputs stay.
func TestOmitUnread(t *testing.T) {
	b := onnx.NewBuilder("outputs", Opset)
	x, w := b.Input("x", onnx.Float, onnx.Dims("rows", 8)), b.Input("w", onnx.Float, onnx.Dims(8))
	segments := b.Input("segments", onnx.Int32, onnx.Dims("n", 5))
	var got [][]string
	node := func(op string, outputs int, at onnx.Attrs, in ...string) []string {
		y := b.Node(onnx.FusedDomain, op, outputs, at, in...)
		got = append(got, b.Last().Outputs)
		return y
	}
	first := node("AddRMSNorm", 3, nil, x, x, w)
	parts := node("RopeSplit", 3, onnx.Attrs{"heads": 2}, b.OpA("Concat", onnx.Attrs{"axis": 1}, first[1], x, x), x, x)
	seen := node("FlashAttention", 2, onnx.Attrs{"heads": 2}, parts[0], parts[0], parts[0], segments)
	second := node("AddRMSNorm", 3, nil, first[0], seen[0], w)
	b.Output("sum", second[0], onnx.Float, nil)
	OmitUnread(b.M)
	want := [][]string{{first[0], first[1], ""}, parts, {seen[0], ""}, {second[0], "", ""}}
	for _, n := range b.M.Nodes { // the builder may have renamed outputs
		if n.Domain == onnx.FusedDomain && n.Op == "AddRMSNorm" && n.Outputs[0] == "sum" {
			want[3][0] = "sum"
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}
