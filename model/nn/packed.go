package nn

import (
	"assay/checkpoints"
	"assay/internal/quant"
	"assay/onnx"
)

// packed returns a linear layer's weight if graphs compute with it in packed form, otherwise nil.
func (g *Graph) packed(key string) *quant.QuantLinear {
	w, ok := g.weights.(interface {
		Quantized(name string) checkpoints.QuantizedTensor
	})
	if !ok || g.own(key) {
		return nil
	}
	l, _ := w.Quantized(key).(*quant.QuantLinear)
	if l == nil || !l.Packed() {
		return nil
	}
	return l
}

// packedProduct is x W' for a packed weight, in float32: x [rows, in] becomes [rows, out].
func (g *Graph) packedProduct(x, key string, l *quant.QuantLinear) string {
	if l.Bnb != nil {
		b, most := l.Bnb4(key)
		return g.Node(Microsoft, "MatMulBnb4", 1, onnx.Attrs{"K": l.In, "N": l.Out, "block_size": l.Bnb.Block,
			"quant_type": l.Bnb.Kind, "transB": 1}, x, g.Weight(b), g.Weight(most))[0]
	}
	if l.Order != nil {
		x = g.Pick(x, g.Ints(l.Order...), 1)
	}
	b, scales, zeros := l.NBits(key)
	inputs := []string{x, g.Weight(b), g.Weight(scales)}
	if zeros != nil {
		inputs = append(inputs, g.Weight(zeros))
	}
	return g.Node(Microsoft, "MatMulNBits", 1, onnx.Attrs{"K": l.In, "N": l.Out, "bits": l.Bits, "block_size": l.Block,
		"accuracy_level": 1}, inputs...)[0] // float32
}

// Microsoft is the domain of ONNX Runtime's own operators.
const Microsoft = "com.microsoft"

// matrix is the weight of x W' in the type of the product. If memory is scarce, a half-precision weight stays as stored
// and is widened for each product.
func (g *Graph) matrix(x, key string) string {
	t, err := g.weights.Tensor(key)
	if err != nil {
		return g.fail("%w", err)
	}
	if !g.LowMemory || g.Compute != onnx.Float || t.Type == onnx.Float || g.own(key) || len(t.Shape) != 2 {
		return g.param(key, g.Compute)
	}
	stored := g.Op("Reshape", g.param(key, t.Type), g.Op("Add", g.Ints(t.Shape...), none(g.Builder, x)))
	dims := onnx.Dims(int(t.Shape[0]), int(t.Shape[1]))
	g.M.Values = append(g.M.Values, onnx.ValueInfo{Name: stored, Type: t.Type, Shape: dims, Ranked: true})
	return g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, stored)
}

// none is an int64 vector of one zero that depends on x. The runtime would compute a value that depends only on
// constants once, and keep it in memory.
func none(b *onnx.Builder, x string) string {
	nothing := b.Op("Slice", b.Op("Reshape", x, b.Ints(-1)), b.Ints(0), b.Ints(0))
	return b.OpA("Cast", onnx.Attrs{"to": onnx.Int64}, b.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, nothing))
}
