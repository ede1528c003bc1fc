package model

import (
	"context"
	"slices"

	"gorgonia.org/tensor"

	"assay/internal/workers"
)

// eachBatch runs sessions over samples, packed in batches of one length, each with the features of its pictures. It
// calls read, several times at once, for every sample with its place in its batch's outputs.
func (r *Runner) eachBatch(
	ctx context.Context,
	graph Recipe,
	pk packing,
	samples []*Sample,
	read func(i, place int, out map[string]*tensor.Dense) error,
) error {
	// Features of a few batches at a time: those of all samples may be many times the weights.
	for part := range slices.Chunk(r.net.plan.limits.batches(pk, samples, r.net.oneGraph()), r.net.plan.limits.parallel) {
		var filled []*Picture
		if !r.net.visionTrained() {
			var indices []int
			for _, b := range part {
				indices = append(indices, b.samples...)
			}
			var err error
			if filled, err = r.features.fill(ctx, pick(samples, indices)); err != nil {
				return err
			}
		}
		err := workers.Each(len(part), r.net.plan.limits.parallel, func(k int) error {
			order, out, err := r.runBatch(ctx, graph, part[k].packing, pick(samples, part[k].samples))
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
func (r *Runner) runBatch(
	ctx context.Context,
	graph Recipe,
	pk packing,
	samples []*Sample,
) (order []int, out map[string]*tensor.Dense, err error) {
	batch, err := pk.pack(samples, r.net.positions)
	if err != nil {
		return nil, nil, err
	}
	vision, err := r.net.visionFeeds(batch)
	if err != nil {
		return nil, nil, err
	}
	s, err := r.sessions.session(graph.with(r.net.variant(batch, r.net.visionTrained())))
	if err != nil {
		return nil, nil, err
	}
	out, err = r.sessions.run(ctx, s, batch.feeds, vision)
	return batch.order, out, err
}
