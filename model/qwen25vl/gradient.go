package qwen25vl

import (
	"fmt"

	"assay/data"
	"assay/model"
)

// PrepareAdjoint goes back through Prepare: patches to pictures, normalisation, resizing. One picture that filled all
// frames gets the sum of their gradients.
func (b *Architecture) PrepareAdjoint(p *model.Picture, frames int, grad []float32) ([]*data.Gradient, error) {
	v := b.vision
	at, ok := p.Layout.(grid)
	if !ok || frames != 1 && frames != v.Frames || len(grad) != at.rows*at.cols*3*v.Frames*v.Patch*v.Patch {
		return nil, fmt.Errorf("qwen2_5_vl: a gradient of %d values and %d frames does not belong to a picture of %dx%d",
			len(grad), frames, p.Width, p.Height)
	}
	out := make([]*data.Gradient, frames)
	plane := make([]float32, len(grad)/v.Frames) // [3, H, W]
	for f := range v.Frames {
		b.unpatchify(plane, grad, at, f)
		s := data.NewGradient(at.cols*v.Patch, at.rows*v.Patch)
		s.Normalize(plane, b.colours.Std)
		if s = s.Resize(p.Width, p.Height, data.Bicubic); f < frames {
			out[f] = s
		} else {
			out[0].Add(s)
		}
	}
	return out, nil
}

// unpatchify reads frame f of every patch into a picture [3, H, W].
func (b *Architecture) unpatchify(picture, from []float32, at grid, f int) {
	v := b.vision
	p, width := v.Patch, at.cols*v.Patch
	plane := at.rows * p * width
	b.eachPatch(at, func(i, row, col int) {
		for c := range 3 {
			patch := from[((i*3+c)*v.Frames+f)*p*p:]
			for y := range p {
				copy(picture[c*plane+(row*p+y)*width+col*p:], patch[y*p:(y+1)*p])
			}
		}
	})
}
