package model

import (
	"encoding/binary"
	"fmt"
	"slices"

	"assay/onnx"
)

// Sequences that begin with the same tokens and pictures share these rows. The prefix is a sequence of its own;
// branches that follow it attend to its rows and to their own, not to each other's. A row is computed from the same
// numbers in the same order as in a sequence that stands alone, so that its bits are the same:
//   - rows of all sequences go through every product together, as those of a batch do (docs/decisions/batches.md);
//   - a branch's keys and values are those of the prefix, then its own: as many columns as alone;
//   - a prefix sees as many columns as its first branches, those behind it being zero and masked.

// prefixesOf is the input of Packing.Prefixes of a group.
func prefixesOf(group int) string { return fmt.Sprint("group_prefixes_", group) }

// leads reports whether other groups follow a group.
func (p *Packing) leads(group int) bool { return slices.Contains(p.Follows, group) }

// asking are the groups that have queries: of selected rows, those of prefixes have none.
func (p *Packing) asking(selected bool) (groups []int) {
	for i := range p.Groups {
		if !selected || !p.leads(i) {
			groups = append(groups, i)
		}
	}
	return groups
}

// before is the group that stands before a group; -1: none.
func (p *Packing) before(group int) int {
	if p.Follows == nil {
		return -1
	}
	return p.Follows[group]
}

// looked is what the queries of a group look at: keys or values, [sequences, kv_heads, columns, dim]. Of a group in
// pieces it is its own rows [sequences, rows, kv_heads, dim], and what stands before them, if anything does.
type looked struct{ of, before string }

// contexts are the keys, or values, that the queries of each group look at: x [1, rows, kv_heads*dim] becomes one
// of them for each group that has queries.
func (a *SelfAttention) contexts(g *Graph, x string, view *View) (out []looked) {
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
	for _, i := range view.asking(view.Selected) {
		c, before := looked{}, view.before(i)
		switch {
		case view.inPieces(g, i):
			if c.of = parts[i]; before >= 0 {
				c.before = turn(before)
			}
		case before >= 0:
			of := g.OpA("Gather", onnx.Attrs{"axis": 0}, turn(before), view.Prefixes[i])
			c.of = g.OpA("Concat", onnx.Attrs{"axis": 2}, of, turn(i))
		case view.leads(i):
			behind := g.element(view.Lengths, slices.Index(view.Follows, i))
			nothing := g.Op("Expand", g.Scalar(onnx.Float, 0), g.Shape(g.SizeOf(turn(i), 0), a.KVHeads, behind, a.HeadDim))
			c.of = g.OpA("Concat", onnx.Attrs{"axis": 2}, turn(i), nothing)
		default:
			c.of = turn(i)
		}
		out = append(out, c)
	}
	return out
}

// queriesOf are the queries of a group if all its rows are.
func (v *View) queriesOf(g *Graph, group int) queries {
	q := queries{first: g.Ints(0), rows: g.element(v.Lengths, group)}
	q.length = q.rows
	switch before := v.before(group); {
	case before >= 0:
		q.first = g.element(v.Lengths, before)
		q.length = g.Op("Add", q.first, q.rows)
	case v.leads(group):
		q.length = g.Op("Add", q.rows, g.element(v.Lengths, slices.Index(v.Follows, group)))
	}
	return q
}

// places are those of a group's rows and of the columns that they look at within their sequence, prefix included, both
// [n] int64, and the number of rows, [1].
func (v *View) places(g *Graph, group int) (rows, columns, each string) {
	q := v.queriesOf(g, group)
	columns = g.Op("Range", g.Int(0), g.Op("Squeeze", q.length), g.Int(1))
	if q.rows == q.length {
		return columns, columns, q.rows
	}
	first := g.Op("Squeeze", q.first)
	return g.Op("Range", first, g.Op("Add", first, g.Op("Squeeze", q.rows)), g.Int(1)), columns, q.rows
}

// contexts are the numbers of columns that the rows of each group look at.
func (p *packed) contexts() []int64 {
	lengths := p.feeds["group_lengths"].Data().([]int64)
	out := slices.Clone(lengths)
	for i := range out {
		if p.follows == nil {
			break
		}
		if before := p.follows[i]; before >= 0 {
			out[i] += lengths[before]
		} else if child := slices.Index(p.follows, i); child >= 0 {
			out[i] += lengths[child]
		}
	}
	return out
}

// family is what samples of a batch begin with.
type family struct {
	cut     int // tokens of the prefix
	members []int
}

// cut is the number of tokens that a sample may share with others: up to the beginning of its last picture, which is
// the edit in most layouts. They are at least two, and have a picture. 0: none. Of a choice it is what all choices have
// in common.
func (o packing) cut(s *Sample, sp *span) int {
	at := s.common
	if n := len(s.Pictures); at == 0 && n > 1 {
		at = s.Tokens.Pictures[n-1]
	}
	if o.loss && o.all {
		at = min(at, sp.scorePos)
	} else {
		at = min(at, sp.first)
	}
	// No product has a single row: see packing.span.
	if at < 2 || sp.length-at < 2 || slices.Contains(s.IDs[:at], o.vocab) {
		return 0
	}
	n := 0
	for i, p := range s.Pictures {
		switch from := s.Tokens.Pictures[i]; {
		case from+p.Tokens <= at:
			n++
		case from < at: // a picture is in the prefix, or it is not
			return 0
		}
	}
	if n == 0 {
		return 0
	}
	return at
}

// beginning is the same for samples that begin with the same tokens and pictures.
func (s *Sample) beginning(cut int) string {
	key := make([]byte, 0, 8*cut+64)
	for _, id := range s.IDs[:cut] {
		key = binary.LittleEndian.AppendUint64(key, uint64(id))
	}
	for i, p := range s.Pictures {
		if s.Tokens.Pictures[i] < cut {
			key = append(key, p.key[:]...)
		}
	}
	return string(key)
}

// families finds samples that begin alike, at least least of each kind: of one length when it is rounded up to a
// multiple of near, unless that is 0. They come in the order of their first samples.
func (o packing) families(spans []span, samples []*Sample, least, near int) (out []*family) {
	type kind struct {
		beginning        string
		length, selected int
	}
	at := map[kind]*family{}
	for i, s := range samples {
		cut := o.cut(s, &spans[i])
		if cut == 0 {
			continue
		}
		k := kind{beginning: s.beginning(cut)}
		if near > 0 {
			k.length, k.selected = limits{near: near}.rounded(spans[i].length), spans[i].selected
		}
		if at[k] == nil {
			at[k] = &family{cut: cut}
			out = append(out, at[k])
		}
		at[k].members = append(at[k].members, i)
	}
	return slices.DeleteFunc(out, func(f *family) bool { return len(f.members) < least })
}

// branch takes what several samples begin with out of their spans, and makes spans of it.
func (o packing) branch(spans []span, samples []*Sample) []span {
	if o.share == 0 {
		return spans
	}
	families := o.families(spans, samples, o.share, 0)
	if o.even && !uniform(families, len(samples)) {
		return spans
	}
	slices.SortStableFunc(families, func(a, b *family) int { return a.cut - b.cut })
	all := o.loss && o.all
	for k, f := range families {
		prefix := span{length: f.cut, index: f.members[0], leads: true}
		for _, i := range f.members {
			s := &spans[i]
			s.from, s.prefix = f.cut, k+1
			if all {
				s.first, s.selected, s.predicted = f.cut, s.selected-f.cut, s.predicted-f.cut
			}
		}
		if all {
			prefix.selected, prefix.predicted = f.cut, f.cut
		}
		spans = append(spans, prefix)
	}
	return spans
}

// uniform says whether prefixes of one length stand before all of n samples: any others would make one more graph.
func uniform(families []*family, n int) bool {
	for _, f := range families {
		n -= len(f.members)
		if f.cut != families[0].cut {
			return false
		}
	}
	return n == 0
}

// pictures are those of a span of a sample.
func (s *span) pictures(of *Sample) (out []*Picture) {
	for i, p := range of.Pictures {
		if at := of.Tokens.Pictures[i]; at >= s.from && at < s.length {
			out = append(out, p)
		}
	}
	return out
}

// alike reports whether two spans can be in one group of a graph.
func (s *span) alike(t *span) bool {
	return s.leads == t.leads && s.from == t.from && s.filled == t.filled && s.selected == t.selected
}

// prefixPlace is where a prefix stands: which group, and which sequence of it.
type prefixPlace struct{ group, sequence int }

// leading are the places of the prefixes, which stand first.
func (o packing) leading(spans []span) (out []prefixPlace) {
	for i := range spans {
		at := prefixPlace{}
		switch {
		case !spans[i].leads:
			return out
		case i == 0:
		case !spans[i].alike(&spans[i-1]):
			at.group = out[i-1].group + 1
		default:
			at = prefixPlace{out[i-1].group, out[i-1].sequence + 1}
		}
		out = append(out, at)
	}
	return out
}
