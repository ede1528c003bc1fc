package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"assay/internal/workers"
)

// score returns score01 of every sample. All samples of one run have the same length, so one graph serves every batch. A score
// does not depend on the batch: see small and packing.span for what that takes.
func (e *engine) score(ctx context.Context, samples []*Sample, hidden bool) (scores []float64, states [][]float32, err error) {
	inGraph := e.visionTrained()
	s, err := e.session(e.scoreGraph(hidden))
	if err != nil {
		return nil, nil, err
	}
	pk := e.packing()
	scores, states = make([]float64, len(samples)), make([][]float32, len(samples))
	rows := maxRows
	if e.small() {
		rows = smallRows
	}
	batches := equalLengths(samples, pk, rows)
	for wave := range slices.Chunk(batches, e.lanes()) { // features of a wave at a time: those of all samples may be many times the weights
		var seen []*Picture
		if !inGraph {
			var part []*Sample
			for _, batch := range wave {
				for _, j := range batch {
					part = append(part, samples[j])
				}
			}
			if seen, err = e.see(ctx, part); err != nil {
				return nil, nil, err
			}
		}
		err := workers.Each(len(wave), e.lanes(), func(k int) error { return e.scoreBatch(ctx, s, samples, wave[k], inGraph, scores, states) })
		if err != nil {
			return nil, nil, err
		}
		for _, q := range seen { // the cache keeps what fits
			q.features = nil
		}
	}
	return scores, states, nil
}

// scoreBatch scores the samples with these indices, all of one length, and notes the states if the graph has them.
func (e *engine) scoreBatch(ctx context.Context, s *session, samples []*Sample, batch []int, inGraph bool, scores []float64, states [][]float32) error {
	part := make([]*Sample, len(batch))
	for i, j := range batch {
		part[i] = samples[j]
	}
	p, err := e.packing().pack(part, e.positions)
	if err != nil {
		return err
	}
	feeds, err := e.sight(p, inGraph)
	if err != nil {
		return err
	}
	out, err := e.run(ctx, s, p.feeds, feeds)
	if err != nil {
		return err
	}
	for place, i := range p.order {
		v := float64(out[outScore].Data().([]float32)[place])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			if err := e.Damage(); err != nil {
				return fmt.Errorf("the score is %g: %w", v, err)
			}
			return fmt.Errorf("the score is %g, though all weights are finite: the numbers overflow on these pictures", v)
		}
		scores[batch[i]] = v
		if hidden := out[outHidden]; hidden != nil {
			n := e.backbone.Decoder().Hidden
			states[batch[i]] = hidden.Data().([]float32)[place*n : (place+1)*n]
		}
	}
	return nil
}

// Bounds of the tokens of one forward pass; those of a small model's stay in a core's cache.
const (
	maxRows   = 4096
	smallRows = 1024
)

// equalLengths sorts sample indices into batches of equal shape of at most rows tokens (at least one sample each).
func equalLengths(samples []*Sample, pk packing, rows int) [][]int {
	type shape struct{ length, selected int }
	at := map[shape]int{}
	var batches [][]int
	for i, s := range samples {
		sp := pk.span(s, i)
		k := shape{sp.length, sp.selected}
		j, ok := at[k]
		if !ok || (len(batches[j])+1)*sp.length > rows {
			j = len(batches)
			batches, at[k] = append(batches, nil), j
		}
		batches[j] = append(batches[j], i)
	}
	return batches
}

// scoreGraph is the forward pass of scoring.
func (e *engine) scoreGraph(hidden bool) (name string, build func(g *Graph) (*built, error)) {
	spec := graphSpec{Groups: 1, Vision: e.visionTrained(), Hidden: hidden}
	return fmt.Sprintf("score hidden=%v", hidden), func(g *Graph) (*built, error) {
		return buildGraph(g, e.backbone, &e.config.Head, spec)
	}
}
