package nn

import (
	"fmt"

	"assay/onnx"
)

// Packing describes the rows of a packed batch to the decoder: no padding is ever multiplied. The sequences of a batch
// follow one another, sorted into groups. All sequences of a group have the same length and the same number of
// selected rows, so that attention runs group by group as [sequences, heads, rows, columns].
type Packing struct {
	Groups      int
	Rows        string // [groups] int64: rows of each group, sequences times length
	Lengths     string // [groups] int64: length of each sequence of the group
	Select      string // [selected] int64, ascending: rows that the last layer must return; "": all
	SelectRows  string // [groups without prefixes] int64: selected rows of each group
	SelectEach  string // [groups without prefixes] int64: selected rows of each sequence of the group
	SelectPlace string // [selected] int64: place of each selected row within its sequence
	Segments    string // [rows] int64: rows attend only to their own segment and segment 0; "": to all rows before them

	// Follows holds for each group the group whose sequences precede its own, -1: none; nil: no group has one.
	// Sequences that others follow (prefixes) have selected rows only if all rows are selected: see prefix.go.
	Follows  []int
	Prefixes []string // per group that follows another: [sequences] int64, which sequence of that group

	// With fused kernels, instead of groups: see InSegments.
	AllSegments, SelectSegments string

	Deepstack []string // [rows, hidden] each: entry k is added after layer k; see Graph.Embed
	Cached    *cached  // not nil: keys and values enter a cache, and there are no groups
}

const inLengths, inSelectEach, inOffsets = "group_lengths", "group_select_each", "dropout_offsets"

// NewPacking declares the inputs of the given number of groups, or of the groups of the graph's variant.
func NewPacking(g *Graph, groups int, selected bool) *Packing {
	if g.Kernels == Fused {
		p := &Packing{AllSegments: g.Segments(InSegments)}
		if selected {
			p.Select = g.Input("select", onnx.Int64, onnx.Dims("selected"))
			p.SelectSegments = g.Segments(InSelectSegments)
		}
		return p
	}
	follows := g.Variant.Follows
	if follows != nil {
		groups = len(follows)
	}
	ints := func(name, dim string) string { return g.Input(name, onnx.Int64, onnx.Dims(dim)) }
	vec := func(name string, n int) string { return g.Input(name, onnx.Int64, onnx.Dims(n)) }
	p := &Packing{Groups: groups, Rows: vec("group_rows", groups), Lengths: vec(inLengths, groups), Follows: follows}
	if selected {
		n := len(p.queryGroups(true))
		p.Select, p.SelectPlace = ints("select", "selected"), ints("select_place", "selected")
		p.SelectRows, p.SelectEach = vec("group_select_rows", n), vec(inSelectEach, n)
	}
	for i, of := range follows {
		name := ""
		if of >= 0 {
			name = ints(PrefixesOf(i), fmt.Sprint("sequences_", i))
		}
		p.Prefixes = append(p.Prefixes, name)
	}
	return p
}

// split cuts a value along an axis into one part for each of n groups, by the groups' numbers of rows.
func (p *Packing) split(g *Graph, n int, x, rows string, axis int) []string {
	if n == 1 {
		return []string{x}
	}
	return g.Node("", "Split", n, onnx.Attrs{"axis": axis}, x, rows)
}

// element returns entry i of an int64 vector as a vector of one element.
func (g *Graph) element(v string, i int) string {
	return g.Op("Slice", v, g.Ints(int64(i)), g.Ints(int64(i+1)))
}
