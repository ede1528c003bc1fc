package nn

import (
	"fmt"

	"assay/onnx"
)

// headUnit: the runtime's attention over a cache requires a head width that is a multiple of it. Heads are padded
// with zeros, which add nothing to a product.
const headUnit = 8

// cached is the part of a graph that reads and writes keys and values of a [Cache]. Rows of several sequences are
// packed one after the other for all products; only attention sees them separately, as [sequences, rows of the
// longest].
type cached struct {
	typ    onnx.DType // of keys and values
	spread string     // [sequences, longest] int64: the packed row at each place; an arbitrary row for padding
	gather string     // [rows] int64: the place of each packed row among sequences * longest

	// For attention as one operator:
	last string // [sequences] int32: rows of a sequence in the cache afterwards, minus one
	most string // [1] int32: rows of the longest sequence

	plain *plainCache // not nil: attention as plain operators
}

// Names of the inputs and outputs of a graph with a cache.
const (
	InSpread = "spread_rows"
	InGather = "gather_rows"
	InLast   = "seqlens_k"
	InMost   = "total_sequence_length"
	OutLogit = "logits" // [selected, V]
)

// CacheParts are the parts of a cache for each layer.
var CacheParts = []string{"key", "value"}

// CacheNames returns the names of the input and the output that hold a layer's keys or values.
func CacheNames(layer int, what string) (past, present string) {
	return fmt.Sprintf("past.%d.%s", layer, what), fmt.Sprintf("present.%d.%s", layer, what)
}

// NewCached declares a cache in the type of the products. With plain, attention over it is not a single operator: see
// plainCache.
func NewCached(g *Graph, d *Decoder, plain bool) *cached {
	c := &cached{
		typ:    g.Compute,
		spread: g.Input(InSpread, onnx.Int64, onnx.Dims("sequences", "longest")),
		gather: g.Input(InGather, onnx.Int64, onnx.Dims("rows")),
	}
	if plain {
		c.plain = newPlainCache(g, d)
		return c
	}
	c.last = g.Input(InLast, onnx.Int32, onnx.Dims("sequences"))
	c.most = g.Input(InMost, onnx.Int32, onnx.Dims(1))
	return c
}

// CachedWidth returns the width of a head in the cache.
func (c *TextConfig) CachedWidth() int { return (c.HeadDim + headUnit - 1) / headUnit * headUnit }

// attendCached appends k and v to the cache and attends from q to everything in it: q [1, rows, heads*dim], k and v
// [1, rows, kv_heads*dim] -> [queries, heads*dim]. Queries are not scaled yet.
func (a *SelfAttention) attendCached(g *Graph, q, k, v string, view *View) string {
	c, width := view.Cached, (a.HeadDim+headUnit-1)/headUnit*headUnit
	if c.plain != nil {
		return c.together(g, a.attendPlain(g, q, k, v, view, width), a.Heads, a.HeadDim, width, view)
	}
	inputs := []string{
		c.apart(g, q, a.Heads, a.HeadDim, width),
		c.apart(g, k, a.KVHeads, a.HeadDim, width),
		c.apart(g, v, a.KVHeads, a.HeadDim, width),
	}
	for _, what := range CacheParts {
		inputs = append(inputs, c.past(g, a, what, width))
	}
	y := g.Node("com.microsoft", "GroupQueryAttention", 3, onnx.Attrs{
		"num_heads":         a.Heads,
		"kv_num_heads":      a.KVHeads,
		"scale":             a.scale(),
		"local_window_size": view.window(),
	}, append(inputs, c.last, c.most)...)[0]
	node := g.Last()
	for i, what := range CacheParts {
		node.Outputs[1+i] = c.present(g, a, what, width)
	}
	return c.together(g, y, a.Heads, a.HeadDim, width, view)
}

// past declares a layer's keys or values before the run.
func (c *cached) past(g *Graph, a *SelfAttention, what string, width int) string {
	past, _ := CacheNames(a.Layer, what)
	return g.Input(past, c.typ, onnx.Dims("sequences", a.KVHeads, "capacity", width))
}

// present declares them after the run. They are written in place: the cache itself is the graph's output.
func (c *cached) present(g *Graph, a *SelfAttention, what string, width int) string {
	_, present := CacheNames(a.Layer, what)
	g.M.Outputs = append(g.M.Outputs, onnx.ValueInfo{Name: present, Type: c.typ,
		Shape: onnx.Dims("sequences", a.KVHeads, "capacity", width), Ranked: true})
	return present
}

// window returns the number of rows that a row sees in GroupQueryAttention, including itself; -1: all rows up to it.
func (v *View) window() int {
	if v.sliding > 0 {
		return v.sliding
	}
	return -1
}

// apart unpacks rows [1, rows, heads*dim] into [sequences, longest, heads*width].
func (c *cached) apart(g *Graph, x string, heads, dim, width int) string {
	return g.OpA("Gather", onnx.Attrs{"axis": 0}, filledUp(g, x, heads, dim, width), c.spread)
}

// filledUp pads the heads of rows [1, rows, heads*dim] with zeros and returns [rows, heads*width].
func filledUp(g *Graph, x string, heads, dim, width int) string {
	x = g.Op("Squeeze", x, g.Ints(0))
	if width == dim {
		return x
	}
	x = g.Op("Reshape", x, g.Ints(-1, int64(heads), int64(dim)))
	if g.Compute == onnx.Float {
		x = g.Op("Pad", x, g.Ints(0, 0, 0, 0, 0, int64(width-dim)))
	} else { // see padRows
		x = g.OpA("Concat", onnx.Attrs{"axis": 2}, x, g.zeros(g.SizeOf(x, 0), heads, width-dim))
	}
	return g.Op("Reshape", x, g.Ints(-1, int64(heads*width)))
}

// together packs the query rows of [sequences, longest, heads*width] again.
func (c *cached) together(g *Graph, y string, heads, dim, width int, v *View) string {
	y = g.Op("Reshape", y, g.Ints(-1, int64(heads*width)))
	rows := c.gather
	if v.Selected {
		rows = g.OpA("Gather", onnx.Attrs{"axis": 0}, c.gather, v.Select)
	}
	y = g.OpA("Gather", onnx.Attrs{"axis": 0}, y, rows)
	if width == dim {
		return y
	}
	y = g.Op("Reshape", y, g.Ints(-1, int64(heads), int64(width)))
	y = g.Op("Slice", y, g.Ints(0), g.Ints(int64(dim)), g.Ints(2))
	return g.Op("Reshape", y, g.Ints(-1, int64(heads*dim)))
}
