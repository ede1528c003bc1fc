package model

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/workers"
	"assay/model/batch"
	"assay/model/nn"
)

// sequence is one pass of one sample, to be differentiated.
type sequence struct {
	*batch.Sample
	dimensions []float32 // d score / d dimension, heads sorted by name; then by sigma ([ScorerConfig.bounded])
	joint      bool      // one of several joint choices
	weight     float32   // of a joint choice: d score / d (-log softmax) of each of its tokens
	reading    Reading
	gradient   []float32 // d score / d pixel_values, picture by picture
}

// differentiate returns the samples' scores as [Scorer.fused] returns them, and the passes of every sample with their
// gradients. Generated answers are treated as constants.
func (s *Scorer) differentiate(ctx context.Context, samples []*batch.Sample) ([]edit.Score, [][]*sequence, error) {
	if err := s.config.hasScore(); err != nil {
		return nil, nil, err
	}
	n := max(1, len(s.config.Members))
	samples = s.ofMembers(samples)
	each, all := make([][]*sequence, len(samples)), []*sequence(nil)
	gradients, err := s.scoreGradients(ctx, samples)
	if err != nil {
		return nil, nil, err
	}
	names, bounded := s.config.heads(), s.config.bounded()
	var joint []*sequence
	for i, sample := range samples {
		for k, one := range sample.Sequences() {
			if one.Pictures[0].Pixels == nil {
				return nil, nil, fmt.Errorf("the sample has no pixels: prepare it with Ask.Pixels")
			}
			if one.Choices != nil {
				choices := s.jointSequences(one, gradients[i].readings[k], gradients[i].of.gradient)
				each[i], joint = append(each[i], choices...), append(joint, choices...)
				continue
			}
			q, of := &sequence{Sample: gradients[i].at[k]}, gradients[i].of
			q.dimensions = make([]float32, len(names)+len(bounded))
			for _, own := range s.config.Passes[one.Pass].Heads {
				if h := slices.Index(names, own); h >= 0 {
					q.dimensions[h] = float32(of.gradient[own] / float64(n))
				}
				if h := slices.Index(bounded, own); h >= 0 {
					q.dimensions[len(names)+h] = float32(of.sigmas[own])
				}
			}
			each[i], all = append(each[i], q), append(all, q)
		}
	}
	if err := s.plainGradients(ctx, all); err != nil {
		return nil, nil, err
	}
	if err := s.jointGradients(ctx, joint); err != nil {
		return nil, nil, err
	}
	scores := make([]edit.Score, len(samples))
	for i, sequences := range each {
		var readings []Reading
		for _, q := range sequences {
			readings = append(readings, q.reading)
		}
		if scores[i], _, err = s.fused(readings); err != nil {
			return nil, nil, err
		}
	}
	out, of := make([]edit.Score, len(samples)/n), make([][]*sequence, len(samples)/n)
	for i := range out {
		out[i], of[i] = s.together(scores[i*n:(i+1)*n]), slices.Concat(each[i*n:(i+1)*n]...)
	}
	return out, of, nil
}

// plainGradients runs sequences whose state is read once forward and backward.
func (s *Scorer) plainGradients(ctx context.Context, all []*sequence) error {
	if len(all) == 0 {
		return nil
	}
	samples := make([]*batch.Sample, len(all))
	for i, q := range all {
		samples[i] = q.Sample
	}
	batches := s.gradientBatches(samples)
	return workers.Each(len(batches), s.net.Plan.Limits.Parallel, func(k int) error {
		return s.sequenceGradients(ctx, batch.Pick(all, batches[k]))
	})
}

// scoreGradient is the gradient of a sample's score by its dimensions, and the sample's sequences with their generated
// answers.
type scoreGradient struct {
	of       fusionValue
	at       []*batch.Sample
	readings []Reading // nil if none were needed
}

// scoreGradients returns every sample's [scoreGradient], without a forward pass if it is constant.
func (s *Scorer) scoreGradients(ctx context.Context, samples []*batch.Sample) ([]scoreGradient, error) {
	out := make([]scoreGradient, len(samples))
	said := slices.ContainsFunc(s.config.Passes, func(q PassConfig) bool {
		return q.Steps > 0 || s.config.joint(&q) != nil
	})
	var readings [][]Reading
	score := s.config.Score
	linear := fusions[score.Fusion].linear && (score.LowerBound == 0 || len(score.Of) == 1)
	if said || !linear {
		var err error
		if readings, err = s.readAll(ctx, samples, false); err != nil {
			return nil, err
		}
	}
	for i, sample := range samples {
		out[i].at = sample.Sequences()
		if readings == nil {
			var err error
			if out[i].of, err = s.config.fuse(map[string]float64{}, map[string]float64{}); err != nil {
				return nil, err
			}
			continue
		}
		var err error
		out[i].readings = readings[i]
		if _, out[i].of, err = s.fused(readings[i]); err != nil {
			return nil, err
		}
		for k, one := range out[i].at {
			if s.config.Passes[one.Pass].Steps > 0 {
				r := readings[i][k]
				out[i].at[k] = one.Saying(r.Said[:r.At-one.ScoreIndex])
			}
		}
	}
	return out, nil
}

// sequenceGradients runs sequences of one length forward and backward.
func (s *Scorer) sequenceGradients(ctx context.Context, part []*sequence) error {
	samples := make([]*batch.Sample, len(part))
	for i, q := range part {
		samples[i] = q.Sample
	}
	p, err := s.net.Packer.Pack(samples, s.net.Positions)
	if err != nil {
		return err
	}
	ses, err := s.run.Sessions.Session(s.forwardGraph(forwardSpec{Pixels: true}).With(s.net.Variant(p, true)))
	if err != nil {
		return err
	}
	vision, done, err := s.run.Sessions.PixelFeeds(p.Pictures)
	if err != nil {
		return err
	}
	defer done()
	width := len(s.config.heads()) + len(s.config.bounded())
	gradient := make([]float32, 0, width*len(part))
	for _, i := range p.Order {
		gradient = append(gradient, part[i].dimensions...)
	}
	of := tensor.New(tensor.WithShape(len(part), width), tensor.WithBacking(gradient))
	out, err := s.run.Sessions.Run(ctx, ses, p.Feeds, vision, map[string]*tensor.Dense{inGradient: of})
	if err != nil {
		return err
	}
	takeGradients(part, p.Order, out[ses.Grads[nn.InPixels]].Data().([]float32))
	for place, i := range p.Order {
		if part[i].reading, err = s.reading(part[i].Sample, place, out); err != nil {
			return err
		}
	}
	return nil
}
