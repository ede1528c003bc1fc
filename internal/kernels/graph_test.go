package kernels

import (
	"fmt"
	"testing"

	"assay/onnx"
	"assay/onnx/grad"
)

// A graph with nodes that lack a kernel: ordinary nodes, one that computes with sizes, which may, and one of unknown
// type.
func TestLacking(t *testing.T) {
	b := onnx.NewBuilder("lacking", 23)
	x := b.Input("x", onnx.Float, onnx.Dims("rows", 4))
	b.Op("Elu", b.Op("Cos", x))
	b.OpA("ReduceProd", onnx.Attrs{"keepdims": 1}, b.Op("Shape", x))
	b.OpA("ReduceProd", onnx.Attrs{"keepdims": 1}, b.Input("n", onnx.Int64, onnx.Dims(2)))
	b.Op("Exp", b.Node("com.example", "Unheard", 1, nil, x)[0])
	got, err := Lacking(b.M)
	if err != nil {
		t.Fatal(err)
	}
	want := []MissingKernel{
		{Since: 22, Types: []string{"float"}},
		{Since: 18, Types: []string{"int64"}, Sizes: true},
		{Since: 18, Types: []string{"int64"}},
		{Since: 0, Types: []string{"float"}},
		{Since: 13, Types: []string{"unknown"}},
	}
	for i, l := range got {
		if i >= len(want) || l.Since != want[i].Since || l.Types[0] != want[i].Types[0] || l.Sizes != want[i].Sizes {
			t.Errorf("got %v, sizes=%v, want one of %v", l, l.Sizes, want)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d nodes lack a kernel, want %d", len(got), len(want))
	}
}

// Weights packed as in bitsandbytes, forward and backward.
func TestBnb4(t *testing.T) {
	const out, in, block = 8, 64, 64
	for _, dtype := range []onnx.DType{onnx.Float, onnx.BFloat16} {
		t.Run(fmt.Sprint(dtype), func(t *testing.T) {
			b := onnx.NewBuilder("bnb4", 23)
			x := b.Input("x", dtype, onnx.Dims("rows", in))
			w := b.Weight(&onnx.Tensor{Name: "w", Type: onnx.Uint8, Shape: []int64{out * in / 2}, Data: make([]byte, out*in/2)})
			scale := b.Weight(&onnx.Tensor{Name: "scale", Type: onnx.Float, Shape: []int64{out}, Data: make([]byte, 4*out)})
			if dtype != onnx.Float {
				x = b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, x)
			}
			y := b.Node("com.microsoft", "MatMulBnb4", 1, onnx.Attrs{"K": in, "N": out, "block_size": block, "quant_type": 1,
				"transB": 1}, x, w, scale)[0]
			b.Output("y", y, onnx.Float, onnx.Dims("rows", out))
			if _, err := grad.Append(b.M, grad.Options{Outputs: []string{"y"}, Wrt: []string{"x"}}); err != nil {
				t.Fatal(err)
			}
			lacking, err := Lacking(b.M)
			if err != nil || len(lacking) > 0 {
				t.Errorf("%v: got %v lacking, %v, want nothing", dtype, lacking, err)
			}
		})
	}
}
