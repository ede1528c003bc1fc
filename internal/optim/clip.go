package optim

import (
	"math"
	"slices"

	"assay/internal/workers"
)

// Squares returns the sum of squares of every block of gradients, in float64: the result does not depend on the
// number of cores. If tensors are sharded at block boundaries, the shards' sums concatenate to the full tensor's.
func Squares(grads [][]float32) []float64 {
	var blocks [][]float32
	for _, g := range grads {
		for part := range slices.Chunk(g, Block) {
			blocks = append(blocks, part)
		}
	}
	sums := make([]float64, len(blocks))
	workers.Do(len(blocks), func(b int) {
		s := 0.0
		for _, x := range blocks[b] {
			s += float64(x) * float64(x)
		}
		sums[b] = s
	})
	return sums
}

// Root returns the square root of the sum of squares: a norm.
func Root(squares []float64) float64 {
	total := 0.0
	for _, s := range squares {
		total += s
	}
	return math.Sqrt(total)
}

// Clip scales the gradients so that their norm is at most limit, as torch.nn.utils.clip_grad_norm_ does: by
// min(1, limit/(norm + 1e-6)). 0: no limit.
func Clip(grads [][]float32, norm, limit float64) {
	scale := float32(limit / (norm + 1e-6))
	if limit == 0 || scale >= 1 {
		return
	}
	var jobs []func()
	for _, g := range grads {
		for part := range slices.Chunk(g, Block) {
			jobs = append(jobs, func() {
				for i := range part {
					part[i] *= scale
				}
			})
		}
	}
	parallel(jobs)
}

// parallel runs independent jobs on all cores.
func parallel(jobs []func()) { workers.Do(len(jobs), func(i int) { jobs[i]() }) }
