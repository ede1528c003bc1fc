package optim

import (
	"math"
	"sort"

	"gorgonia.org/tensor"
)

// AdamW8 is AdamW with one byte per moment (Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2022),
// with the format and steps of bitsandbytes' AdamW8bit. A block of 256 moments is stored as its largest magnitude
// (float32) and, for each moment, the index of the nearest of the 256 values of dynamicMap. Tensors with fewer than
// 4,096 elements keep float32 moments. Every update dequantizes a block, applies AdamW, and quantizes it again.
type AdamW8 struct {
	Betas       [2]float64
	Eps         float64
	WeightDecay float64
	Decayed     []bool // parameters that decay; nil: all

	count  int64
	places []place
	m, v   []moments
	maps   [2]*codes
}

// moments of one parameter: full, or bytes with the scales of their blocks.
type moments struct {
	full   []float32
	codes  []byte
	scales []float32
}

const (
	block8 = 256  // elements per block
	small8 = 4096 // elements of the smallest tensor with 8-bit moments
)

// NewAdamW8 creates the optimizer of params with zero moments.
func NewAdamW8(params []Param, betas [2]float64, eps, weightDecay float64) *AdamW8 {
	a := &AdamW8{Betas: betas, Eps: eps, WeightDecay: weightDecay, places: places(params)}
	a.maps = [2]*codes{newCodes(dynamicMap(true)), newCodes(dynamicMap(false))}
	for _, p := range params {
		n, full := len(p.Floats()), tensor.Shape(p.shape()).TotalSize() < small8
		a.m, a.v = append(a.m, newMoments(n, full)), append(a.v, newMoments(n, full))
	}
	return a
}

func newMoments(n int, full bool) moments {
	if full {
		return moments{full: make([]float32, n)}
	}
	return moments{codes: make([]byte, n), scales: make([]float32, (n+block8-1)/block8)}
}

// Moments8 returns the size of AdamW8's state for a tensor of n elements, in bytes.
func Moments8(n int64) int64 {
	if n < small8 {
		return 8 * n
	}
	return 2 * (n + 4*((n+block8-1)/block8))
}

// Update changes params in place by their gradients at learning rate lr.
func (a *AdamW8) Update(params []Param, grads [][]float32, lr float64) {
	a.count++
	c1 := 1 - math.Pow(a.Betas[0], float64(a.count))
	c2 := math.Sqrt(1 - math.Pow(a.Betas[1], float64(a.count)))
	var jobs []func()
	for i, p := range params {
		stay := keep(a.Decayed, i, lr, a.WeightDecay)
		values, g := p.Floats(), grads[i]
		for lo := 0; lo < len(values); lo += Block {
			hi := min(lo+Block, len(values))
			jobs = append(jobs, func() {
				for at := lo; at < hi; at += block8 {
					end := min(at+block8, hi)
					a.step(i, at, values[at:end], g[at:end], rates{stay, float32(-lr / c1), float32(c2)})
				}
			})
		}
	}
	parallel(jobs)
}

// rates are the factors of an update: of the parameter (weight decay), of the first moment (step size), and the root
// of the second moment's bias correction.
type rates struct{ stay, size, root float32 }

// step updates a block p of parameter i, starting at element at, by its gradients g.
func (a *AdamW8) step(i, at int, p, g []float32, by rates) {
	m, v := &a.m[i], &a.v[i]
	var bufM, bufV [block8]float32
	first, second := m.open(a.maps[0], bufM[:len(p)], at), v.open(a.maps[1], bufV[:len(p)], at)
	b1, b2, eps := float32(a.Betas[0]), float32(a.Betas[1]), float32(a.Eps)
	r1, r2 := float32(1-a.Betas[0]), float32(1-a.Betas[1])
	for j := range p {
		first[j] = first[j]*b1 + g[j]*r1
		second[j] = second[j]*b2 + r2*g[j]*g[j]
		p[j] = p[j]*by.stay + by.size*first[j]/(float32(math.Sqrt(float64(second[j])))/by.root+eps)
	}
	m.close(a.maps[0], first, at)
	v.close(a.maps[1], second, at)
}

// open returns a block of moments as floats: the moments themselves, or their dequantized values in buf.
func (m *moments) open(c *codes, buf []float32, at int) []float32 {
	if m.full != nil {
		return m.full[at : at+len(buf)]
	}
	scale := m.scales[at/block8]
	for j := range buf {
		buf[j] = c.values[m.codes[at+j]] * scale
	}
	return buf
}

// close quantizes a block that open returned.
func (m *moments) close(c *codes, x []float32, at int) {
	if m.full != nil {
		return
	}
	most := float32(0)
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	m.scales[at/block8] = most
	by := float32(0)
	if most > 0 {
		by = 1 / most
	}
	for j, v := range x {
		m.codes[at+j] = c.nearest(v * by)
	}
}

// codes are the values of a map, ascending.
type codes struct {
	values [256]float32
	first  [1 << 11]uint8 // for each interval of -1..1, the code of its lower end, where the search starts
}

func newCodes(values [256]float32) *codes {
	c := &codes{values: values}
	for i := range c.first {
		low := float32(i)/float32(len(c.first)/2) - 1
		c.first[i] = uint8(max(0, sort.Search(256, func(k int) bool { return values[k] > low })-1))
	}
	return c
}

// nearest returns the code of the value nearest to x, the lower one on a tie.
func (c *codes) nearest(x float32) byte {
	half := float32(len(c.first) / 2)
	at := int(c.first[min(max(int((x+1)*half), 0), len(c.first)-1)])
	for at > 0 && c.values[at] > x {
		at--
	}
	for at < 255 && c.values[at+1] <= x {
		at++
	}
	if at < 255 && c.values[at+1]-x < x-c.values[at] {
		at++
	}
	return byte(at)
}

// dynamicMap returns the 256 values between -1 and 1 (0 and 1 if unsigned) of the dynamic data type. See Dettmers,
// 8-Bit Approximations for Parallelism in Deep Learning, 2016, and bitsandbytes' create_dynamic_map. They are 0, 1,
// and the means of neighbours, with both signs, times each power of ten from 1e-6 to 1. The neighbours are among 2^i
// + 1 numbers from 0.1 to 1 (2^(i+1) + 1 if unsigned).
func dynamicMap(signed bool) (values [256]float32) {
	list := []float64{0, 1}
	for i := range 7 {
		n := 1 << i
		if !signed {
			n *= 2
		}
		power := math.Pow(10, float64(i-6))
		for k := range n {
			v := float64(float32(power) * ((linspace(k, n) + linspace(k+1, n)) / 2))
			list = append(list, v)
			if signed {
				list = append(list, -v)
			}
		}
	}
	sort.Float64s(list)
	for i, v := range list {
		values[i] = float32(v)
	}
	return values
}

// linspace returns element k of torch.linspace(0.1, 1, n + 1) in float32, which counts from the nearer end and rounds
// once.
func linspace(k, n int) float32 {
	start := float32(0.1)
	step := float64((1 - start) / float32(n))
	if k < (n+1)/2 {
		return float32(float64(start) + step*float64(k))
	}
	return float32(1 - step*float64(n-k))
}

// State returns the two moments: float32, or codes with scales.
func (a *AdamW8) State() []State {
	var out []State
	for i := range a.m {
		for k, m := range []*moments{&a.m[i], &a.v[i]} {
			kind := []string{"moment1", "moment2"}[k]
			if m.full != nil {
				out = append(out, a.places[i].state(kind, i, m.full))
				continue
			}
			whole, first := a.places[i].shape, a.places[i].first
			blocks := (tensor.Shape(whole).TotalSize() + block8 - 1) / block8
			out = append(out, State{Kind: kind + "_codes", Param: i, Shape: whole, First: first, Bytes: m.codes},
				State{Kind: kind + "_scales", Param: i, Shape: []int{blocks}, First: first / block8, Values: m.scales})
		}
	}
	return out
}

// Updates returns the number of updates so far.
func (a *AdamW8) Updates() int64 { return a.count }

// SetUpdates sets the number of updates.
func (a *AdamW8) SetUpdates(n int64) { a.count = n }
