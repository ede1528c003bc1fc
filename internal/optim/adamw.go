package optim

import (
	"math"
)

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter, 2019), step for step like torch.optim.AdamW:
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
	Decayed     []bool // parameters that decay; nil: all

	Step int64       // updates so far, t
	M, V [][]float32 // moments, in the order of the parameters

	places []place
}

// NewAdamW creates the optimizer of params with zero moments.
func NewAdamW(params []Param, betas [2]float64, eps, weightDecay float64) *AdamW {
	return &AdamW{
		Betas:       betas,
		Eps:         eps,
		WeightDecay: weightDecay,
		M:           zeros(params),
		V:           zeros(params),
		places:      places(params),
	}
}

// Update changes params in place by their gradients at learning rate lr.
func (a *AdamW) Update(params []Param, grads [][]float32, lr float64) {
	a.Step++
	c1 := 1 - math.Pow(a.Betas[0], float64(a.Step))
	c2 := 1 - math.Pow(a.Betas[1], float64(a.Step))
	k := kernel{
		b1:   float32(1 - a.Betas[0]),
		b2:   float32(a.Betas[1]),
		c2:   float32(1 - a.Betas[1]),
		size: float32(-lr / c1),
		root: float32(math.Sqrt(c2)),
		eps:  float32(a.Eps),
	}
	var jobs []func()
	for i, p := range params {
		k, values := k, p.Floats()
		k.keep = keep(a.Decayed, i, lr, a.WeightDecay)
		for lo := 0; lo < len(values); lo += Block {
			hi := min(lo+Block, len(values))
			jobs = append(jobs, func() { k.run(values[lo:hi], a.M[i][lo:hi], a.V[i][lo:hi], grads[i][lo:hi]) })
		}
	}
	parallel(jobs)
}

// State returns the two moments.
func (a *AdamW) State() []State {
	var out []State
	for i := range a.M {
		out = append(out, a.places[i].state("moment1", i, a.M[i]), a.places[i].state("moment2", i, a.V[i]))
	}
	return out
}

// Updates returns the number of updates so far.
func (a *AdamW) Updates() int64 { return a.Step }

// SetUpdates sets the number of updates.
func (a *AdamW) SetUpdates(n int64) { a.Step = n }

// Block is the number of elements that one goroutine updates at a time, and that [Squares] sums at a time. Elements
// are independent, so neither the block size nor the number of cores changes a bit of an update.
const Block = 1 << 16

// kernel holds the factors of one update: keep of the parameter, b1 and c2 of the gradient in the moments, b2 of the
// old second moment. -size is the corrected learning rate, and root the correction of the second moment.
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
