package exec

import (
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
)

// Variant returns the variant that attends to the long sequences of a batch in blocks, and also to its long pictures if
// the tower is in the graph. Its groups follow each other as in the batch.
func (n *Network) Variant(p *batch.Inputs, vision bool) nn.Variant {
	chunks := p.Step && n.InChunks(p.AllTargets(), n.Packer.All)
	if n.Plan.Kernels == nn.Fused { // one graph for all
		return nn.Variant{Chunks: chunks}
	}
	var groups []bool
	for _, length := range p.Contexts() {
		groups = append(groups, length >= int64(n.BlocksFrom(p.Step)))
	}
	v := nn.NewVariant(p.Follows, groups, n.inPieces(p), vision && n.longPictures(p.Pictures))
	v.Chunks = chunks
	return v
}

// InChunks reports whether a loss over the vocabulary is computed in chunks of its targets: if there are more targets
// than rows of a chunk. If a second graph would need its own weights, all batches use chunks if they may have many.
func (n *Network) InChunks(targets int, many bool) bool {
	if n.Plan.LossRows > 0 {
		return targets > n.Plan.LossRows
	}
	rows := nn.ChunkRows(n.Backbone.Decoder().Vocab)
	if n.OneGraph() {
		return many && rows < MaxTokens
	}
	return targets > rows
}

// BlocksFrom is the number of rows from which a sequence is attended to in blocks. If a second graph would need
// its own weights, there are no more kinds of graphs than needed.
func (n *Network) BlocksFrom(step bool) int {
	if n.Plan.Blocks > 0 || step || n.Plan.Small || n.OneGraph() {
		return n.Plan.Blocks.From()
	}
	return nn.ScoresInBlocksFrom
}

// longPictures reports whether the tower attends to pictures in blocks.
func (n *Network) longPictures(pictures []*backbone.Picture) bool {
	if n.Plan.Kernels == nn.Fused {
		return false
	}
	for _, p := range pictures {
		if p.Seen >= n.Plan.Blocks.From() {
			return true
		}
	}
	return false
}

// inPieces returns which groups of a batch attend in pieces.
func (n *Network) inPieces(p *batch.Inputs) (groups []bool) {
	from, least := int64(nn.PiecesFrom), int64(nn.MinPieceRows)
	if n.Plan.Pieces > 0 {
		from, least = int64(n.Plan.Pieces), nn.PiecesOfRows
	}
	if !p.Step || n.Plan.Blocks != 0 && n.Plan.Pieces == 0 || n.OnCUDA() { // many small products: see even
		return nil
	}
	own := p.Feeds["group_lengths"].Data().([]int64)
	for i, columns := range p.Contexts() {
		groups = append(groups, own[i] >= least && columns >= from && columns < nn.BlocksFrom)
	}
	return groups
}

// MaxTokens is the maximum number of tokens in a batch with `micro_batch: auto`: larger products do not gain anything,
// even on a GPU.
const MaxTokens = 32 << 10
