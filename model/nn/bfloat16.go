package nn

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

// narrow is a value in the type of the large products, wide one in float32 again. Attention in bfloat16 is that of
// PyTorch's eager attention: products and the softmax sum in float32, and what they give is rounded.
func (g *Graph) narrow(x string) string {
	if g.Compute == onnx.Float {
		return x
	}
	return g.OpA("Cast", onnx.Attrs{"to": g.Compute}, x)
}

func (g *Graph) wide(x string) string {
	if g.Compute == onnx.Float {
		return x
	}
	return g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, x)
}

// Mask is what is added to the scores of attention: 0 where a key is seen, the lowest number elsewhere. It has the type
// of the products.
func (g *Graph) Mask(seen string) string {
	return g.Op("Where", seen, g.Scalar(g.Compute, 0), g.Scalar(g.Compute, lowest(g.Compute)))
}

// lowest is the lowest number of a type.
func lowest(t onnx.DType) float64 {
	if t == onnx.BFloat16 {
		return -float64(math.Float32frombits(0x7f7f0000))
	}
	return -math.MaxFloat32
}
