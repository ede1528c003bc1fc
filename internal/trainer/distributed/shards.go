package distributed

import (
	"fmt"
	"slices"
	"time"

	"assay/internal/optim"
	"assay/internal/trainer/optimizer"
)

// Sums of floating-point numbers depend on their order, so micro-batches are numbered, and their gradients are summed
// in that order, regardless of the rank that computed them. Each rank owns an equal part of all elements, receives
// that part of every micro-batch's gradient, and sums them as one process would. At the end of a step the parts are
// gathered: the parameters or, if every rank has the full optimizer state, the gradient sums. The result is
// bit-identical to that of one process.
//
// With N ranks, M micro-batches each and gradients of B bytes, every rank sends (M + 1) B (N-1)/N bytes per step. A
// ring all-reduce in its own order (reduce: fast) sends 2 B (N-1)/N. With one micro-batch per rank both are equal.
//
// Optimizer state is sharded (ZeRO's first stage; Rajbhandari et al., 2020): every rank only has the gradient sums
// and the state of its own elements, updates these parameters, and one all-gather of parameters replaces the
// all-gather of gradients. Parts are cut between the blocks over which norms are summed and moments are quantized, so
// that rounding does not change.
//
// Adafactor's state is small, with values per row and column instead of per element: every rank has all of it. The
// same holds with reduce: fast, which sums full gradients.

// Shards divides the elements of all parameters among the processes.
type Shards struct {
	*Group
	Whole bool // every rank has all gradients and the full optimizer state; else only of its own elements

	cuts   []int       // first element of each rank, and the end
	values [][]float32 // of the full parameters
}

// NewShards divides parameters among the ranks.
func NewShards(g *Group, params []optim.Param, whole bool) *Shards {
	s := &Shards{Group: g, Whole: whole, cuts: cut(params, g.Size())}
	for _, p := range params {
		s.values = append(s.values, p.Floats())
	}
	return s
}

// Owned returns the parameters that this process updates: all, or slices of them.
func (s *Shards) Owned(params []optim.Param) []optim.Param {
	if s.Whole {
		return params
	}
	return stretches(params, s.cuts[s.Rank()], s.cuts[s.Rank()+1])
}

// cut returns where the parts of n ranks begin in the concatenated elements of all parameters, and where the last
// part ends. The parts are equal, except that each begins at a block of its tensor.
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

// stretches returns the elements from to to-1 of the concatenated parameters, one slice per parameter.
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

// eachSlot calls f until all elements are exchanged: each call is for at most part elements of every rank, starting
// at its at-th element.
func (s *Shards) eachSlot(f func(at, part int) error) error {
	began := time.Now()
	defer func() { s.reducing += time.Since(began) }()
	most := 0
	for i := range s.Size() {
		most = max(most, s.cuts[i+1]-s.cuts[i])
	}
	part := max(1, optimizer.Exchanged/s.Size())
	for at := 0; at < most; at += part {
		if err := f(at, min(part, most-at)); err != nil {
			return err
		}
	}
	return nil
}

// slot returns the range of elements of a rank in an exchange.
func (s *Shards) slot(rank, at, part int) (from, to int) {
	end := s.cuts[rank+1]
	from = min(s.cuts[rank]+at, end)
	return from, min(from+part, end)
}

// within calls f for the part of each tensor that overlaps elements from to to-1 of the concatenated tensors. at is
// the offset of the part from from.
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

// Add adds the gradients of a round's micro-batches, computed by the first count ranks, to the sums of the elements
// that this process owns. grads are the gradients that it computed itself; nil: none.
func (s *Shards) Add(grads, sums [][]float32, count int) error {
	n, base := s.Size(), 0
	if !s.Whole {
		base = s.cuts[s.Rank()] // the first element of the sums
	}
	return s.eachSlot(func(at, part int) error {
		values, slices := s.buffers(part*n, part*count)
		for i := range n {
			from, to := s.slot(i, at, part)
			within(grads, from, to, func(g []float32, behind int) { copy(values[i*part+behind:], g) })
		}
		if err := s.Deal(values, slices, count); err != nil {
			return fmt.Errorf("%s, exchanging gradients: %w", s.name(s.Rank()), err)
		}
		from, to := s.slot(s.Rank(), at, part)
		within(sums, from-base, to-base, func(sum []float32, behind int) {
			for c := range count {
				for j, v := range slices[c*part+behind:][:len(sum)] {
					sum[j] += v
				}
			}
		})
		return nil
	})
}

// SumFast sums the full gradients of all processes in the library's order.
func (s *Shards) SumFast(sums [][]float32) error {
	total := s.cuts[s.Size()]
	began := time.Now()
	defer func() { s.reducing += time.Since(began) }()
	for at := 0; at < total; at += optimizer.Exchanged {
		n := min(optimizer.Exchanged, total-at)
		values, _ := s.buffers(n, 0)
		within(sums, at, at+n, func(g []float32, to int) { copy(values[to:], g) })
		if err := s.Sum(values); err != nil {
			return fmt.Errorf("%s, exchanging gradients: %w", s.name(s.Rank()), err)
		}
		within(sums, at, at+n, func(g []float32, from int) { copy(g, values[from:]) })
	}
	return nil
}

// Collect copies the elements that other processes own into full tensors; nil: into the parameters.
func (s *Shards) Collect(tensors [][]float32) error {
	if tensors == nil {
		tensors = s.values
	}
	n := s.Size()
	return s.eachSlot(func(at, part int) error {
		values, slice := s.buffers(part*n, part)
		from, to := s.slot(s.Rank(), at, part)
		within(tensors, from, to, func(x []float32, behind int) { copy(slice[behind:], x) })
		if err := s.Ranks.Collect(slice, values); err != nil {
			return fmt.Errorf("%s, gathering tensors: %w", s.name(s.Rank()), err)
		}
		for i := range n {
			from, to := s.slot(i, at, part)
			within(tensors, from, to, func(x []float32, behind int) { copy(x, values[i*part+behind:]) })
		}
		return nil
	})
}

// Norm returns the norm of the full gradient.
func (s *Shards) Norm(sums [][]float32) (float64, error) {
	squares := optim.Squares(sums)
	if s.Whole {
		return optim.Root(squares), nil
	}
	s.Doing("norm of the gradient")
	all, err := Gather(s.Group, "norm of the gradient", squares)
	return optim.Root(slices.Concat(all...)), err
}

// LogStep logs where the time of a step went.
func (g *Group) LogStep(step int64) {
	g.Log.Info("step", "step", step, "compute", g.Computing.Seconds(), "wait", g.Waiting.Seconds(),
		"exchange", g.reducing.Seconds())
	g.Computing, g.Waiting, g.reducing = 0, 0, 0
}

// buffers returns memory for an exchange; values is cleared.
func (g *Group) buffers(values, slices int) ([]float32, []float32) {
	if cap(g.values) < values {
		g.values = make([]float32, values)
	}
	if cap(g.slices) < slices {
		g.slices = make([]float32, slices)
	}
	clear(g.values[:values])
	return g.values[:values], g.slices[:slices]
}
