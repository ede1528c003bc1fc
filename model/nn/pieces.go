package nn

import (
	"slices"

	"assay/onnx"
)

// In training steps the sequences of a group are attended to one after the other, by a Scan over sequences. So only the
// scores of one sequence are in memory at a time, and the CPU's cache holds much of them. The keys of a prefix are
// captured, not copied for each branch. Within a sequence the rows are cut into a few pieces, each over the keys that
// its last row may see, which saves most of the products and the softmax of masked scores. As in attention in blocks,
// the backward pass recomputes scores and softmax: no probabilities are stored.

const (
	// PiecesFrom is the number of columns from which a step attends in pieces; from BlocksFrom it attends in blocks, of
	// all sequences. Scores keep their bits.
	PiecesFrom = 512
	// MinPieceRows is the minimum number of rows of a sequence that is attended to in pieces.
	MinPieceRows = 64
	// PiecesOfRows is the number of pieces.
	PiecesOfRows = 4
)

// pieces describes how the sequences of a group are cut: the rows of each piece [n] int64, and the masks added to the
// scores of each.
type pieces struct {
	rows  string
	masks []string // [1, 1, rep*rows, columns]
}

// cut cuts the sequences of a group.
func (v *View) cut(g *Graph, group int) (p pieces) {
	first, rows := g.Ints(0), g.element(v.Lengths, group)
	if before := v.before(group); before >= 0 {
		first = g.element(v.Lengths, before)
	}
	each, begin := g.evenly(rows, PiecesOfRows), first
	for _, size := range each {
		end := g.Op("Add", begin, size.(string))
		behind := g.Op("Squeeze", end)
		places := g.Op("Range", g.Op("Squeeze", begin), behind, g.Int(1))
		columns := g.Op("Range", g.Int(0), behind, g.Int(1))
		p.masks = append(p.masks, v.added(g, group, g.Op("Reshape", places, g.Ints(1, 1, -1, 1)), columns))
		begin = end
	}
	p.rows = g.Shape(each...)
	return p
}

// attendInPieces attends from all rows of a group's sequences: q [sequences, rows, kv, rep, dim] ->
// [sequences*rows, kv*rep*dim]. The group is the view's i-th that has queries.
func (a *SelfAttention) attendInPieces(g *Graph, q string, k, v kv, view *View, i int) string {
	kv, rep, dim := a.KVHeads, a.Heads/a.KVHeads, a.HeadDim
	cut := view.pieces[i]
	inputs := []string{q, k.of, v.of}
	if k.before != "" {
		inputs = append(inputs, view.Prefixes[view.queryGroups(view.Selected)[i]])
	}
	split := func(x string) []string { // [.., rows, dim]
		return g.Node("", "Split", PiecesOfRows, onnx.Attrs{"axis": 1}, x, cut.rows)
	}
	body := g.Body("sequence", func() {
		q := g.Input(g.Name("q"), onnx.Float, onnx.Dims(-1, kv, rep, dim))
		own := []string{
			g.Input(g.Name("k"), onnx.Float, onnx.Dims(-1, kv, dim)), g.Input(g.Name("v"), onnx.Float, onnx.Dims(-1, kv, dim)),
		}
		rows := g.SizeOf(own[0], 0)
		q = g.Op("Reshape", q, g.Shape(rows, kv*rep, dim))
		qs := split(g.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0, 2}}, q)) // [kv*rep, rows, dim]
		ks := split(g.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0, 2}}, own[0]))
		vs := split(g.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0, 2}}, own[1]))
		if k.before != "" {
			which := g.Input(g.Name("prefix"), onnx.Int64, onnx.Dims())
			ks = slices.Insert(ks, 0, g.Pick(k.before, which, 0))
			vs = slices.Insert(vs, 0, g.Pick(v.before, which, 0))
		}
		ys := make([]string, PiecesOfRows)
		seenK, seenV := "", ""
		for j := range ys {
			n := len(ks) - PiecesOfRows + j + 1 // parts whose keys the piece may see
			seenK, seenV = g.grown(seenK, ks[:n]), g.grown(seenV, vs[:n])
			ys[j] = a.piece(g, qs[j], seenK, seenV, cut.masks[j])
		}
		y := g.OpA("Concat", onnx.Attrs{"axis": 1}, ys...)
		y = g.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0, 2}}, y)
		g.Output(g.Name("y"), g.Op("Reshape", y, g.Shape(rows, kv*rep*dim)), onnx.Float, onnx.Dims(-1, kv*rep*dim))
	})
	y := g.OpA("Scan", onnx.Attrs{"body": body, "num_scan_inputs": len(inputs)}, inputs...)
	return g.Op("Reshape", y, g.Ints(-1, int64(kv*rep*dim)))
}

// grown concatenates what was seen so far and the last of the parts; with nothing so far, all parts.
func (g *Graph) grown(seen string, parts []string) string {
	if seen != "" {
		parts = []string{seen, parts[len(parts)-1]}
	}
	return g.concat(1, parts...)
}

// piece attends from q [kv*rep, rows, dim] to k and v [kv, columns, dim].
func (a *SelfAttention) piece(g *Graph, q, k, v, mask string) string {
	// Reshapes state which sizes are equal: otherwise the backward pass would look for broadcast axes at run time.
	q = g.Op("Reshape", q, g.Ints(int64(a.KVHeads), -1, int64(a.HeadDim)))
	columns := g.SizeOf(k, 1)
	v = g.Op("Reshape", v, g.Shape(a.KVHeads, columns, a.HeadDim))
	scores := g.Op("MatMul", q, g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1}}, k))
	mask = g.Op("Reshape", mask, g.Shape(1, g.SizeOf(q, 1), columns))
	prob := g.OpA("Softmax", onnx.Attrs{"axis": -1}, g.Op("Add", scores, mask))
	return g.Op("Reshape", g.Op("MatMul", prob, v), g.Ints(int64(a.Heads), -1, int64(a.HeadDim)))
}

// evenly returns the sizes [1] of n parts of about rows/n rows each.
func (g *Graph) evenly(rows string, n int) (sizes []any) {
	begin := g.Ints(0)
	for i := range n {
		end := g.Op("Div", g.Op("Mul", rows, g.Ints(int64(i+1))), g.Ints(int64(n)))
		sizes = append(sizes, g.Op("Sub", end, begin))
		begin = end
	}
	return sizes
}
