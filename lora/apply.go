package lora

import "assay/onnx"

// Apply appends y + scale * ((mask * x) A^T) B^T to the graph and returns its name. x is [rows, in], y [rows, out], A
// [r, in] and B [out, r] are values of the graph; scale multiplies the small product [rows, r]. mask is "" or a value
// [rows, in] that holds 0 or 1/(1-p): dropout, drawn outside.
func Apply(b *onnx.Builder, x, y, matA, matB string, scale float64, mask string) string {
	if mask != "" {
		x = b.Op("Mul", x, mask)
	}
	small := b.OpA("Gemm", onnx.Attrs{"transB": 1, "alpha": scale}, x, matA)
	return b.OpA("Gemm", onnx.Attrs{"transB": 1}, small, matB, y)
}
