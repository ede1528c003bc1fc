package model

import (
	"math"

	"assay/onnx"
)

// bfloat16 rounds to the nearest bfloat16, to even on a tie.
func bfloat16(v float32) float32 {
	bits := math.Float32bits(v)
	bits += 0x7fff + bits>>16&1
	return math.Float32frombits(bits &^ 0xffff)
}

// RoundBFloat16 rounds float32 values to bfloat16, and leaves them float32.
func (g *Graph) RoundBFloat16(x string) string {
	x = g.OpA("Cast", onnx.Attrs{"to": onnx.BFloat16}, x)
	return g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, x)
}
