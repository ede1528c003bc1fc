package optim

import "math"

// Adafactor only stores the row and column means of the second moments of a matrix (Shazeer and Stern, 2018), step
// for step like torch.optim.Adafactor. With t updates so far, r = min(lr, 1/sqrt(t)), b = t^decay:
//
//	p -= lr wd p
//	R  = R + b (mean over columns of g g - R),  C likewise over rows,  V = R C / mean(R)     (vectors: V itself)
//	u  = g / sqrt(max(V, eps1^2))
//	p -= max(eps2, rms(p)) r u / max(1, rms(u)/d)
//
// Tensors with more axes are batches of matrices over their last two.
type Adafactor struct {
	Decay       float64 // of b: -0.8
	Eps1, Eps2  float64 // 2^-23 (float32's), 1e-3
	D           float64 // 1
	WeightDecay float64
	Decayed     []bool // parameters that decay; nil: all

	rows, cols, full [][]float32 // full: second moments of vectors
	shape            [][]int
	count            int64
}

// NewAdafactor creates the optimizer of params with torch's defaults.
func NewAdafactor(params []Param, weightDecay float64) *Adafactor {
	a := &Adafactor{Decay: -0.8, Eps1: math.Ldexp(1, -23), Eps2: 1e-3, D: 1, WeightDecay: weightDecay}
	a.rows, a.cols, a.full = make([][]float32, len(params)), make([][]float32, len(params)), make([][]float32, len(params))
	for i, p := range params {
		s, n := p.shape(), len(p.Floats())
		a.shape = append(a.shape, s)
		if len(s) < 2 {
			a.full[i] = make([]float32, n)
			continue
		}
		wide := s[len(s)-1]
		a.rows[i], a.cols[i] = make([]float32, n/wide), make([]float32, n/s[len(s)-2])
	}
	return a
}

// Update changes params in place by their gradients at learning rate lr.
func (a *Adafactor) Update(params []Param, grads [][]float32, lr float64) {
	a.count++
	t := float64(a.count)
	share, rate := math.Pow(t, a.Decay), math.Min(lr, 1/math.Sqrt(t))
	var jobs []func()
	for i, p := range params {
		jobs = append(jobs, func() {
			values, g := p.Floats(), grads[i]
			alpha := math.Max(a.Eps2, rms(values)) * rate
			stay := keep(a.Decayed, i, lr, a.WeightDecay)
			update := a.direction(i, g, share)
			step := float32(-alpha / math.Max(1, rms(update)/a.D))
			for j := range values {
				values[j] = values[j]*stay + step*update[j]
			}
		})
	}
	parallel(jobs)
}

// direction updates the second moments and returns u.
func (a *Adafactor) direction(i int, g []float32, share float64) []float32 {
	u, least := make([]float32, len(g)), a.Eps1*a.Eps1
	scaled := func(j int, v float64) { u[j] = float32(float64(g[j]) / math.Sqrt(math.Max(v, least))) }
	if v := a.full[i]; v != nil {
		for j, x := range g {
			v[j] += float32(share) * (x*x - v[j])
			scaled(j, float64(v[j]))
		}
		return u
	}
	s := a.shape[i]
	high, wide := s[len(s)-2], s[len(s)-1]
	for m := range len(g) / (high * wide) {
		part := g[m*high*wide : (m+1)*high*wide]
		rows, cols := a.rows[i][m*high:(m+1)*high], a.cols[i][m*wide:(m+1)*wide]
		blend(rows, cols, part, share)
		mean := 0.0
		for _, r := range rows {
			mean += float64(r) / float64(high)
		}
		mean = math.Max(mean, a.Eps1)
		for y, r := range rows {
			for x, c := range cols {
				scaled(m*high*wide+y*wide+x, float64(r)*float64(c)/mean)
			}
		}
	}
	return u
}

// blend moves the row and column means towards those of g g.
func blend(rows, cols, g []float32, share float64) {
	sums := make([]float64, len(cols))
	for y := range rows {
		sum := 0.0
		for x := range cols {
			v := float64(g[y*len(cols)+x])
			sum, sums[x] = sum+v*v, sums[x]+v*v
		}
		rows[y] += float32(share * (sum/float64(len(cols)) - float64(rows[y])))
	}
	for x := range cols {
		cols[x] += float32(share * (sums[x]/float64(len(rows)) - float64(cols[x])))
	}
}

// rms returns the root mean square.
func rms(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum / float64(max(1, len(v))))
}

// State returns the row and column means, or all second moments of a vector.
func (a *Adafactor) State() []State {
	var out []State
	for i, s := range a.shape {
		if a.full[i] != nil {
			out = append(out, State{Kind: "variance", Param: i, Shape: s, Values: a.full[i]})
			continue
		}
		n := len(s)
		out = append(out, State{Kind: "rows", Param: i, Shape: s[:n-1], Values: a.rows[i]},
			State{Kind: "columns", Param: i, Shape: append(append([]int{}, s[:n-2]...), s[n-1]), Values: a.cols[i]})
	}
	return out
}

// Updates returns the number of updates so far.
func (a *Adafactor) Updates() int64 { return a.count }

// SetUpdates sets the number of updates.
func (a *Adafactor) SetUpdates(n int64) { a.count = n }
