package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"assay/internal/workers"
)

// eachBatch runs sessions over samples, packed in batches of one length, each with the features of its pictures. It
// calls read, several times at once, for every sample with its place in its batch's outputs.
func (p *pipeline) eachBatch(
	ctx context.Context,
	graph Recipe,
	pk packing,
	samples []*Sample,
	read func(i, place int, out map[string]*tensor.Dense) error,
) error {
	// Features of a few batches at a time: those of all samples may be many times the weights.
	for part := range slices.Chunk(p.batches(pk, samples), p.limits.parallel) {
		var filled []*Picture
		if !p.visionTrained() {
			var indices []int
			for _, b := range part {
				indices = append(indices, b.samples...)
			}
			var err error
			if filled, err = p.fill(ctx, pick(samples, indices)); err != nil {
				return err
			}
		}
		err := workers.Each(len(part), p.limits.parallel, func(k int) error {
			order, out, err := p.runBatch(ctx, graph, part[k].packing, pick(samples, part[k].samples))
			for place, i := range order {
				if err == nil {
					err = read(part[k].samples[i], place, out)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, q := range filled { // the cache keeps what fits
			q.features = nil
		}
	}
	return nil
}

// runBatch runs samples of one length; order[place] is the index of the sample at that place of the outputs.
func (p *pipeline) runBatch(
	ctx context.Context,
	graph Recipe,
	pk packing,
	samples []*Sample,
) (order []int, out map[string]*tensor.Dense, err error) {
	batch, err := pk.pack(samples, p.positions)
	if err != nil {
		return nil, nil, err
	}
	vision, err := p.visionFeeds(batch)
	if err != nil {
		return nil, nil, err
	}
	s, err := p.session(graph.with(p.variant(batch, p.visionTrained())))
	if err != nil {
		return nil, nil, err
	}
	out, err = p.run(ctx, s, batch.feeds, vision)
	return batch.order, out, err
}

// finite refuses a score that is no number.
func (n *network) finite(score float32) (float64, error) {
	v := float64(score)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		if err := n.Damage(); err != nil {
			return 0, fmt.Errorf("the score is %g: %w", v, err)
		}
		return 0, fmt.Errorf("the score is %g, though all weights are finite: the numbers overflow on these pictures", v)
	}
	return v, nil
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
