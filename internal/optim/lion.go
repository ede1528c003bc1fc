package optim

// Lion moves every element by the learning rate, in the direction of the sign of the momentum (Chen et al., Symbolic
// Discovery of Optimization Algorithms, 2023), with decoupled weight decay:
//
//	p -= lr wd p
//	p -= lr sign(b1 m + (1 - b1) g)
//	m  = b2 m + (1 - b2) g
//
// It needs a learning rate three to ten times smaller than AdamW's, and a weight decay larger by the same factor.
type Lion struct {
	Betas       [2]float64
	WeightDecay float64
	Decayed     []bool // parameters that decay; nil: all

	M      [][]float32 // momentum, in the order of the parameters
	count  int64
	places []place
}

// NewLion creates the optimizer of params with zero momentum.
func NewLion(params []Param, betas [2]float64, weightDecay float64) *Lion {
	return &Lion{Betas: betas, WeightDecay: weightDecay, M: zeros(params), places: places(params)}
}

// Update changes params in place by their gradients at learning rate lr.
func (l *Lion) Update(params []Param, grads [][]float32, lr float64) {
	l.count++
	b1, c1, b2, c2 := float32(l.Betas[0]), float32(1-l.Betas[0]), float32(l.Betas[1]), float32(1-l.Betas[1])
	rate := float32(lr)
	var jobs []func()
	for i, p := range params {
		stay := keep(l.Decayed, i, lr, l.WeightDecay)
		values, m, g := p.Floats(), l.M[i], grads[i]
		for lo := 0; lo < len(values); lo += Block {
			hi := min(lo+Block, len(values))
			jobs = append(jobs, func() {
				for j := lo; j < hi; j++ {
					x := values[j] * stay
					switch c := m[j]*b1 + g[j]*c1; {
					case c > 0:
						x -= rate
					case c < 0:
						x += rate
					}
					values[j] = x
					m[j] = m[j]*b2 + g[j]*c2
				}
			})
		}
	}
	parallel(jobs)
}

// State returns the momentum.
func (l *Lion) State() []State {
	var out []State
	for i := range l.M {
		out = append(out, l.places[i].state("momentum", i, l.M[i]))
	}
	return out
}

// Updates returns the number of updates so far.
func (l *Lion) Updates() int64 { return l.count }

// SetUpdates sets the number of updates.
func (l *Lion) SetUpdates(n int64) { l.count = n }
