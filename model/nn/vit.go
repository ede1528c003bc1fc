package nn

import (
	"math"

	"assay/onnx"
)

// Attend is self-attention without direction, of vision towers: q, k, v [segments, length, heads*dim] see their own
// segment only. mask, broadcast to [segments, heads, length, length], is added to the scores, see [Graph.Mask]; "":
// none. It returns rows [segments*length, heads*dim]. All of it has the type of the other products.
func (g *Graph) Attend(q, k, v, mask string, heads, dim int) string {
	scale := 1 / math.Sqrt(float64(dim))
	q = g.heads(g.scaleQueries(q, scale), heads, dim, 0, 2, 1, 3)
	scores := g.turnedScores(q, g.heads(k, heads, dim, 0, 2, 3, 1), scale)
	if mask != "" {
		scores = g.Op("Add", scores, mask)
	}
	y := g.Op("MatMul", g.OpA("Softmax", onnx.Attrs{"axis": -1}, scores), g.heads(v, heads, dim, 0, 2, 1, 3))
	y = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}}, y)
	return g.Op("Reshape", y, g.Ints(-1, int64(heads*dim)))
}

// heads takes the heads of x [segments, length, heads*dim] apart and orders the four axes anew.
func (g *Graph) heads(x string, heads, dim int, perm ...int) string {
	return g.OpA("Transpose", onnx.Attrs{"perm": perm}, g.Op("Reshape", x, g.Ints(0, 0, int64(heads), int64(dim))))
}
