package model

import (
	"context"
	"fmt"
	"math"

	"assay/data"
)

// PrepareAdjoint is what a [Backbone] has besides if gradients can reach the given pictures: the transpose of the linear map
// behind Prepare (resizing, tiling or patching, normalisation). From grad, in the layout of p.Pixels, it returns the
// slope of each of the frames that p was prepared from.
type PrepareAdjoint interface {
	PrepareAdjoint(p *Picture, frames int, grad []float32) ([]*data.Slope, error)
}

// Slopes are the derivatives of score01 with respect to the pixels of the two pictures as they were given, before any
// resizing: per 8-bit level.
type Slopes struct {
	Score01      float64
	Source, Edit *data.Slope
}

// Slopes differentiates the score of a pair: through head, language model, vision tower, normalisation, tiles or patches and
// resizing, down to the given pixels. Rounding to 8 bits between these counts as the identity.
func (s *Scorer) Slopes(ctx context.Context, p Pair) (*Slopes, error) {
	adjoint, ok := s.backbone.Backbone.(PrepareAdjoint)
	if !ok {
		return nil, fmt.Errorf("the backbone %s has no gradient with respect to given pictures", s.config.Backbone)
	}
	if p.Load != nil {
		var err error
		if p.Source, p.Edit, err = p.Load(); err != nil {
			return nil, err
		}
		p.Load = nil
	}
	p.Pixels = true
	sample, err := s.Prepare(p)
	if err != nil {
		return nil, err
	}
	score, gradient, err := s.PixelGradient(ctx, sample)
	if err != nil {
		return nil, err
	}
	values := gradient.Data().([]float32)
	var joined []*data.Slope
	frames := 1
	if s.config.Pair == Frames {
		frames = 2
	}
	for _, q := range sample.Pictures {
		n := len(q.Pixels)
		back, err := adjoint.PrepareAdjoint(q, frames, values[:n])
		if err != nil {
			return nil, err
		}
		joined, values = append(joined, back...), values[n:]
	}
	out := &Slopes{Score01: score}
	out.Source, out.Edit = joinAdjoint(s.config.Pair, s.config.PairSize, p.Source, p.Edit, joined)
	for _, v := range out.Edit.Values {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("the gradient is %g: the scorer's or the backbone's weights are damaged", f)
		}
	}
	return out, nil
}

// joinAdjoint goes back through [Join]: from the slopes of what it made, frame by frame, to those of source and edit.
func joinAdjoint(pair string, size []int, source, edit *data.Picture, joined []*data.Slope) (*data.Slope, *data.Slope) {
	var a, b *data.Slope
	if pair == Concat {
		width, height := source.Width, joined[0].Height
		if len(size) == 2 {
			width = size[1]
		}
		a = joined[0].Crop(0, 0, width, height)
		b = joined[0].Crop(width, 0, joined[0].Width-width, height)
	} else {
		a, b = joined[0], joined[1]
	}
	return a.Resize(source.Width, source.Height, data.Bicubic), b.Resize(edit.Width, edit.Height, data.Bicubic)
}
