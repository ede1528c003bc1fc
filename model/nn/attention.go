package nn

import (
	"math"

	"assay/onnx"
)

// SelfAttention is causal grouped-query attention with rotary positions. A family may replace any of its parts: a
// query projection with a norm is a [Module] assigned to Query.
type SelfAttention struct {
	Query, Key, Value, Output Module
	Heads, KVHeads, HeadDim   int
	Layer                     int // index in the decoder: selects the keys and values in a cache
	// Rotate applies the rotation to every head of [rows, heads*dim] and returns [1, rows, heads*dim].
	Rotate func(g *Graph, x string, r Rotation, heads int) string
}

// Rotation holds the cosines and sines of rotary positions, [1, rows, head_dim/2].
type Rotation struct{ Cos, Sin string }

// at returns the rotation of the given rows.
func (r Rotation) at(g *Graph, rows string) Rotation {
	return Rotation{
		Cos: g.OpA("Gather", onnx.Attrs{"axis": 1}, r.Cos, rows),
		Sin: g.OpA("Gather", onnx.Attrs{"axis": 1}, r.Sin, rows),
	}
}

// narrow returns the rotation in the type of the rows that RotaryEmbedding rotates.
func (r Rotation) narrow(g *Graph) Rotation {
	return Rotation{Cos: g.Narrow(r.Cos), Sin: g.Narrow(r.Sin)}
}

// rows returns the cosines and sines as [rows, head_dim/2].
func (r Rotation) rows(g *Graph) Rotation {
	return Rotation{Cos: g.Op("Squeeze", r.Cos, g.Ints(0)), Sin: g.Op("Squeeze", r.Sin, g.Ints(0))}
}

// rotate applies the rotation to every head of x [rows, heads*dim].
func rotate(g *Graph, x string, r Rotation, heads int) string {
	x = g.Op("Unsqueeze", x, g.Ints(0))
	return g.OpA("RotaryEmbedding", onnx.Attrs{"num_heads": heads}, x, r.Cos, r.Sin)
}

// View determines which rows of a layer are queries, and which rows they attend to.
type View struct {
	*Packing
	Rotation Rotation
	Selected bool     // only the selected rows are queries and are returned, as in the last layer
	masks    []string // by group with queries: added to the scores; "": the group is attended to in blocks
	pieces   []pieces // the same, for groups that are attended to in pieces
	flat     Rotation // for fused operators: [rows, head_dim/2]
	sliding  int      // rows that a row sees, including itself; 0: all rows up to it
	rep      int      // query heads that share a key head
}

// queries returns the number of query rows of each group that has any, and of each sequence of the group, int64.
func (v *View) queries() (rows, each string) {
	if v.Selected {
		return v.SelectRows, v.SelectEach
	}
	return v.Rows, v.Lengths
}

// Forward attends from the rows in queries [queries, hidden] to all rows [rows, hidden], and returns [queries,
// hidden].
func (a *SelfAttention) Forward(g *Graph, queries, all string, v *View) string {
	if v.Cached != nil { // keys and values enter the cache with queries of the same rows
		q, k, value := a.entering(g, all, v)
		return a.Output.Forward(g, a.attendCached(g, q, k, value, v))
	}
	if g.Kernels == Fused {
		return a.Output.Forward(g, a.fused(g, queries, all, v))
	}
	q := a.Query.Forward(g, queries)
	return a.Output.Forward(g, a.mix(g, q, g.ofAllRows(a.Key, all), g.ofAllRows(a.Value, all), v))
}

// entering returns the rotated queries and keys, and the values, of rows that enter the cache, each [1, rows, ...].
func (a *SelfAttention) entering(g *Graph, all string, v *View) (q, k, value string) {
	if g.Kernels != Fused {
		q = a.Rotate(g, a.Query.Forward(g, all), v.Rotation, a.Heads)
		k = a.Rotate(g, a.Key.Forward(g, all), v.Rotation, a.KVHeads)
		return q, k, g.Op("Unsqueeze", a.Value.Forward(g, all), g.Ints(0))
	}
	q, k, value = g.RopeSplit(g.joined(all, a.Query, a.Key, a.Value), v.flat, a.Heads, a.KVHeads)
	return g.Op("Unsqueeze", q, g.Ints(0)), g.Op("Unsqueeze", k, g.Ints(0)), g.Op("Unsqueeze", value, g.Ints(0))
}

// scale returns the factor on the products of queries and keys.
func (a *SelfAttention) scale() float64 { return 1 / math.Sqrt(float64(a.HeadDim)) }

// mix rotates and attends: queries [queries, heads*dim], keys and values [rows, kv_heads*dim] -> [queries,
// heads*dim].
func (a *SelfAttention) mix(g *Graph, q, k, value string, v *View) string {
	r := v.Rotation
	if v.Selected {
		r = r.at(g, v.Select)
	}
	q = a.Rotate(g, g.scaleQueries(q, a.scale()), r, a.Heads)
	return a.attend(g, q, a.Rotate(g, k, v.Rotation, a.KVHeads), g.Op("Unsqueeze", value, g.Ints(0)), v)
}

// attend: q [1, queries, heads*dim], k and v [1, rows, kv_heads*dim] -> [queries, heads*dim]. Query heads that share
// a key head are stacked as rows of one product, so keys are never repeated.
func (a *SelfAttention) attend(g *Graph, q, k, v string, view *View) string {
	rows, each := view.queries()
	ks, vs := a.contexts(g, k, view), a.contexts(g, v, view)
	asking := view.queryGroups(view.Selected)
	qs := view.split(g, len(asking), q, rows, 1)
	rep := a.Heads / a.KVHeads
	outs := make([]string, len(qs))
	for i := range outs {
		each, k, v, group := g.element(each, i), ks[i].of, vs[i].of, asking[i]
		qi := g.Op("Reshape", qs[i], g.Shape(-1, each, a.KVHeads, rep, a.HeadDim))
		if view.inPieces(g, group) {
			outs[i] = a.attendInPieces(g, qi, ks[i], vs[i], view, i)
			continue
		}
		if view.inBlocks(g, group) {
			outs[i] = a.attendInBlocks(g, qi, k, v, view.queriesOf(g, group), func(rows, columns string) string {
				return view.added(g, group, g.Op("Reshape", rows, g.Ints(1, 1, -1, 1)), columns)
			})
			continue
		}
		qi = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 3, 1, 4}}, qi)
		qi = g.Op("Reshape", qi, g.Ints(0, int64(a.KVHeads), -1, int64(a.HeadDim)))
		scores := g.scores(qi, k, a.scale())
		mask := view.masks[i]
		if view.Follows != nil { // state which sizes are equal: else the backward pass keeps the scores for their shape
			n := g.Ints(1)
			if view.Selected {
				n = g.SizeOf(qi, 0)
			}
			mask = g.Op("Reshape", mask, g.Shape(n, 1, g.SizeOf(qi, 2), g.SizeOf(k, 2)))
		}
		prob := g.OpA("Softmax", onnx.Attrs{"axis": -1}, g.Op("Add", scores, mask))
		y := g.Op("MatMul", prob, v) // [n, kv, rep*r, d]
		y = g.Op("Reshape", y, g.Shape(0, a.KVHeads, rep, each, a.HeadDim))
		y = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 3, 1, 2, 4}}, y)
		outs[i] = g.Op("Reshape", y, g.Ints(-1, int64(a.Heads*a.HeadDim)))
	}
	y := outs[0]
	if len(outs) > 1 {
		y = g.OpA("Concat", onnx.Attrs{"axis": 0}, outs...)
	}
	if g.Variant.Pieces != nil { // the number of rows that a Scan outputs is unknown
		y = g.Op("Reshape", y, g.Shape(g.SizeOf(q, 1), a.Heads*a.HeadDim))
	}
	return y
}

// mask fills in the masks that are added to the scores of every group [sequences or 1, 1, rep*query rows, length]: 0
// where a row may attend, the lowest float elsewhere. A row may attend to itself and to rows before it, within a
// window of that many rows unless window is 0. rep query heads share a key head.
func (v *View) mask(g *Graph, window, rep int) {
	v.sliding, v.rep = window, rep
	if g.Kernels == Fused {
		v.flat = v.Rotation.rows(g)
	}
	if v.Cached != nil {
		if v.Cached.plain != nil { // otherwise GroupQueryAttention masks by itself
			v.masks = []string{v.Cached.plain.mask(g, v)}
		}
		return
	}
	if g.Kernels == Fused {
		return
	}
	asking := v.queryGroups(v.Selected)
	places := make([]string, len(asking))
	if v.Selected {
		places = v.split(g, len(asking), v.SelectPlace, v.SelectRows, 0)
	}
	v.masks, v.pieces = make([]string, len(asking)), make([]pieces, len(asking))
	for i, group := range asking {
		if v.inPieces(g, group) {
			v.pieces[i] = v.cut(g, group)
			continue
		}
		if v.inBlocks(g, group) {
			continue
		}
		rows, columns, each := v.places(g, group)
		if v.Selected {
			rows, each = places[i], g.element(v.SelectEach, i)
		}
		rows = g.Op("Reshape", rows, g.Shape(-1, 1, each, 1)) // [n or 1, 1, r, 1]
		v.masks[i] = v.added(g, group, rows, columns)
	}
}

// added returns the mask that is added to the scores of the rows at positions [n or 1, 1, r, 1] of a group's
// sequences. Columns are the positions [c], which start at 0; the result is [n or 1, 1, rep*r, c].
func (v *View) added(g *Graph, group int, rows, columns string) string {
	seen := g.Op("LessOrEqual", columns, rows)
	if v.sliding > 0 {
		near := g.Op("Less", g.Op("Sub", rows, columns), g.Int(int64(v.sliding)))
		seen = g.Op("And", seen, near)
	}
	if v.Segments != "" {
		length := g.element(v.Lengths, group)
		own := g.Op("Reshape", v.Segments, g.Shape(-1, 1, length, 1))
		other := g.Op("Reshape", v.Segments, g.Shape(-1, 1, 1, length))
		seen = g.Op("And", seen, g.Op("Or", g.Op("Equal", own, other), g.Op("Equal", other, g.Int(0))))
	}
	m := g.Mask(seen)
	if v.rep > 1 {
		m = g.Op("Expand", m, g.Shape(1, v.rep, 1, 1))
		m = g.Op("Reshape", m, g.Shape(0, 1, -1, g.SizeOf(columns, 0)))
	}
	return m
}
