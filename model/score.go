package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"assay/internal/workers"
)

// score returns score01 of every sample, and the hidden states if they are wanted. All samples of one run have the same
// length, so one graph serves every batch. A score does not depend on the batch: see newLimits and packing.span for
// what that takes.
func (p *pipeline) score(ctx context.Context, samples []*Sample, hidden bool) ([]float64, [][]float32, error) {
	s, err := p.session(p.scoreGraph(hidden))
	if err != nil {
		return nil, nil, err
	}
	scores, states := make([]float64, len(samples)), make([][]float32, len(samples))
	pk := p.packing()
	batches := batchesBy(len(samples), func(i int) (span, int) {
		sp := pk.span(samples[i], 0)
		return span{length: sp.length, selected: sp.selected}, p.limits.rows / sp.length
	})
	// Features of a few batches at a time: those of all samples may be many times the weights.
	for part := range slices.Chunk(batches, p.limits.parallel) {
		var filled []*Picture
		if !p.visionTrained() {
			if filled, err = p.fill(ctx, pick(samples, slices.Concat(part...))); err != nil {
				return nil, nil, err
			}
		}
		err := workers.Each(len(part), p.limits.parallel, func(k int) error {
			results, err := p.scoreBatch(ctx, s, pick(samples, part[k]))
			for i, r := range results {
				scores[part[k][i]], states[part[k][i]] = r.score, r.state
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		for _, q := range filled { // the cache keeps what fits
			q.features = nil
		}
	}
	return scores, states, nil
}

// scored is a sample's score, with the state that it was read from if the graph returns it.
type scored struct {
	score float64
	state []float32
}

// scoreBatch scores samples of one length.
func (p *pipeline) scoreBatch(ctx context.Context, s *session, samples []*Sample) ([]scored, error) {
	batch, err := p.packing().pack(samples, p.positions)
	if err != nil {
		return nil, err
	}
	vision, err := p.visionFeeds(batch)
	if err != nil {
		return nil, err
	}
	out, err := p.run(ctx, s, batch.feeds, vision)
	if err != nil {
		return nil, err
	}
	results := make([]scored, len(samples))
	for place, i := range batch.order {
		v := float64(out[outScore].Data().([]float32)[place])
		if math.IsNaN(v) || math.IsInf(v, 0) {
			if err := p.Damage(); err != nil {
				return nil, fmt.Errorf("the score is %g: %w", v, err)
			}
			return nil, fmt.Errorf("the score is %g, though all weights are finite: the numbers overflow on these pictures", v)
		}
		results[i].score = v
		if hidden := out[outHidden]; hidden != nil {
			n := p.backbone.Decoder().Hidden
			results[i].state = hidden.Data().([]float32)[place*n : (place+1)*n]
		}
	}
	return results, nil
}

// batchesBy sorts the indices 0..n-1 into batches of one kind. kind returns that of an index, and how many of it make a
// full batch; one always fits.
func batchesBy[K comparable](n int, kind func(i int) (k K, most int)) [][]int {
	at := map[K]int{}
	var batches [][]int
	for i := range n {
		k, most := kind(i)
		j, ok := at[k]
		if !ok || len(batches[j]) >= max(most, 1) {
			j = len(batches)
			batches, at[k] = append(batches, nil), j
		}
		batches[j] = append(batches[j], i)
	}
	return batches
}

// pick returns the elements at some indices.
func pick[T any](all []T, indices []int) []T {
	out := make([]T, len(indices))
	for i, j := range indices {
		out[i] = all[j]
	}
	return out
}
