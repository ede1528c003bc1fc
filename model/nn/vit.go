package nn

import (
	"math"

	"assay/onnx"
)

// Attend is the bidirectional self-attention of vision towers: q, k, v [segments, length, heads*dim] see only their own
// segment. mask, broadcast to [segments, heads, length, length], is added to the scores, see [Graph.Mask]; "":
// none. It returns rows [segments*length, heads*dim]. All values have the type of the other products.
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

// heads splits x [segments, length, heads*dim] into heads and permutes the four axes.
func (g *Graph) heads(x string, heads, dim int, perm ...int) string {
	return g.OpA("Transpose", onnx.Attrs{"perm": perm}, g.Op("Reshape", x, g.Ints(0, 0, int64(heads), int64(dim))))
}
