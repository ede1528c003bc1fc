package model

import (
	"math"

	"assay/onnx"
)

// Attend is self-attention without direction, of vision towers: q, k, v [segments, length, heads*dim] see their own
// segment only. mask, broadcast to [segments, heads, length, length], is added to the scores; "": none. It returns rows
// [segments*length, heads*dim].
func (g *Graph) Attend(q, k, v, mask string, heads, dim int) string {
	split := func(t string, perm ...int) string {
		return g.OpA("Transpose", onnx.Attrs{"perm": perm}, g.Op("Reshape", t, g.Ints(0, 0, int64(heads), int64(dim))))
	}
	q = g.Op("Mul", q, g.Scalar(onnx.Float, 1/math.Sqrt(float64(dim))))
	scores := g.Op("MatMul", split(q, 0, 2, 1, 3), split(k, 0, 2, 3, 1))
	if mask != "" {
		scores = g.Op("Add", scores, mask)
	}
	y := g.Op("MatMul", g.OpA("Softmax", onnx.Attrs{"axis": -1}, scores), split(v, 0, 2, 1, 3))
	y = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}}, y)
	return g.Op("Reshape", y, g.Ints(-1, int64(heads*dim)))
}
