package model

import (
	"context"
	"fmt"
	"math"

	"gorgonia.org/tensor"
)

// Scorer is an opened scorer directory. Its methods are safe for concurrent use.
type Scorer struct{ *pipeline }

// OpenScorer reads a scorer directory and its backbone. Graphs are built when they are first needed. Close frees
// everything.
func OpenScorer(dir string, o Options) (*Scorer, error) {
	p, err := LoadScorerState(dir)
	if err != nil {
		return nil, err
	}
	s, err := NewScorer(p, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return s, nil
}

// NewScorer opens a scorer that has been read or made.
func NewScorer(p *ScorerState, o Options) (*Scorer, error) {
	e, err := openPipeline(p, trainNothing, o)
	if err != nil {
		return nil, err
	}
	return &Scorer{e}, nil
}

// Config returns scorer.yaml as read.
func (s *Scorer) Config() ScorerConfig { return *s.config }

// Score returns score01 of every sample: one deterministic forward pass each, 0..1 and not clipped.
// [ScorerConfig.Range] maps it to what is reported.
func (s *Scorer) Score(ctx context.Context, samples []*Sample) ([]float64, error) {
	judgements, err := s.Judge(ctx, samples)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(judgements))
	for i, j := range judgements {
		scores[i] = j.Score01
	}
	return scores, nil
}

// Hidden returns the state at the score token [hidden] of every sample: what the head sees.
func (s *Scorer) Hidden(ctx context.Context, samples []*Sample) ([][]float32, error) {
	if s.config.Format == 2 {
		return nil, fmt.Errorf("a scorer of format 2 may read several states: see Readings")
	}
	_, states, err := s.score(ctx, samples, true)
	return states, err
}

// PixelGradient returns score01 of one sample and d score01 / d pixel_values in the family's layout (LLaVA-NeXT:
// [tiles, 3, S, S] over all pictures in order).
func (s *Scorer) PixelGradient(ctx context.Context, sample *Sample) (float64, *tensor.Dense, error) {
	if s.config.Format == 2 {
		return s.judgePixelGradient(ctx, sample)
	}
	scores, gradient, _, err := s.differentiate(ctx, []*Sample{sample})
	if err != nil {
		return 0, nil, err
	}
	score, by := s.calibrated(scores[0])
	if by != 1 {
		scaleBy(gradient.Data().([]float32), by)
	}
	return score, gradient, nil
}

// pixelGradients returns score01 of samples of one length and, for each, d score01 / d its own pixels, picture by
// picture.
func (s *Scorer) pixelGradients(ctx context.Context, samples []*Sample) ([]float64, [][]float32, error) {
	byPlace, gradient, order, err := s.differentiate(ctx, samples)
	if err != nil {
		return nil, nil, err
	}
	scores, each := make([]float64, len(samples)), make([][]float32, len(samples))
	values := gradient.Data().([]float32)
	for place, i := range order {
		n := 0
		for _, p := range samples[i].Pictures {
			n += len(p.Pixels)
		}
		scores[i], each[i], values = byPlace[place], values[:n], values[n:]
	}
	return scores, each, nil
}

// differentiate runs samples of one length, forth and back: scores and d their sum / d pixel_values in the order of the
// packed batch. A score depends on its own pixels alone, so the sum's gradient is each one's.
func (s *Scorer) differentiate(ctx context.Context, samples []*Sample) ([]float64, *tensor.Dense, []int, error) {
	for _, sample := range samples {
		if sample.Pictures[0].Pixels == nil {
			return nil, nil, nil, fmt.Errorf("the sample has no pixels: prepare it with Pair.Pixels")
		}
	}
	p, err := s.packing().pack(samples, s.positions)
	if err != nil {
		return nil, nil, nil, err
	}
	ses, err := s.session(s.variant(p, true)("pixel gradient", func(g *Graph) (*built, error) {
		return buildGraph(g, s.backbone, &s.config.Head, graphSpec{Groups: 1, Vision: true, PixelGrad: true})
	}))
	if err != nil {
		return nil, nil, nil, err
	}
	feeds, err := s.backbone.Feeds(p.pictures)
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := s.run(ctx, ses, p.feeds, feeds)
	if err != nil {
		return nil, nil, nil, err
	}
	scores := make([]float64, len(samples))
	for i, v := range out[outScore].Data().([]float32) {
		if scores[i] = float64(v); math.IsNaN(scores[i]) || math.IsInf(scores[i], 0) {
			return nil, nil, nil, fmt.Errorf("the score is %g: the scorer's or the backbone's weights are damaged", v)
		}
	}
	return scores, out[ses.Grads[inPixels]], p.order, nil
}
