package trainer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/losses"
)

// The gradients of a batch are the sum of those of its micro-batches, and sums of floating-point numbers depend on
// their order. So micro-batches have numbers, and are added up in that order whichever rank made them. Each rank owns
// an equal part of all elements, is given that part of every micro-batch's gradient, and adds them as a process alone
// would. At the end of the step the parts are put together: those of the parameters, or, where every rank has the
// optimizer's whole state, those of the sums. The result is that of one process, bit for bit.
//
// With N ranks, M micro-batches each and gradients of B bytes every rank sends (M + 1) B (N-1)/N bytes a step. A ring
// that sums in an order of its own (reduce: fast) sends 2 B (N-1)/N. With one micro-batch for each rank they are equal.

// The ways to sum gradients over ranks.
const (
	ReduceOrdered = "ordered" // in the order of the micro-batches
	ReduceFast    = "fast"    // in the order that the library likes
)

// exchanged is how many elements go through the library at a time.
const exchanged = 4 << 20

// partResult is what a rank tells of a micro-batch.
type partResult struct {
	Made   bool
	Failed verdict
	Result StepResult // without gradients
}

// pass runs the model over part i of a batch. Several ranks make as many parts at a time, one each, and add up their
// gradients.
func (r *run) pass(
	ctx context.Context, batch []Example, parts [][]Example, items [][][]losses.Item, i int,
) (*StepResult, error) {
	k := r.ranks
	if k == nil {
		return r.forward(ctx, batch, parts[i], items[i])
	}
	n := k.Size()
	if i%n == 0 {
		if err := r.passRound(ctx, batch, parts, items, i); err != nil {
			return nil, err
		}
	}
	o := k.round[i%n]
	if o.Failed.Text != "" {
		return nil, &agreedError{k.of(i%n, errors.New(o.Failed.Text))}
	}
	return &o.Result, nil
}

// passRound makes the parts from i on, one on each rank.
func (r *run) passRound(
	ctx context.Context, batch []Example, parts [][]Example, items [][][]losses.Item, i int,
) error {
	k, began := r.ranks, time.Now()
	var out *StepResult
	var mine partResult
	if own := i + k.Rank(); own < len(parts) {
		k.Doing(fmt.Sprintf("step %d, micro-batch %d of %d", r.state.Step+1, own+1, len(parts)))
		var err error
		if out, err = r.forward(ctx, batch, parts[own], items[own]); err == nil {
			err = r.checkGrads(out, len(parts[own]))
		}
		if mine = (partResult{Made: true, Failed: verdictOf(err)}); err == nil {
			mine.Result = *out
			mine.Result.Grads = nil
		}
	}
	what := fmt.Sprintf("step %d, micro-batches from %d of %d", r.state.Step+1, i+1, len(parts))
	k.computing += time.Since(began)
	k.Doing(what + " (waiting)")
	began = time.Now()
	var err error
	if k.round, err = gather(k, what, mine); err != nil {
		return err
	}
	k.waiting += time.Since(began)
	began = time.Now()
	defer func() { k.reducing += time.Since(began) }()
	count := 0
	for _, o := range k.round {
		if o.Failed.Text != "" {
			return nil // the step fails, nothing is summed
		}
		if o.Made {
			count++
		}
	}
	if r.config.Reduce == ReduceFast {
		if out != nil {
			r.sum(out)
		}
		return nil
	}
	return r.deal(out, count)
}

// eachSlot calls f until all elements were exchanged: those of every rank behind its at first ones, at most part.
func (r *run) eachSlot(f func(at, part int) error) error {
	most, cuts := 0, r.own.cuts
	for i := range r.ranks.Size() {
		most = max(most, cuts[i+1]-cuts[i])
	}
	part := max(1, exchanged/r.ranks.Size())
	for at := 0; at < most; at += part {
		if err := f(at, min(part, most-at)); err != nil {
			return err
		}
	}
	return nil
}

// slot gives which elements of all those of a rank are.
func (r *run) slot(rank, at, part int) (from, to int) {
	end := r.own.cuts[rank+1]
	from = min(r.own.cuts[rank]+at, end)
	return from, min(from+part, end)
}

// within calls f for every stretch of the elements from to to-1 of tensors that lie one behind the other. A stretch is
// the part of one tensor, and how far behind from it begins.
func within(tensors [][]float32, from, to int, f func(part []float32, at int)) {
	begin := 0
	for _, t := range tensors {
		if lo, hi := max(from, begin), min(to, begin+len(t)); lo < hi {
			f(t[lo-begin:hi-begin], lo-from)
		}
		if begin += len(t); begin >= to {
			return
		}
	}
}

// deal adds the gradients of a round's micro-batches, which the first ranks have made, to the elements that this rank
// owns.
func (r *run) deal(out *StepResult, count int) error {
	k, n := r.ranks, r.ranks.Size()
	var grads [][]float32
	if out != nil {
		for _, g := range out.Grads {
			grads = append(grads, g.Float32s())
		}
	}
	return r.eachSlot(func(at, part int) error {
		values, slices := k.buffers(part*n, part*count)
		for i := range n {
			from, to := r.slot(i, at, part)
			within(grads, from, to, func(g []float32, behind int) { copy(values[i*part+behind:], g) })
		}
		if err := k.Deal(values, slices, count); err != nil {
			return fmt.Errorf("%s, exchanging gradients: %w", k.name(k.Rank()), err)
		}
		from, to := r.slot(k.Rank(), at, part)
		within(r.grads, from-r.base(), to-r.base(), func(sum []float32, behind int) {
			for c := range count {
				for j, v := range slices[c*part+behind:][:len(sum)] {
					sum[j] += v
				}
			}
		})
		return nil
	})
}

// reduced gives every rank the whole sums at the end of a batch, if it is to update all parameters.
func (r *run) reduced(ctx context.Context) error {
	switch {
	case r.ranks == nil:
		return r.endSums(ctx)
	case r.own.only:
		return nil
	case r.config.Reduce == ReduceFast:
		return r.sumFast()
	}
	return r.collect(r.grads)
}

// sumFast adds up the gradients of all ranks as the library likes.
func (r *run) sumFast() error {
	k, total := r.ranks, r.own.cuts[r.ranks.Size()]
	began := time.Now()
	defer func() { k.reducing += time.Since(began) }()
	for at := 0; at < total; at += exchanged {
		n := min(exchanged, total-at)
		values, _ := k.buffers(n, 0)
		within(r.grads, at, at+n, func(g []float32, to int) { copy(values[to:], g) })
		if err := k.Sum(values); err != nil {
			return fmt.Errorf("%s, exchanging gradients: %w", k.name(k.Rank()), err)
		}
		within(r.grads, at, at+n, func(g []float32, from int) { copy(g, values[from:]) })
	}
	return nil
}

// collect gives every rank the parts of tensors that the others own.
func (r *run) collect(tensors [][]float32) error {
	k, n := r.ranks, r.ranks.Size()
	began := time.Now()
	defer func() { k.reducing += time.Since(began) }()
	return r.eachSlot(func(at, part int) error {
		values, slice := k.buffers(part*n, part)
		from, to := r.slot(k.Rank(), at, part)
		within(tensors, from, to, func(x []float32, behind int) { copy(slice[behind:], x) })
		if err := k.Collect(slice, values); err != nil {
			return fmt.Errorf("%s, putting tensors together: %w", k.name(k.Rank()), err)
		}
		for i := range n {
			from, to := r.slot(i, at, part)
			within(tensors, from, to, func(x []float32, behind int) { copy(x, values[i*part+behind:]) })
		}
		return nil
	})
}

// logStep notes where the time of a step went.
func (k *ranks) logStep(step int64) {
	if k == nil {
		return
	}
	k.log.Info("step", "step", step, "compute", k.computing.Seconds(), "wait", k.waiting.Seconds(),
		"exchange", k.reducing.Seconds())
	k.computing, k.waiting, k.reducing = 0, 0, 0
}

// buffers are cleared memory for an exchange.
func (k *ranks) buffers(values, slices int) ([]float32, []float32) {
	if cap(k.values) < values {
		k.values = make([]float32, values)
	}
	if cap(k.slices) < slices {
		k.slices = make([]float32, slices)
	}
	clear(k.values[:values])
	return k.values[:values], k.slices[:slices]
}
