package model

import (
	"fmt"
	"math"

	"assay/data"
	"assay/model/backbone"
)

// Ways of showing a source and its edit to the backbone.
const (
	Sequence = backbone.Sequence
	Concat   = backbone.Concat
	Frames   = backbone.Frames
)

// Join arranges a source and an edit as pictures for the backbone, each a list of frames. Both are first resized to
// size, [height, width], whatever pair is; nil: they are not. (Resizing is Pillow's bicubic throughout.)
func Join(pair string, size []int, source, edit *data.Picture) ([][]*data.Picture, error) {
	for what, p := range map[string]*data.Picture{"source": source, "edit": edit} {
		if err := p.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	if len(size) == 2 {
		source, edit = source.Resize(size[1], size[0], data.Bicubic), edit.Resize(size[1], size[0], data.Bicubic)
	}
	switch pair {
	case Sequence:
		return [][]*data.Picture{{source}, {edit}}, nil
	case Frames:
		return [][]*data.Picture{{source, edit.Resize(source.Width, source.Height, data.Bicubic)}}, nil
	case Concat:
		if edit.Height != source.Height {
			w := math.RoundToEven(float64(edit.Width*source.Height) / float64(edit.Height))
			edit = edit.Resize(max(1, int(w)), source.Height, data.Bicubic)
		}
		return [][]*data.Picture{{data.SideBySide(source, edit)}}, nil
	}
	return nil, fmt.Errorf("unknown pair %q; use sequence, concat or frames", pair)
}
