package nn

import (
	"math"

	"assay/onnx"
)

// Attend is self-attention without direction, of vision towers: q, k, v [segments, length, heads*dim] see their own
// segment only. mask, broadcast to [segments, heads, length, length], is added to the scores, see [Graph.Mask]; "":
// none. It returns rows [segments*length, heads*dim]. Its products and softmax have the type of the other products; its
// inputs and output are float32.
func (g *Graph) Attend(q, k, v, mask string, heads, dim int) string {
	q, k, v = g.narrow(g.scaled(q, dim)), g.narrow(k), g.narrow(v)
	scores := g.Op("MatMul", g.heads(q, heads, dim, 0, 2, 1, 3), g.heads(k, heads, dim, 0, 2, 3, 1))
	if mask != "" {
		scores = g.Op("Add", scores, mask)
	}
	y := g.Op("MatMul", g.OpA("Softmax", onnx.Attrs{"axis": -1}, scores), g.heads(v, heads, dim, 0, 2, 1, 3))
	y = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}}, y)
	return g.wide(g.Op("Reshape", y, g.Ints(-1, int64(heads*dim))))
}

// scaled is q/sqrt(dim).
func (g *Graph) scaled(q string, dim int) string {
	return g.Op("Mul", q, g.Scalar(onnx.Float, 1/math.Sqrt(float64(dim))))
}

// heads takes the heads of x [segments, length, heads*dim] apart and orders the four axes anew.
func (g *Graph) heads(x string, heads, dim int, perm ...int) string {
	return g.OpA("Transpose", onnx.Attrs{"perm": perm}, g.Op("Reshape", x, g.Ints(0, 0, int64(heads), int64(dim))))
}
