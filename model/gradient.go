package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"assay/data"
	"assay/edit"
	"assay/internal/workers"
	"assay/model/backbone"
	"assay/model/batch"
)

// checkGradient refuses gradients that are not finite.
func checkGradient(g *data.Gradient) error {
	for _, v := range g.Values {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("the gradient is %g: the scorer's or the backbone's weights are damaged", f)
		}
	}
	return nil
}

// Gradients differentiates the scores of edits: through head, language model, vision tower, normalisation, tiles or
// patches and resizing, down to the given pixels. Rounding to 8 bits in between counts as the identity. Edits of
// equal shape share passes. Neither a score nor a gradient depends on the other edits, as in [Scorer.Score].
func (s *Scorer) Gradients(ctx context.Context, edits []*edit.Edit) ([]*edit.Gradient, error) {
	adjoint, ok := s.net.Backbone.Architecture.(backbone.PrepareAdjoint)
	if !ok {
		return nil, fmt.Errorf("the backbone %s does not support gradients with respect to pictures", s.config.Backbone)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	samples, pictures := make([]*batch.Sample, len(edits)), make([]shownPictures, len(edits))
	err := workers.Each(len(edits), s.net.Plan.Limits.Parallel, func(i int) (err error) {
		if err = s.prepare.check(edits[i], Ask{}); err != nil {
			return err
		}
		if pictures[i], err = s.config.decode(edits[i]); err != nil {
			return err
		}
		decoded := func() (shownPictures, error) { return pictures[i], nil }
		samples[i], err = s.prepare.sample(edits[i], Ask{Pixels: true}, decoded)
		return err
	})
	if err != nil {
		return nil, err
	}
	scores, each, err := s.differentiate(ctx, samples)
	if err == nil {
		err = s.net.Backbone.Weights.Overwritten()
	}
	if err != nil {
		return nil, err
	}
	out := make([]*edit.Gradient, len(edits))
	return out, workers.Each(len(edits), s.net.Plan.Limits.Parallel, func(i int) error {
		g := &edit.Gradient{Score: s.report(scores[i]), Sources: make([]*data.Gradient, len(pictures[i].sources))}
		for _, q := range each[i] {
			pass := &s.config.Passes[q.Pass]
			shown, err := s.backThroughPictures(adjoint, q.Sample, q.gradient, pass.Pictures[0] == Frames)
			if err != nil {
				return err
			}
			s.config.showAdjoint(pass, pictures[i], shown, g)
		}
		_, by := s.calibrated(scores[i].Value)
		for _, part := range append(slices.Clone(g.Sources), g.Output) {
			if by != 1 {
				scaleBy(part.Values, by)
			}
		}
		out[i] = g
		return checkGradient(g.Output)
	})
}

// gradientBatches groups sample indices into passes. A pass has samples of one length, whose pictures have the same
// layouts, within the limits of a forward pass of the language model and of the vision tower.
func (s *Scorer) gradientBatches(samples []*batch.Sample) [][]int {
	type shape struct {
		length  int
		layouts any // [2]any: the layouts of the pictures before, and the last picture's
	}
	pk := s.net.Packer
	return batch.BatchesBy(len(samples), func(i int) (shape, int) {
		k, values := shape{length: pk.Span(samples[i], i).Length}, 0
		for _, p := range samples[i].Pictures {
			k.layouts, values = [2]any{k.layouts, p.Layout}, values+len(p.Pixels)
		}
		if !s.net.Backbone.Decoder().Aligned(k.length) {
			return k, 1
		}
		return k, min(s.net.Plan.Limits.Rows/k.length, s.net.Plan.Limits.Pixels/max(values, 1))
	})
}

// backThroughPictures takes the gradient of a sample's pixel_values back to its pictures, frame by frame.
func (s *Scorer) backThroughPictures(
	adjoint backbone.PrepareAdjoint, sample *batch.Sample, values []float32, bothFrames bool,
) (joined []*data.Gradient, err error) {
	frames := 1
	if bothFrames {
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
	return joined, nil
}

// joinAdjoint backpropagates through [Join]: from the gradients of its results, frame by frame, to those of source and
// edit.
func joinAdjoint(
	pair string, size []int, source, edit *data.Picture, joined []*data.Gradient,
) (*data.Gradient, *data.Gradient) {
	var a, b *data.Gradient
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
