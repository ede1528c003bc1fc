package exec

import (
	"testing"

	"assay/model/batch"
	"assay/onnx"
)

// TestKeptByFusedOperators: a plan counts what fused operators allocate themselves, as ops/cuda.cc does, besides the
// arena: once for each session, and the largest node of each purpose.
func TestKeptByFusedOperators(t *testing.T) {
	const rows, heads, kv, size = 300, 4, 2, 8
	b := onnx.NewBuilder("kept", 23)
	in := func(name string, shape ...any) string { return b.Input(name, onnx.BFloat16, onnx.Dims(shape...)) }
	q, k, v := in("q", rows, heads*size), in("k", rows, kv*size), in("v", rows, kv*size)
	lse, segments := b.Input("lse", onnx.Float, onnx.Dims(heads, rows)), b.Input("s", onnx.Int32, onnx.Dims(1, 5))
	at := onnx.Attrs{"heads": heads, "kv_heads": kv}
	grads := b.Node(onnx.FusedDomain, "FlashAttentionGrad", 3, at, q, q, k, v, segments, q, lse)
	angles := b.Input("angles", onnx.Float, onnx.Dims(rows, size/2))
	all := b.Node(onnx.FusedDomain, "RopeSplitGrad", 1, at, grads[0], "", grads[2], angles, angles)[0]
	w, rstd := b.Input("w", onnx.Float, onnx.Dims(heads*size)), b.Input("rstd", onnx.Float, onnx.Dims(rows, 1))
	for _, wide := range []string{q, grads[0]} {
		normed := b.Node(onnx.FusedDomain, "RMSNormGrad", 2, nil, wide, "", q, w, rstd)
		b.Last().Outputs[0] = ""
		b.Output("y:"+normed[1], normed[1], onnx.BFloat16, onnx.Dims(rows, heads*size))
	}
	b.Output("all", all, onnx.BFloat16, nil)
	// g o'; gradients of k and v in parts, in float32; the omitted gradient of k; the omitted sum's
	const want = 4*heads*rows + 2*4*rows*heads*size + 2*rows*heads*size + 4*rows*heads*size
	r := &Runner{net: stagingOn("cpu").net}
	plan := Usage{Bytes: map[string]int64{}}
	pass := func(*batch.Sample, int) (int64, error) { return r.Peak(b.M, Shapes()) }
	if err := r.AddPeaks(&plan, nil, 1, Peaks{"one": pass, "two": pass}); err != nil {
		t.Fatal(err)
	}
	peak, largest, err := Peak(b.M, Shapes())
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Bytes["fused operators"]; got != 2*want {
		t.Errorf("got %d bytes, want %d for each of two sessions", got, want)
	}
	if n := peak + 2*largest; plan.Arena != n+n/cudaSlack {
		t.Errorf("got an arena of %d bytes, want only %d of values", plan.Arena, n+n/cudaSlack)
	}
}
