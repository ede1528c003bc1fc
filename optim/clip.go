package optim

import (
	"math"

	"assay/internal/workers"
)

// Norm is the L2 norm of all gradients together. The sums run in float64 over fixed blocks, so that the result does not
// depend on the number of cores.
func Norm(grads [][]float32) float64 {
	sums := make([][]float64, len(grads))
	var jobs []func()
	for i, g := range grads {
		sums[i] = make([]float64, (len(g)+block-1)/block)
		for b := range sums[i] {
			jobs = append(jobs, func() {
				s := 0.0
				for _, x := range g[b*block : min((b+1)*block, len(g))] {
					s += float64(x) * float64(x)
				}
				sums[i][b] = s
			})
		}
	}
	parallel(jobs)
	total := 0.0
	for _, t := range sums {
		for _, s := range t {
			total += s
		}
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
		for lo := 0; lo < len(g); lo += block {
			part := g[lo:min(lo+block, len(g))]
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
