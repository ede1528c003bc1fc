package llavanext

import (
	"fmt"

	"assay/data"
	"assay/model/backbone"
)

// PrepareAdjoint is the adjoint of Prepare: the gradient of a picture is the sum of the gradients from the squashed
// tile and from the grid of tiles.
func (b *Architecture) PrepareAdjoint(p *backbone.Picture, frames int, grad []float32) ([]*data.Gradient, error) {
	gridH, gridW := b.bestResolution(p.Height, p.Width)
	tilesW := gridW / b.crop
	size := 3 * b.crop * b.crop
	if frames != 1 || len(grad) != (1+gridH/b.crop*tilesW)*size {
		return nil, fmt.Errorf("llava_next: a gradient of %d values and %d frames does not belong to a picture of %dx%d",
			len(grad), frames, p.Width, p.Height)
	}
	tile := func(i int) *data.Gradient {
		s := data.NewGradient(b.crop, b.crop)
		s.Normalize(grad[i*size:(i+1)*size], b.colours.Std)
		return s
	}
	h, w := fit(p.Height, p.Width, gridH, gridW)
	fitted := data.NewGradient(w, h)
	for i := range gridH / b.crop * tilesW {
		// tile x, y is at (x S - left padding, y S - top padding) of the fitted picture
		fitted.Paste(tile(1+i), i%tilesW*b.crop-(gridW-w)/2, i/tilesW*b.crop-(gridH-h)/2)
	}
	out := tile(0).Resize(p.Width, p.Height, data.Bicubic)
	out.Add(fitted.Resize(p.Width, p.Height, data.Bicubic))
	return []*data.Gradient{out}, nil
}
