package nn

import (
	"math"

	"assay/onnx"
)

// bfloat16 rounds to the nearest bfloat16, ties to even.
func bfloat16(v float32) float32 {
	bits := math.Float32bits(v)
	bits += 0x7fff + bits>>16&1
	return math.Float32frombits(bits &^ 0xffff)
}

// RoundBFloat16 rounds float32 values to bfloat16 precision; the result is still float32.
func (g *Graph) RoundBFloat16(x string) string {
	x = g.OpA("Cast", onnx.Attrs{"to": onnx.BFloat16}, x)
	return g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, x)
}

// Narrow casts a float32 value to the type of the large products. All rows between the norms of a layer and the
// residual sums have this type. Attention in bfloat16 works as PyTorch's eager attention does: products and the
// softmax accumulate in float32, and their results are rounded.
func (g *Graph) Narrow(x string) string { return g.to(x, onnx.Float, g.Compute) }

// Wide casts a value from the type of the large products to float32.
func (g *Graph) Wide(x string) string { return g.to(x, g.Compute, onnx.Float) }

// to casts x from one type to another.
func (g *Graph) to(x string, from, to onnx.DType) string {
	if from == to {
		return x
	}
	return g.OpA("Cast", onnx.Attrs{"to": to}, x)
}

// scaleQueries multiplies queries by the factor on their products with keys. In half precision the product applies
// the factor itself, because it is exact there.
func (g *Graph) scaleQueries(q string, by float64) string {
	if g.Compute != onnx.Float {
		return q
	}
	return g.Op("Mul", q, g.Scalar(onnx.Float, by))
}

// scores returns the products of queries [n, heads, rows, dim], after scaleQueries, with keys [n, heads, columns,
// dim].
func (g *Graph) scores(q, k string, by float64) string {
	if g.Compute != onnx.Float {
		return g.Node(Microsoft, "FusedMatMul", 1, onnx.Attrs{"transB": 1, "alpha": by}, q, k)[0]
	}
	return g.Op("MatMul", q, g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 1, 3, 2}}, k))
}

// turnedScores is scores for transposed keys [n, heads, dim, columns].
func (g *Graph) turnedScores(q, k string, by float64) string {
	if g.Compute != onnx.Float {
		return g.Node(Microsoft, "FusedMatMul", 1, onnx.Attrs{"alpha": by}, q, k)[0]
	}
	return g.Op("MatMul", q, k)
}

// Mask returns the mask that is added to attention scores: 0 where a key is seen, the lowest number elsewhere. It has
// the type of the products.
func (g *Graph) Mask(seen string) string {
	return g.Op("Where", seen, g.Scalar(g.Compute, 0), g.Scalar(g.Compute, lowest(g.Compute)))
}

// lowest returns the lowest finite number of a type.
func lowest(t onnx.DType) float64 {
	if t == onnx.BFloat16 {
		return -float64(math.Float32frombits(0x7f7f0000))
	}
	return -math.MaxFloat32
}
