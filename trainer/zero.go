package trainer

import (
	"slices"
	"time"

	"assay/optim"
)

// Several ranks share out what the optimizer keeps (ZeRO's first stage; Rajbhandari et al., 2020). Every rank owns an
// equal part of all elements, one stretch of them. It has the sum of the gradients and the optimizer's state of that
// part alone. It updates its part of the parameters, and the parts are put together: one exchange, in place of that of
// the gradients. Parts are cut between the blocks over which norms are added up and moments are rounded. So every bit
// is that of one process, and so is the saved state, which is whole.
//
// Adafactor's state is of rows and columns: little, and not of elements. Every rank has it whole. So it is with reduce:
// fast, which adds up whole gradients.

// ownership says which elements ranks own, and what the optimizer updates here.
type ownership struct {
	cuts   []int         // where the elements of each rank begin, and the end; nil: there is one process
	only   bool          // gradients and the optimizer's state are those of this rank's elements alone
	owned  []optim.Param // what the optimizer updates here: whole parameters, or stretches
	values [][]float32   // of the whole parameters
}

// shareOut decides what this rank owns, and makes the optimizer of that.
func (r *run) shareOut() (err error) {
	r.own.owned = r.params
	if k := r.ranks; k != nil {
		r.own.cuts = cut(r.params, k.Size())
		for _, p := range r.params {
			r.own.values = append(r.own.values, p.Floats())
		}
		if r.own.only = r.config.Reduce == ReduceOrdered && r.config.elementwise(); r.own.only {
			r.own.owned = stretches(r.params, r.own.cuts[k.Rank()], r.own.cuts[k.Rank()+1])
		}
	}
	r.optimizer, err = r.config.newOptimizer(r.params, r.own.owned)
	return err
}

// makeGrads makes room for the sums of the gradients.
func (r *run) makeGrads() {
	r.grads = nil
	for _, p := range r.own.owned {
		r.grads = append(r.grads, make([]float32, len(p.Floats())))
	}
}

// base is the number of the element that the gradients begin with.
func (r *run) base() int {
	if !r.own.only {
		return 0
	}
	return r.own.cuts[r.ranks.Rank()]
}

// cut gives where the parts of n ranks begin, over the elements of all parameters one behind the other, and where the
// last one ends. The parts are equal, but each begins at a block of its tensor.
func cut(params []optim.Param, n int) []int {
	total, begin, next := 0, 0, 1
	for _, p := range params {
		total += len(p.Floats())
	}
	cuts := make([]int, n+1)
	for _, p := range params {
		size := len(p.Floats())
		for ; next < n && total/n*next+total%n*next/n <= begin+size; next++ {
			at := total/n*next + total%n*next/n - begin
			cuts[next] = begin + min((at+optim.Block-1)/optim.Block*optim.Block, size)
		}
		begin += size
	}
	cuts[n] = total
	return cuts
}

// stretches are the elements from to to-1 of parameters that lie one behind the other.
func stretches(params []optim.Param, from, to int) (out []optim.Param) {
	begin := 0
	for _, p := range params {
		size := len(p.Floats())
		if lo, hi := max(from-begin, 0), min(to-begin, size); lo < hi {
			out = append(out, p.Stretch(lo, hi))
		}
		begin += size
	}
	return out
}

// norm is that of the whole gradient.
func (r *run) norm() (float64, error) {
	squares := optim.Squares(r.grads)
	if !r.own.only {
		return optim.Root(squares), nil
	}
	r.ranks.Doing("norm of the gradient")
	all, err := gather(r.ranks, "norm of the gradient", squares)
	return optim.Root(slices.Concat(all...)), err
}

// apply updates the parameters by the gradients, whose norm is n.
func (r *run) apply(n float64, lrs []float64) error {
	optim.Clip(r.grads, n, r.config.ClipNorm)
	r.optimizer.Update(r.own.owned, r.grads, lrs)
	if !r.own.only {
		return nil
	}
	if err := r.collect(r.own.values); err != nil {
		return &unrecorded{err} // some have the new parameters, some have not
	}
	return nil
}

// saveDue tells whether a checkpoint is to be written now. Where all ranks write it, the first one looks at its clock.
func (r *run) saveDue() (bool, error) {
	c := r.config.Checkpoint
	due := c.Steps > 0 && r.state.Step-r.savedAt >= c.Steps ||
		c.Minutes > 0 && time.Since(r.lastSave).Minutes() >= c.Minutes
	if c.Minutes == 0 || !r.own.only {
		return due, nil
	}
	all, err := gather(r.ranks, "whether to save", due)
	return err == nil && all[0], err
}
