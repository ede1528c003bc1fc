package lora

import "assay/onnx"

// Apply appends y + scale * (x A^T) B^T to the graph and returns its name. x is [rows, in], y [rows, out], A [r, in]
// and B [out, r] are values of the graph; scale multiplies the small product [rows, r].
func Apply(b *onnx.Builder, x, y, matA, matB string, scale float64) string {
	small := b.OpA("Gemm", onnx.Attrs{"transB": 1, "alpha": scale}, x, matA)
	return b.OpA("Gemm", onnx.Attrs{"transB": 1}, small, matB, y)
}

// DoRA is a layer with trained row norms (magnitudes).
type DoRA struct {
	M       string // m [out]
	Squares string // |W|^2 of each row [out]
	AW      string // A W' [r, out]
}

// Factor appends m/|W + s B A| [1, out] for A [r, in] and B [out, r], which multiplies W x + s B (A x), and returns
// its name. The norms |W + s B A| are treated as constants in the gradient, as in the paper (Liu et al. 2024, section
// 4.3) and in PEFT. By row:
//
//	|W + s B A|^2 = |W|^2 + 2 s B . (W A') + s^2 B (A A') . B
func (d *DoRA) Factor(b *onnx.Builder, matA, matB string, scale float64) string {
	rows := func(x string, axis int64) string {
		return b.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, x, b.Ints(axis))
	}
	cross := rows(b.Op("Mul", b.OpA("Transpose", onnx.Attrs{"perm": []int64{1, 0}}, matB), d.AW), 0)
	inner := b.OpA("Gemm", onnx.Attrs{"transB": 1}, matA, matA)
	square := rows(b.Op("Mul", b.Op("MatMul", matB, inner), matB), 1)
	sum := b.Op("Add", d.Squares, b.Op("Mul", b.Scalar(onnx.Float, 2*scale), cross))
	length := b.Op("Sqrt", b.Op("Add", sum, b.Op("Mul", b.Scalar(onnx.Float, scale*scale), square)))
	b.Last().Meta = map[string]string{onnx.MetaConstant: "true"}
	return b.Op("Unsqueeze", b.Op("Div", d.M, length), b.Ints(0))
}
