package trainer

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"assay/internal/workers"
)

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter, 2019), step for step as torch.optim.AdamW does it:
//
//	p -= lr wd p
//	m += (1 - b1) (g - m)
//	v  = b2 v + (1 - b2) g g
//	p -= lr/(1 - b1^t) m / (sqrt(v)/sqrt(1 - b2^t) + eps)
//
// Parameters and moments are float32, the bias corrections float64.
type AdamW struct {
	Betas       [2]float64
	Eps         float64
	WeightDecay float64

	Step int64       // updates so far, t
	M, V [][]float32 // moments, in the order of the parameters
}

// NewAdamW makes the optimizer of params with zero moments.
func NewAdamW(c OptimizerConfig, params []Param) *AdamW {
	a := &AdamW{Betas: [2]float64{c.Betas[0], c.Betas[1]}, Eps: c.Eps, WeightDecay: c.WeightDecay}
	for _, p := range params {
		n := len(floats(p.Value)) // DataSize of a scalar is 0
		a.M = append(a.M, make([]float32, n))
		a.V = append(a.V, make([]float32, n))
	}
	return a
}

// Update changes params in place by their gradients at learning rate lr.
func (a *AdamW) Update(params []Param, grads [][]float32, lr float64) {
	a.Step++
	c1 := 1 - math.Pow(a.Betas[0], float64(a.Step))
	c2 := 1 - math.Pow(a.Betas[1], float64(a.Step))
	k := kernel{
		keep: float32(1 - lr*a.WeightDecay), b1: float32(1 - a.Betas[0]), b2: float32(a.Betas[1]), c2: float32(1 - a.Betas[1]),
		size: float32(-lr / c1), root: float32(math.Sqrt(c2)), eps: float32(a.Eps),
	}
	var jobs []func()
	for i, p := range params {
		values := floats(p.Value)
		for lo := 0; lo < len(values); lo += block {
			hi := min(lo+block, len(values))
			jobs = append(jobs, func() { k.run(values[lo:hi], a.M[i][lo:hi], a.V[i][lo:hi], grads[i][lo:hi]) })
		}
	}
	parallel(jobs)
}

// block is the number of elements one goroutine updates at a time. Elements do not depend on each other, so neither the
// size nor the number of cores changes a bit of the result.
const block = 1 << 16

type kernel struct{ keep, b1, b2, c2, size, root, eps float32 }

func (k *kernel) run(p, m, v, g []float32) {
	for i := range p {
		mi := m[i] + k.b1*(g[i]-m[i])
		vi := k.b2*v[i] + k.c2*g[i]*g[i]
		m[i], v[i] = mi, vi
		den := float32(math.Sqrt(float64(vi)))/k.root + k.eps
		p[i] = p[i]*k.keep + k.size*mi/den
	}
}

// norm is the L2 norm of all gradients together. The sums run in float64 over fixed blocks, so that the result does not
// depend on the number of cores.
func norm(grads [][]float32) float64 {
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

// clip scales the gradients so that their norm is at most limit, as torch.nn.utils.clip_grad_norm_ does: by
// min(1, limit/(norm + 1e-6)). 0: no limit.
func clip(grads [][]float32, norm, limit float64) {
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

// floats gives the elements of a float32 tensor, row-major, in place.
func floats(t *tensor.Dense) []float32 { return t.Float32s() }

// checkParams makes sure that the parameters are what the optimizer can update in place.
func checkParams(params []Param) error {
	if len(params) == 0 {
		return fmt.Errorf("the model has no trainable parameters")
	}
	seen := map[string]bool{}
	for _, p := range params {
		switch {
		case p.Value == nil || p.Value.Dtype() != tensor.Float32:
			return fmt.Errorf("parameter %s: the optimizer wants float32", p.Name)
		case p.Value.RequiresIterator():
			return fmt.Errorf("parameter %s: the optimizer wants contiguous values, not a view", p.Name)
		case seen[p.Name]:
			return fmt.Errorf("two parameters have the name %s", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}
