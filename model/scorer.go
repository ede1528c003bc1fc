package model

import (
	"context"
	"fmt"
	"slices"

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

// Hidden returns the state that the only pass reads [hidden] of every sample: what its heads see.
func (s *Scorer) Hidden(ctx context.Context, samples []*Sample) ([][]float32, error) {
	if len(s.spec.Passes) > 1 {
		return nil, fmt.Errorf("a scorer of %d passes reads several states: see Readings", len(s.spec.Passes))
	}
	readings, err := s.readAll(ctx, samples, true)
	states := make([][]float32, len(readings))
	for i, r := range readings {
		states[i] = r[0].State
	}
	return states, err
}

// PixelGradient returns score01 of one sample and d score01 / d pixel_values in the family's layout (LLaVA-NeXT:
// [tiles, 3, S, S] over all pictures in order). All passes must show the same pictures.
func (s *Scorer) PixelGradient(ctx context.Context, sample *Sample) (float64, *tensor.Dense, error) {
	for _, one := range sample.rest {
		if !slices.Equal(one.Pictures, sample.Pictures) {
			return 0, nil, fmt.Errorf("the passes show different pictures: their gradients have no common pixel_values")
		}
	}
	judgements, each, err := s.differentiate(ctx, []*Sample{sample})
	if err != nil {
		return 0, nil, err
	}
	sum := slices.Clone(each[0][0].gradient)
	for _, q := range each[0][1:] {
		for i, v := range q.gradient {
			sum[i] += v
		}
	}
	feeds, err := s.backbone.Feeds(sample.Pictures)
	if err != nil {
		return 0, nil, err
	}
	shape := feeds[inPixels].Shape().Clone()
	score, by := s.calibrated(judgements[0].Score01)
	if by != 1 {
		scaleBy(sum, by)
	}
	return score, tensor.New(tensor.WithShape(shape...), tensor.WithBacking(sum)), nil
}
