package trainer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/losses"
)

// The gradients of a batch are the sum of those of its micro-batches, and sums of floating-point numbers depend on
// their order. So micro-batches have numbers, and are added up in that order whichever rank made them: each rank owns
// an equal part of all elements, is given that part of every micro-batch's gradient, and folds them as a process alone
// would. At the end of the step the parts are put together. The result is that of one process, bit for bit.
//
// With N ranks, M micro-batches each and gradients of B bytes every rank sends (M + 1) B (N-1)/N bytes a step; a ring
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

// eachChunk calls f for stretches of the gradients' elements, which ranks own in equal parts of part elements; the last
// ones may end behind the last element.
func (r *run) eachChunk(f func(at, part int) error) error {
	total, n := 0, r.ranks.Size()
	for _, g := range r.grads {
		total += len(g)
	}
	for at := 0; at < total; {
		part := (min(exchanged, total-at) + n - 1) / n
		if err := f(at, part); err != nil {
			return err
		}
		at += part * n
	}
	return nil
}

// within calls f for every stretch of the elements from to to-1 that lies in one tensor: its number, where in the
// tensor, and how far behind from it begins.
func within(tensors [][]float32, from, to int, f func(i, lo, hi, at int)) {
	begin := 0
	for i, t := range tensors {
		lo, hi := max(from, begin), min(to, begin+len(t))
		if lo < hi {
			f(i, lo-begin, hi-begin, lo-from)
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
	return r.eachChunk(func(at, part int) error {
		values, slices := k.buffers(part*n, part*count)
		if out != nil {
			within(r.grads, at, at+part*n, func(i, lo, hi, to int) {
				copy(values[to:], out.Grads[i].Float32s()[lo:hi])
			})
		}
		if err := k.Deal(values, slices, count); err != nil {
			return fmt.Errorf("%s, exchanging gradients: %w", k.name(k.Rank()), err)
		}
		from := at + k.Rank()*part
		within(r.grads, from, from+part, func(i, lo, hi, behind int) {
			sum := r.grads[i][lo:hi]
			for c := range count {
				for j, v := range slices[c*part+behind:][:hi-lo] {
					sum[j] += v
				}
			}
		})
		return nil
	})
}

// reduced gives every rank the whole sums, at the end of a batch.
func (r *run) reduced() error {
	k := r.ranks
	if k == nil {
		return nil
	}
	began := time.Now()
	err := r.eachChunk(func(at, part int) error {
		n := k.Size()
		values, slice := k.buffers(part*n, part)
		var err error
		if r.config.Reduce == ReduceFast {
			within(r.grads, at, at+part*n, func(i, lo, hi, to int) { copy(values[to:], r.grads[i][lo:hi]) })
			err = k.Sum(values)
		} else {
			from := at + k.Rank()*part
			within(r.grads, from, from+part, func(i, lo, hi, to int) { copy(slice[to:], r.grads[i][lo:hi]) })
			err = k.Collect(slice, values)
		}
		if err != nil {
			return fmt.Errorf("%s, exchanging gradients: %w", k.name(k.Rank()), err)
		}
		within(r.grads, at, at+part*n, func(i, lo, hi, from int) { copy(r.grads[i][lo:hi], values[from:]) })
		return nil
	})
	k.reducing += time.Since(began)
	k.log.Info("step", "step", r.state.Step+1, "compute", k.computing.Seconds(), "wait", k.waiting.Seconds(),
		"exchange", k.reducing.Seconds())
	k.computing, k.waiting, k.reducing = 0, 0, 0
	return err
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
