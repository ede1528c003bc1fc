package nn

import (
	"fmt"
	"slices"
)

// Variant describes how the attention of a graph is laid out for a batch.
type Variant struct {
	Follows  []int  // of the groups of a batch: see Packing
	Blocks   []bool // which of them are attended to in blocks
	Pieces   []bool // which of them are attended to in pieces
	Chunks   bool   // a loss over the vocabulary is computed in chunks of rows: see chunks.go
	Pictures bool   // full pictures in the tower are attended to in blocks
}

// NewVariant returns the variant of a batch, omitting lists in which nothing is true.
func NewVariant(follows []int, blocks, pieces []bool, pictures bool) Variant {
	v := Variant{Follows: follows, Pictures: pictures}
	if pictures || slices.Contains(blocks, true) {
		v.Blocks = blocks
	}
	if slices.Contains(pieces, true) {
		v.Pieces = pieces
	}
	return v
}

// Name returns the name of the variant of a graph.
func (v *Variant) Name(graph string) string {
	if v.Follows != nil {
		graph = fmt.Sprintf("%s, groups behind %v", graph, v.Follows)
	}
	if v.Pieces != nil {
		graph = fmt.Sprintf("%s, in pieces: %v", graph, v.Pieces)
	}
	if v.Blocks != nil || v.Pictures {
		graph = fmt.Sprintf("%s, in blocks: %v, %v", graph, v.Blocks, v.Pictures)
	}
	if v.Chunks {
		graph += ", loss in chunks"
	}
	return graph
}

// inBlocks reports whether a group of a view is attended to in blocks. If few rows are queries, there is no need.
func (v *View) inBlocks(g *Graph, group int) bool {
	return !v.Selected && v.Segments == "" && isTrue(g.Variant.Blocks, group)
}

// inPieces reports whether a group of a view is attended to in pieces.
func (v *View) inPieces(g *Graph, group int) bool {
	return !v.Selected && v.Segments == "" && isTrue(g.Variant.Pieces, group)
}

func isTrue(v []bool, i int) bool { return i < len(v) && v[i] }
