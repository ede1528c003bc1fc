package nn

import (
	"fmt"
	"slices"

	"assay/onnx"
)

// Sequences that start with the same tokens and pictures share these rows. The prefix is a separate sequence;
// branches that follow it attend to its rows and to their own, not to each other's. A row is computed from the same
// numbers in the same order as in an unshared sequence, so that its bits are the same:
//   - rows of all sequences go through every product together, like the rows of a batch (docs/decisions/batches.md);
//   - a branch's keys and values are the prefix's followed by its own: as many columns as unshared;
//   - a prefix sees as many columns as its first branches; the columns after it are zero and masked.

// PrefixesOf returns the name of the input for a group's Packing.Prefixes.
func PrefixesOf(group int) string { return fmt.Sprint("group_prefixes_", group) }

// isPrefix reports whether other groups follow a group.
func (p *Packing) isPrefix(group int) bool { return slices.Contains(p.Follows, group) }

// queryGroups returns the groups that have queries: with selected rows, groups of prefixes have none.
func (p *Packing) queryGroups(selected bool) (groups []int) {
	for i := range p.Groups {
		if !selected || !p.isPrefix(i) {
			groups = append(groups, i)
		}
	}
	return groups
}

// before returns the group that precedes a group; -1: none.
func (p *Packing) before(group int) int {
	if p.Follows == nil {
		return -1
	}
	return p.Follows[group]
}

// kv holds the keys or values that the queries of a group attend to, [sequences, kv_heads, columns, dim]. For a group
// in pieces, these are its own rows [sequences, rows, kv_heads, dim] and the prefix rows before them, if any.
type kv struct{ of, before string }

// contexts returns the keys, or values, that the queries of each group attend to: x [1, rows, kv_heads*dim] becomes one
// kv for each group that has queries.
func (a *SelfAttention) contexts(g *Graph, x string, view *View) (out []kv) {
	parts := slices.Clone(view.split(g, view.Groups, x, view.Rows, 1))
	for i, t := range parts { // [1, n*L, kv*d] -> [n, L, kv, d]
		parts[i] = g.Op("Reshape", t, g.Shape(-1, g.element(view.Lengths, i), a.KVHeads, a.HeadDim))
	}
	turned := make([]string, len(parts))
	turn := func(i int) string { // [n, kv, L, d]
		if turned[i] == "" {
			turned[i] = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}}, parts[i])
		}
		return turned[i]
	}
	for _, i := range view.queryGroups(view.Selected) {
		c, before := kv{}, view.before(i)
		switch {
		case view.inPieces(g, i):
			if c.of = parts[i]; before >= 0 {
				c.before = turn(before)
			}
		case before >= 0:
			of := g.OpA("Gather", onnx.Attrs{"axis": 0}, turn(before), view.Prefixes[i])
			c.of = g.OpA("Concat", onnx.Attrs{"axis": 2}, of, turn(i))
		case view.isPrefix(i):
			behind := g.element(view.Lengths, slices.Index(view.Follows, i))
			nothing := g.zeros(g.SizeOf(turn(i), 0), a.KVHeads, behind, a.HeadDim)
			c.of = g.OpA("Concat", onnx.Attrs{"axis": 2}, turn(i), nothing)
		default:
			c.of = turn(i)
		}
		out = append(out, c)
	}
	return out
}

// queriesOf returns the queries of a group if all its rows are queries.
func (v *View) queriesOf(g *Graph, group int) queries {
	q := queries{first: g.Ints(0), rows: g.element(v.Lengths, group)}
	q.length = q.rows
	switch before := v.before(group); {
	case before >= 0:
		q.first = g.element(v.Lengths, before)
		q.length = g.Op("Add", q.first, q.rows)
	case v.isPrefix(group):
		q.length = g.Op("Add", q.rows, g.element(v.Lengths, slices.Index(v.Follows, group)))
	}
	return q
}

// places returns the places, within their sequence with its prefix, of a group's rows and of the columns that they
// attend to, both [n] int64, and the number of rows, [1].
func (v *View) places(g *Graph, group int) (rows, columns, each string) {
	q := v.queriesOf(g, group)
	columns = g.Op("Range", g.Int(0), g.Op("Squeeze", q.length), g.Int(1))
	if q.rows == q.length {
		return columns, columns, q.rows
	}
	first := g.Op("Squeeze", q.first)
	return g.Op("Range", first, g.Op("Add", first, g.Op("Squeeze", q.rows)), g.Int(1)), columns, q.rows
}
