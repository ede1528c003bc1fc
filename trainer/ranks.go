package trainer

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/optim"
)

// The ways to sum gradients over ranks.
const (
	ReduceOrdered = "ordered" // in the order of the micro-batches
	ReduceFast    = "fast"    // in the order that the library likes
)

// RanksDir is the folder of a run directory that has each rank's own log.
const RanksDir = "ranks"

// ranks is the strategy of several processes.
type ranks struct {
	*Group
	config *Config
	shards *Shards
	step   int64 // the present one
}

// newRanks gives this process its place, and a log; the options of all but the first rank become silent.
func newRanks(o *Options, cancel context.CancelFunc) (*ranks, error) {
	dir, r := filepath.Join(o.Config.Out, RanksDir), o.Ranks
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("the log of rank %d (%s): %w", r.Rank(), r.Hosts()[r.Rank()], err)
	}
	g, err := NewGroup(r, filepath.Join(dir, fmt.Sprintf("rank-%04d.log", r.Rank())), cancel)
	if err != nil {
		return nil, err
	}
	if r.Rank() != 0 {
		o.Progress, o.Note = nil, nil
		o.Warn = func(text string) { g.Log.Warn(text) }
	}
	return &ranks{Group: g, config: o.Config}, nil
}

func (k *ranks) close(err error)                                 { k.Close(err) }
func (k *ranks) main() bool                                      { return k.Rank() == 0 }
func (k *ranks) mine(i int) bool                                 { return k.Mine(i) }
func (k *ranks) agree(what string, err error) error              { return k.Agree(what, err) }
func (k *ranks) knows(err error) bool                            { return Agreed(err) }
func (k *ranks) union(what string, entries any, err error) error { return k.Union(what, entries, err) }
func (k *ranks) share(what string, v any) error                  { return k.Share(what, v) }

func (k *ranks) same(what string, facts func() (map[string]string, error)) error {
	known, err := facts()
	if err := k.Agree(what, err); err != nil {
		return err
	}
	return k.Same(what, known)
}

// microBatch takes the least number of samples that any rank has chosen, and warns of ranks without work.
func (k *ranks) microBatch(n, batch int, warn func(string)) (int, error) {
	all, err := Gather(k.Group, "micro-batch", n)
	if err != nil {
		return 0, err
	}
	micro := slices.Min(all)
	if n := (batch + micro - 1) / micro; batch > 0 && n < k.Size() {
		warn(fmt.Sprintf("a step has %d micro-batches of %d samples, so that %d of %d ranks have nothing to do: a smaller "+
			"micro_batch or a larger batch_size shares it out", n, micro, k.Size()-n, k.Size()))
	}
	return micro, nil
}

func (k *ranks) shard(params []optim.Param) []optim.Param {
	k.shards = NewShards(k.Group, params, k.config.Reduce != ReduceOrdered || !k.config.elementwise())
	return k.shards.Owned(params)
}

// accumulate runs as many micro-batches at a time as there are ranks, one each, and adds up their gradients.
func (k *ranks) accumulate(
	o *optimizer, step int64, parts [][]Example, run func(i int) (*StepResult, error), show func(i int, out *StepResult),
) (int, error) {
	k.step = step
	for i := 0; i < len(parts); i += k.Size() {
		began := time.Now()
		var out *StepResult
		var mine StepResult
		var err error
		if own := i + k.Rank(); own < len(parts) {
			k.Doing(fmt.Sprintf("step %d, micro-batch %d of %d", step, own+1, len(parts)))
			if out, err = run(own); err == nil {
				err = o.check(out, len(parts[own]))
			}
			if err == nil {
				mine = *out
				mine.Grads = nil
			}
		}
		what := fmt.Sprintf("step %d, micro-batches from %d of %d", step, i+1, len(parts))
		k.Computing += time.Since(began)
		began = time.Now()
		round, failed, err := Turn(k.Group, what, mine, err)
		if err != nil {
			return i + failed, err
		}
		k.Waiting += time.Since(began)
		count := min(k.Size(), len(parts)-i)
		if err := k.sum(o, out, count); err != nil {
			return i, err
		}
		if out != nil {
			o.release(out)
		}
		for j := range count {
			show(i+j, &round[j])
		}
	}
	return 0, nil
}

// sum adds the gradients of a round of count micro-batches to those of the batch.
func (k *ranks) sum(o *optimizer, out *StepResult, count int) error {
	if k.config.Reduce == ReduceFast {
		if out != nil {
			o.add(out)
		}
		return nil
	}
	var grads [][]float32
	if out != nil {
		for _, g := range out.Grads {
			grads = append(grads, g.Float32s())
		}
	}
	return k.shards.Add(grads, o.grads, count)
}

func (k *ranks) reduce(_ context.Context, o *optimizer) (norm float64, err error) {
	switch {
	case k.config.Reduce == ReduceFast:
		err = k.shards.SumFast(o.grads)
	case k.shards.Whole:
		err = k.shards.Collect(o.grads)
	}
	if err != nil {
		return 0, err
	}
	if norm, err = k.shards.Norm(o.grads); err == nil {
		k.LogStep(k.step)
	}
	return norm, err
}

func (k *ranks) update(o *optimizer, norm float64, rates []float64) error {
	o.apply(norm, rates)
	if k.shards.Whole {
		return nil
	}
	if err := k.shards.Collect(nil); err != nil {
		return &unrecorded{err} // some have the new parameters, some have not
	}
	return nil
}

func (k *ranks) round(what string, measure func(i int) (measured, error)) ([]measured, int, error) {
	mine, err := measure(k.Rank())
	return Turn(k.Group, what, mine, err)
}

func (k *ranks) due(now bool) (bool, error) {
	if k.shards.Whole {
		return now, nil
	}
	all, err := Gather(k.Group, "whether to save", now)
	return err == nil && all[0], err
}

// tensors counts those of all ranks.
func (k *ranks) tensors(here []tensorSlice) (int, error) {
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

// save of ranks that own parts of the optimizer's state each: the first one is given them, little at a time, and writes
// them where they belong. Whatever fails there, all ranks come to the end.
func (k *ranks) save(o *optimizer, write func([]tensorSlice, func(put putter) error) error) error {
	if !k.shards.Whole {
		return k.Agree("saving a checkpoint", k.saveTogether(o, write))
	}
	if k.Rank() != 0 {
		return nil
	}
	return single{}.save(o, write)
}

func (k *ranks) saveTogether(o *optimizer, write func([]tensorSlice, func(put putter) error) error) error {
	kept := o.tensors()
	whole, mine := kept[:len(o.params)], packets(kept[len(o.params):], max(1, exchanged/k.Size()))
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
	saving := write(kept, func(put putter) error {
		given = true
		err := putAll(whole, put)
		return cmp.Or(k.give(mine, all, put), err)
	})
	if !given {
		err = k.give(mine, all, nil)
	}
	return errorsOf(saving, err)
}

// give sends the packets of all ranks, which put takes; without it they are dropped.
func (k *ranks) give(mine [][]tensorSlice, all [][][]tensorSlice, put putter) (err error) {
	rounds := 0
	for _, rank := range all {
		rounds = max(rounds, len(rank))
	}
	var buffer []byte
	for t := range rounds {
		buffer = buffer[:0]
		if t < len(mine) {
			for i := range mine[t] {
				buffer = mine[t][i].contents(buffer)
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
				n := s.size(s.Length)
				if err = put(s, data[:n]); err != nil {
					break
				}
				data = data[n:]
			}
		}
	}
	return err
}
