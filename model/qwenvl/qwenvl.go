// Package qwenvl has the common parts of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: reading the configuration and the image
// processor ([Open]), preparing pictures and the adjoint of that ([Family.Prepare], [Family.PrepareAdjoint]), rotary
// positions, and the blocks and mergers of the vision towers ([Block], [Merger]).
//
// Pictures keep their aspect ratio approximately and are cut into patches, several of which make a token. The vision
// tower's rotary positions are the patches' rows and columns. The language model's rotary positions follow the rows and
// columns of the pictures. The packages of the members embed [Family] and add their own Vision and Parameters.
package qwenvl

import (
	"strings"

	"assay/model/backbone"
	"assay/model/nn"
)

// Family is an opened checkpoint of one of the members, which embed it and add Vision and Parameters.
type Family struct {
	Name   string    // its model_type
	Tower  Tower     // sizes of its vision tower
	Prefix nn.Prefix // of the tower's parts

	decoder nn.Decoder
	keys    nn.Keys
	colours backbone.Colours
	least   int // smaller pictures are enlarged to this number of pixels
	most    int // larger pictures are reduced to this number of pixels
}

// Decoder, Keys and the rest describe the checkpoint to package model.
func (b *Family) Decoder() *nn.Decoder { return &b.decoder }

// HeadSizes returns the head sizes of the decoder and of the tower.
func (b *Family) HeadSizes() []int {
	return []int{b.decoder.HeadDim, b.Tower.Hidden / b.Tower.Heads}
}

// Keys returns the names of the parameters outside the layers.
func (b *Family) Keys() nn.Keys { return b.keys }

// Placeholder represents a picture in prompts.
func (b *Family) Placeholder() string { return "<|image_pad|>" }

// EndOfTurn ends a turn of ChatML.
func (b *Family) EndOfTurn() string { return "<|im_end|>" }

// CanPair accepts two pictures, one joined picture, or the two frames of each temporal patch.
func (b *Family) CanPair(pair string) bool {
	return pair == backbone.Sequence || pair == backbone.Concat || pair == backbone.Frames && b.Tower.Frames == 2
}

// VisionKey reports whether a parameter belongs to the tower or its merger.
func (b *Family) VisionKey(key string) bool { return strings.HasPrefix(key, b.Prefix.Key) }

// Positions returns rotary positions (time, row, column): equal on all three axes for text. A picture that starts at s
// has time s, and s plus the row and the column of each token. The text after it continues at s plus its longer side
// in tokens (get_rope_index).
func (b *Family) Positions(ids []int64, pictures []*backbone.Picture) [][]int64 {
	axes := make([][]int64, 3)
	for a := range axes {
		axes[a] = make([]int64, len(ids))
	}
	next := int64(0)
	for i := 0; i < len(ids); {
		if ids[i] != b.decoder.ImageToken || len(pictures) == 0 {
			for a := range axes {
				axes[a][i] = next
			}
			next, i = next+1, i+1
			continue
		}
		at := pictures[0].Layout.(Grid)
		rows, cols := at.Rows/b.Tower.Merge, at.Cols/b.Tower.Merge
		for k := 0; k < rows*cols && i+k < len(ids); k++ {
			axes[0][i+k], axes[1][i+k], axes[2][i+k] = next, next+int64(k/cols), next+int64(k%cols)
		}
		next, i, pictures = next+int64(max(rows, cols)), i+rows*cols, pictures[1:]
	}
	return axes
}
