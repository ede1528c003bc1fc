package model

import "assay/model/nn"

// variant attends to the long sequences of a batch in blocks, and so to its long pictures where the tower is in the
// graph. Its groups follow others as those of the batch do.
func (n *network) variant(p *packed, vision bool) nn.Variant {
	var groups []bool
	for _, length := range p.contexts() {
		groups = append(groups, length >= int64(n.blocksFrom(p.step)))
	}
	return nn.NewVariant(p.follows, groups, n.inPieces(p), vision && n.longPictures(p.pictures))
}

// blocksFrom is the number of rows from which a sequence is attended to in blocks. Where a second graph has weights of
// its own, there are no more kinds of graphs than needed.
func (n *network) blocksFrom(step bool) int {
	if n.plan.blocks > 0 || step || n.plan.small || n.oneGraph() {
		return n.plan.blocks.From()
	}
	return nn.ScoresInBlocksFrom
}

// longPictures reports whether the tower attends to pictures in blocks.
func (n *network) longPictures(pictures []*Picture) bool {
	for _, p := range pictures {
		if p.Seen >= n.plan.blocks.From() {
			return true
		}
	}
	return false
}

// inPieces says which groups of a batch attend in pieces.
func (n *network) inPieces(p *packed) (groups []bool) {
	from, least := int64(nn.PiecesFrom), int64(nn.LeastPieceRows)
	if n.plan.pieces > 0 {
		from, least = int64(n.plan.pieces), nn.PiecesOfRows
	}
	if !p.step || n.plan.blocks != 0 && n.plan.pieces == 0 || n.onCUDA() { // many small products: see even
		return nil
	}
	own := p.feeds["group_lengths"].Data().([]int64)
	for i, columns := range p.contexts() {
		groups = append(groups, own[i] >= least && columns >= from && columns < nn.BlocksFrom)
	}
	return groups
}
