package nn

import (
	"assay/onnx"
)

// plainCache is the part of a graph that attends over a cache in plain operators: ONNX Runtime's CUDA provider has
// GroupQueryAttention for half precision only. New rows are scattered into the cache in place. The scores of all rows
// over the full cache are in memory at once.
type plainCache struct {
	at     string // [rows, key heads, 3] int64: sequence, head and place in the cache of every packed row
	places string // [sequences, longest] int64: the place of every query in its sequence
	length string // [1] int64: rows of the longest sequence in the cache afterwards
}

// Names of the inputs of a plainCache.
const (
	InCacheRows   = "cache_rows"
	InCachePlaces = "cache_places"
	InCacheLength = "cache_length"
)

func newPlainCache(g *Graph, d *Decoder) *plainCache {
	return &plainCache{
		at:     g.Input(InCacheRows, onnx.Int64, onnx.Dims("rows", d.KVHeads, 3)),
		places: g.Input(InCachePlaces, onnx.Int64, onnx.Dims("sequences", "longest")),
		length: g.Input(InCacheLength, onnx.Int64, onnx.Dims(1)),
	}
}

// mask returns the mask added to the scores, [sequences, 1, rep*longest, length].
func (c *plainCache) mask(g *Graph, v *View) string {
	columns := g.Op("Range", g.Int(0), g.Op("Squeeze", c.length), g.Int(1))
	return v.added(g, 0, g.Op("Unsqueeze", c.places, g.Ints(1, 3)), columns)
}

// attendPlain is attendCached in plain operators; it returns [sequences, longest, key heads, rep, width]. Query heads
// that share a key head are stacked as rows of one product.
func (a *SelfAttention) attendPlain(g *Graph, q, k, v string, view *View, width int) string {
	c := view.Cached
	keys := c.append(g, a, CacheParts[0], k, width)
	values := c.append(g, a, CacheParts[1], v, width)
	rep := a.Heads / a.KVHeads
	q = g.Op("Reshape", c.apart(g, q, a.Heads, a.HeadDim, width), g.Ints(0, 0, int64(a.KVHeads), int64(rep), int64(width)))
	q = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 3, 1, 4}}, q)
	q = g.Op("Reshape", q, g.Ints(0, int64(a.KVHeads), -1, int64(width)))
	scores := g.Node(Microsoft, "FusedMatMul", 1,
		onnx.Attrs{"transB": 1, "alpha": a.scale()}, q, keys)[0]
	prob := g.OpA("Softmax", onnx.Attrs{"axis": -1}, g.Op("Add", scores, view.masks[0]))
	y := g.Op("MatMul", prob, values) // [sequences, key heads, rep*longest, width]
	y = g.Op("Reshape", y, g.Ints(0, 0, int64(rep), -1, int64(width)))
	return g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 3, 1, 2, 4}}, y)
}

// append writes rows [1, rows, key heads*dim] to the cache and returns its content afterwards, [sequences, key heads,
// length, width].
func (c *cached) append(g *Graph, a *SelfAttention, what, x string, width int) string {
	x = g.Op("Reshape", filledUp(g, x, a.KVHeads, a.HeadDim, width), g.Ints(-1, int64(a.KVHeads), int64(width)))
	g.Op("ScatterND", c.past(g, a, what, width), c.plain.at, x)
	node := g.Last()
	node.Outputs[0] = c.present(g, a, what, width)
	return g.Op("Slice", node.Outputs[0], g.Ints(0), c.plain.length, g.Ints(2))
}
