// Package distributed trains with several processes. A Strategy in trainer.Options replaces the one for a single
// process: it distributes micro-batches and rows, sums gradients in the order of the micro-batches (shards.go), and
// turns an error of one process into an error of all (group.go). The result is bit-identical for any number of
// processes. A process that trains alone does not use this package.
package distributed

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/exit"
	"assay/internal/optim"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/internal/trainer/optimizer"
)

// RanksDir is the folder of a run directory with the log of each rank.
const RanksDir = "ranks"

// Strategy is the strategy of several processes.
type Strategy struct {
	*Group
	config *config.Config
	shards *Shards
	step   int64 // the current one
}

// New creates the strategy of this process in a run, with a log file. cancel ends the run as an interrupt would.
func New(r Ranks, c *config.Config, cancel context.CancelFunc) (*Strategy, error) {
	dir := filepath.Join(c.Out, RanksDir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("the log of rank %d (%s): %w", r.Rank(), r.Hosts()[r.Rank()], err)
	}
	g, err := NewGroup(r, filepath.Join(dir, fmt.Sprintf("rank-%04d.log", r.Rank())), cancel)
	if err != nil {
		return nil, err
	}
	return &Strategy{Group: g, config: c}, nil
}

// Main reports whether this is rank 0, which writes files and reports.
func (k *Strategy) Main() bool { return k.Rank() == 0 }

// Knows reports whether all ranks have this error.
func (k *Strategy) Knows(err error) bool { return Agreed(err) }

// Place returns the number of ranks, and this rank's index on its machine.
func (k *Strategy) Place() (processes, local int) { return k.Size(), k.Local() }

// Warn writes to the rank's log.
func (k *Strategy) Warn(text string) { k.Log.Warn(text) }

// Rephrase replaces err by as, known to the same ranks.
func (k *Strategy) Rephrase(err, as error) error {
	if Agreed(err) {
		return &agreedError{as}
	}
	return as
}

// Same returns an error if a fact of a rank differs from rank 0's.
func (k *Strategy) Same(what string, facts func() (map[string]string, error)) error {
	known, err := facts()
	if err := k.Agree(what, err); err != nil {
		return err
	}
	return k.Group.Same(what, known)
}

// MicroBatch returns the smallest micro-batch that any rank has chosen, and warns of ranks without work.
func (k *Strategy) MicroBatch(n, batch int, warn func(string)) (int, error) {
	all, err := Gather(k.Group, "micro-batch", n)
	if err != nil {
		return 0, err
	}
	micro := slices.Min(all)
	if n := (batch + micro - 1) / micro; batch > 0 && n < k.Size() {
		warn(fmt.Sprintf("a step has %d micro-batches of %d samples, so that %d of %d ranks have nothing to do: use a "+
			"smaller micro_batch or a larger batch_size", n, micro, k.Size()-n, k.Size()))
	}
	return micro, nil
}

// Shard returns the parameters, or slices of them, that this rank updates.
func (k *Strategy) Shard(params []optim.Param) []optim.Param {
	k.shards = NewShards(k.Group, params, k.config.Reduce != config.ReduceOrdered || !optimizer.Elementwise(k.config))
	return k.shards.Owned(params)
}

// Accumulate runs as many micro-batches at a time as there are ranks, one each, and sums their gradients.
func (k *Strategy) Accumulate(ctx context.Context, o *optimizer.Optimizer, b models.MicroBatches) (int, error) {
	k.step = b.Step()
	n := b.Len()
	for i := 0; i < n; i += k.Size() {
		began := time.Now()
		var out *models.StepResult
		var mine models.StepResult
		var err error
		if own := i + k.Rank(); own < n {
			k.Doing(fmt.Sprintf("step %d, micro-batch %d of %d", k.step, own+1, n))
			if out, err = b.Run(ctx, own); err == nil {
				mine = *out
				mine.Grads = nil
			}
		}
		what := fmt.Sprintf("step %d, micro-batches from %d of %d", k.step, i+1, n)
		k.Computing += time.Since(began)
		began = time.Now()
		round, failed, err := Turn(k.Group, what, mine, err)
		if err != nil {
			return i + failed, err
		}
		k.Waiting += time.Since(began)
		count := min(k.Size(), n-i)
		if err := k.sum(o, out, count); err != nil {
			return i, err
		}
		if out != nil {
			o.Release(&out.Grads)
		}
		for j := range count {
			b.Done(i+j, &round[j])
		}
	}
	return 0, nil
}

// sum adds the gradients of a round of count micro-batches to the gradient sums of the batch.
func (k *Strategy) sum(o *optimizer.Optimizer, out *models.StepResult, count int) error {
	if k.config.Reduce == config.ReduceFast {
		if out != nil {
			o.Add(out.Grads)
		}
		return nil
	}
	var grads [][]float32
	if out != nil {
		for _, g := range out.Grads {
			grads = append(grads, g.Float32s())
		}
	}
	return k.shards.Add(grads, o.Grads, count)
}

// Reduce completes the gradient sums of a step, and returns the norm of the gradient.
func (k *Strategy) Reduce(_ context.Context, o *optimizer.Optimizer) (norm float64, err error) {
	switch {
	case k.config.Reduce == config.ReduceFast:
		err = k.shards.SumFast(o.Grads)
	case k.shards.Whole:
		err = k.shards.Collect(o.Grads)
	}
	if err != nil {
		return 0, err
	}
	if norm, err = k.shards.Norm(o.Grads); err == nil {
		k.LogStep(k.step)
	}
	return norm, err
}

// Update applies the gradients to the parameters of all ranks.
func (k *Strategy) Update(o *optimizer.Optimizer, norm float64, rates []float64) error {
	o.Apply(norm, rates)
	if k.shards.Whole {
		return nil
	}
	if err := k.shards.Collect(nil); err != nil {
		return &checkpoint.InconsistentError{Err: err} // some ranks have the new parameters, others do not
	}
	return nil
}

// Round measures a micro-batch of validation rows on each rank.
func (k *Strategy) Round(what string, measure func(i int) (models.Measured, error)) ([]models.Measured, int, error) {
	mine, err := measure(k.Rank())
	return Turn(k.Group, what, mine, err)
}

// Due reports whether a checkpoint is due by rank 0's clock.
func (k *Strategy) Due(now bool) (bool, error) {
	if k.shards.Whole {
		return now, nil
	}
	all, err := Gather(k.Group, "whether to save", now)
	return err == nil && all[0], err
}

// Tensors returns the number of tensors of all ranks.
func (k *Strategy) Tensors(here []checkpoint.Slice) (int, error) {
	if k.shards.Whole {
		return len(here), nil
	}
	names := map[string]bool{}
	for i := range here {
		names[here[i].Name] = true
	}
	err := k.Union("the optimizer's tensors", &names, nil)
	return len(names), err
}

// Save writes a checkpoint. If each rank owns a part of the optimizer state, the ranks send their parts to rank 0 in
// small packets, and rank 0 writes them at their positions. If that fails, all ranks still complete the exchange.
func (k *Strategy) Save(o *optimizer.Optimizer, write checkpoint.WriteFunc) error {
	if !k.shards.Whole {
		return k.Agree("saving a checkpoint", k.saveTogether(o, write))
	}
	if k.Rank() != 0 {
		return nil
	}
	all := o.Tensors()
	return write(all, func(put checkpoint.Putter) error { return checkpoint.PutAll(all, put) })
}

func (k *Strategy) saveTogether(o *optimizer.Optimizer, write checkpoint.WriteFunc) error {
	kept := o.Tensors()
	whole, mine := kept[:len(o.Params)], checkpoint.Packets(kept[len(o.Params):], max(1, optimizer.Exchanged/k.Size()))
	all, err := Gather(k.Group, "the optimizer's state", mine)
	if err != nil {
		return err
	}
	if k.Rank() != 0 {
		return k.give(mine, all, nil)
	}
	for _, rank := range all {
		kept = append(kept, slices.Concat(rank...)...)
	}
	given := false
	saving := write(kept, func(put checkpoint.Putter) error {
		given = true
		err := checkpoint.PutAll(whole, put)
		return cmp.Or(k.give(mine, all, put), err)
	})
	if !given {
		err = k.give(mine, all, nil)
	}
	return exit.Join(saving, err)
}

// give exchanges the packets of all ranks and passes them to put; without put they are dropped.
func (k *Strategy) give(mine [][]checkpoint.Slice, all [][][]checkpoint.Slice, put checkpoint.Putter) (err error) {
	rounds := 0
	for _, rank := range all {
		rounds = max(rounds, len(rank))
	}
	var buffer []byte
	for t := range rounds {
		buffer = buffer[:0]
		if t < len(mine) {
			for i := range mine[t] {
				buffer = mine[t][i].Contents(buffer)
			}
		}
		given, lost := k.Gather(fmt.Sprintf("the optimizer's state, %d of %d", t+1, rounds), buffer)
		if lost != nil {
			return fmt.Errorf("rank %d (%s), saving: %w", k.Rank(), k.Hosts()[k.Rank()], lost)
		}
		for rank, data := range given {
			if err != nil || put == nil || t >= len(all[rank]) {
				continue
			}
			for i := range all[rank][t] {
				s := &all[rank][t][i]
				n := s.Size(s.Length)
				if err = put(s, data[:n]); err != nil {
					break
				}
				data = data[n:]
			}
		}
	}
	return err
}
