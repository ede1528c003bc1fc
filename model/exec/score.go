package exec

import (
	"context"
	"slices"

	"gorgonia.org/tensor"

	"assay/internal/workers"
	"assay/model/backbone"
	"assay/model/batch"
)

// EachBatch runs sessions over samples, packed into batches of one length, with the features of their pictures. It
// calls read, several times at once, for every sample with its place in its batch's outputs.
func (r *Runner) EachBatch(
	ctx context.Context, graph Recipe, pk batch.Packer, samples []*batch.Sample,
	read func(i, place int, out map[string]*tensor.Dense) error,
) error {
	// Features of a few batches at a time: those of all samples may be many times the weights.
	for part := range slices.Chunk(r.net.Plan.Limits.Batches(pk, samples, r.net.OneGraph()), r.net.Plan.Limits.Parallel) {
		var filled []*backbone.Picture
		if !r.net.VisionTrained() {
			var indices []int
			for _, b := range part {
				indices = append(indices, b.Samples...)
			}
			var err error
			if filled, err = r.Features.Fill(ctx, batch.Pick(samples, indices)); err != nil {
				return err
			}
		}
		err := workers.Each(len(part), r.net.Plan.Limits.Parallel, func(k int) error {
			order, out, err := r.runBatch(ctx, graph, part[k].Packer, batch.Pick(samples, part[k].Samples))
			for place, i := range order {
				if err == nil {
					err = read(part[k].Samples[i], place, out)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, q := range filled { // the cache keeps what fits
			q.Features = nil
		}
	}
	return nil
}

// runBatch runs samples of one length; order[place] is the index of the sample at that place in the outputs.
func (r *Runner) runBatch(
	ctx context.Context, graph Recipe, pk batch.Packer, samples []*batch.Sample,
) (order []int, out map[string]*tensor.Dense, err error) {
	batch, err := pk.Pack(samples, r.net.Positions)
	if err != nil {
		return nil, nil, err
	}
	vision, done, err := r.Sessions.VisionFeeds(batch)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	s, err := r.Sessions.Session(graph.With(r.net.Variant(batch, r.net.VisionTrained())))
	if err != nil {
		return nil, nil, err
	}
	out, err = r.Sessions.Run(ctx, s, batch.Feeds, vision)
	return batch.Order, out, err
}
