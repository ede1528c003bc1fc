package exec_test

import (
	"testing"

	"gorgonia.org/tensor"

	"assay/model/exec"
	"assay/onnx"
)

// TestPeakOfReshaped: a value whose own size is unknown counts as large as what it is reshaped to, not as what it is
// cut from. The factors of dropout are cut from one pool.
func TestPeakOfReshaped(t *testing.T) {
	b := onnx.NewBuilder("dropout", 23)
	x, pool := b.Input("x", onnx.Float, onnx.Dims("rows", 256)), b.Input("pool", onnx.Float, onnx.Dims("pool"))
	offsets := b.Input("offsets", onnx.Int64, onnx.Dims("sites"))
	start := b.OpA("Slice", nil, offsets, b.Ints(0), b.Ints(1))
	size := b.Op("Shape", x)
	end := b.Op("Add", start, b.OpA("ReduceProd", onnx.Attrs{"keepdims": 1}, size))
	b.Output("y", b.Op("Mul", x, b.Op("Reshape", b.Op("Slice", pool, start, end), size)), onnx.Float, nil)
	of := func(d tensor.Dtype, shape ...int) *tensor.Dense {
		return tensor.New(tensor.Of(d), tensor.WithShape(shape...))
	}
	got, _, err := exec.Peak(b.M, exec.Shapes(map[string]*tensor.Dense{"x": of(tensor.Float32, 100, 256),
		"pool": of(tensor.Float32, 1<<20), "offsets": of(tensor.Int64, 65)}))
	if err != nil {
		t.Fatal(err)
	}
	const factors = 4 * 100 * 256
	if got < 2*factors || got > 2*factors+100 { // factors and y; a few numbers
		t.Errorf("got a peak of %d bytes, want factors and result, %d, and at most 100 more", got, 2*factors)
	}
}
