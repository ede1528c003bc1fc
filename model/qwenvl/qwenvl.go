// Package qwenvl is what Qwen2-VL, Qwen2.5-VL and Qwen3-VL have in common. Pictures keep their shape and are cut into
// patches, several of which make a token. The vision tower's rotary positions are the patches' rows and columns. The
// language model's rotary positions follow the rows and columns of the pictures.
package qwenvl

import (
	"strings"

	"assay/model/backbone"
	"assay/model/nn"
)

// Family is an opened checkpoint of one of its members, which embed it and add Vision and Parameters.
type Family struct {
	Name   string    // its model_type
	Tower  Tower     // the sizes of its vision tower
	Prefix nn.Prefix // of the tower's parts

	decoder nn.Decoder
	keys    nn.Keys
	colours backbone.Colours
	least   int // pixels that a picture is enlarged to
	most    int // pixels that a picture is reduced to
}

// Decoder, Keys and the rest describe the checkpoint to package model.
func (b *Family) Decoder() *nn.Decoder { return &b.decoder }

// HeadSizes are those of the decoder and of the tower.
func (b *Family) HeadSizes() []int {
	return []int{b.decoder.HeadDim, b.Tower.Hidden / b.Tower.Heads}
}

// Keys names the parameters outside the layers.
func (b *Family) Keys() nn.Keys { return b.keys }

// Placeholder stands for a picture in prompts.
func (b *Family) Placeholder() string { return "<|image_pad|>" }

// EndOfTurn closes a turn of ChatML.
func (b *Family) EndOfTurn() string { return "<|im_end|>" }

// CanPair: two pictures, one joined, or the two frames of each temporal patch.
func (b *Family) CanPair(pair string) bool {
	return pair == backbone.Sequence || pair == backbone.Concat || pair == backbone.Frames && b.Tower.Frames == 2
}

// VisionKey reports whether a parameter belongs to the tower or its merger.
func (b *Family) VisionKey(key string) bool { return strings.HasPrefix(key, b.Prefix.Key) }

// Positions follow text on all three axes alike. A picture that begins at s has time s, and s plus row and column of
// each token. What follows it goes on behind the longer side (get_rope_index).
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
