package qwenvl

import (
	"fmt"

	"assay/data"
	"assay/model/backbone"
)

// PrepareAdjoint is the adjoint of Prepare: patches to pictures, normalisation, resizing. One picture that filled all
// frames gets the sum of their gradients.
func (b *Family) PrepareAdjoint(p *backbone.Picture, frames int, grad []float32) ([]*data.Gradient, error) {
	v := b.Tower
	at, ok := p.Layout.(Grid)
	if !ok || frames != 1 && frames != v.Frames || len(grad) != at.Rows*at.Cols*v.Values() {
		return nil, fmt.Errorf("%s: a gradient of %d values and %d frames does not belong to a picture of %dx%d",
			b.Name, len(grad), frames, p.Width, p.Height)
	}
	out := make([]*data.Gradient, frames)
	plane := make([]float32, len(grad)/v.Frames) // [3, H, W]
	for f := range v.Frames {
		b.unpatchify(plane, grad, at, f)
		s := data.NewGradient(at.Cols*v.Patch, at.Rows*v.Patch)
		s.Normalize(plane, b.colours.Std)
		if s = s.Resize(p.Width, p.Height, data.Bicubic); f < frames {
			out[f] = s
		} else {
			out[0].Add(s)
		}
	}
	return out, nil
}

// unpatchify copies frame f of every patch into a picture [3, H, W].
func (b *Family) unpatchify(picture, from []float32, at Grid, f int) {
	b.eachRow(at, f, func(patch, to, p int) { copy(picture[to:to+p], from[patch:patch+p]) })
}
