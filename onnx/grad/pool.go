package grad

import "assay/onnx"

var poolRules = []entry{
	{op: "MaxPool", decompose: maxPool},
	{op: "AveragePool", decompose: averagePool},
	{op: "GlobalAveragePool", decompose: func(c *call) []string {
		return []string{c.reduce("ReduceMean", c.x[0], axesUpTo(c.rank(c.x[0]))[2:], true)}
	}},
	{op: "GlobalMaxPool", decompose: func(c *call) []string {
		return []string{c.reduce("ReduceMax", c.x[0], axesUpTo(c.rank(c.x[0]))[2:], true)}
	}},
}

// maxConstant is the maximum number of elements of a constant that a rule adds.
const maxConstant = 1 << 22

// pooling is a pooling node over x, padded explicitly so that every window is inside.
type pooling struct {
	win   onnx.Window
	count int64   // elements of a window
	pads  []int64 // of all axes of x, including the padding that ceil_mode adds at the ends
	ceil  []int64 // the part of pads that ceil_mode added, by spatial axis
}

func (c *call) pooling() pooling {
	x := c.x[0]
	p := pooling{win: c.window(x, nil)}
	if c.err != nil {
		return p
	}
	n := len(p.win.Kernel)
	p.count = 1
	for _, k := range p.win.Kernel {
		if p.count *= k; k < 1 || p.count > maxConstant {
			c.fail("needs a smaller window than %v", p.win.Kernel)
			return p
		}
	}
	p.pads, p.ceil = make([]int64, 2*(n+2)), make([]int64, n)
	for i := range n {
		before, after := p.win.Pads[i], p.win.Pads[n+i]
		if c.n.Int("ceil_mode", 0) != 0 && p.win.Strides[i] > 1 {
			in, out := c.value(x).Shape[2+i], c.value(c.y[0]).Shape[2+i]
			if !in.Known() || !out.Known() {
				c.fail("needs the spatial sizes of %q, which ceil_mode depends on", x)
				return p
			}
			span := (p.win.Kernel[i]-1)*p.win.Dilations[i] + 1
			p.ceil[i] = max(0, (out.Size-1)*p.win.Strides[i]+span-in.Size-before-after)
		}
		p.pads[2+i], p.pads[n+4+i] = before, after+p.ceil[i]
	}
	return p
}

func (p pooling) padded() bool {
	for _, v := range p.pads {
		if v != 0 {
			return true
		}
	}
	return false
}

// unfold returns the convolution of single channels [M, 1, ...] with a kernel [K, 1, ...]: one output channel for
// each kernel.
func (c *call) unfold(single, kernel string, p pooling) string {
	return c.OpA("Conv", attrs{"strides": p.win.Strides, "dilations": p.win.Dilations}, single, kernel)
}

// channelsAsBatch makes every channel a sample: [N, C, ...] -> [N*C, 1, ...].
func (c *call) channelsAsBatch(x string) string {
	dims := []any{-1, 1}
	for i := 2; i < c.rank(x); i++ {
		dims = append(dims, c.size(x, i))
	}
	return c.reshape(x, dims...)
}

// maxPool: a convolution with one-hot kernels turns the elements of every window into channels, whose maximum is
// taken. In the backward pass, the transposed convolution sums overlapping windows in a fixed order.
func maxPool(c *call) []string {
	p := c.pooling()
	if c.err != nil {
		return nil
	}
	x := c.x[0]
	if p.padded() {
		x = c.Op("Pad", x, c.Ints(p.pads...), c.lowest(x))
	}
	count := p.count
	if count*count > maxConstant {
		return c.fail("needs a smaller window than %v", p.win.Kernel)
	}
	eye := make([]float64, count*count)
	for i := range count {
		eye[i*count+i] = 1
	}
	kernel := c.Numbers(c.value(x).Type, append([]int64{count, 1}, p.win.Kernel...), eye...)
	best := c.reduce("ReduceMax", c.unfold(c.channelsAsBatch(x), kernel, p), []int64{1}, true)
	return []string{c.reshapeLike(best, c.y[0])}
}

// averagePool: the sum over every window, divided by the number of its counted elements.
func averagePool(c *call) []string {
	p := c.pooling()
	if c.err != nil {
		return nil
	}
	x := c.x[0]
	t := c.value(x).Type
	ones := make([]float64, p.count)
	for i := range ones {
		ones[i] = 1
	}
	kernel := c.Numbers(t, append([]int64{1, 1}, p.win.Kernel...), ones...)
	single := c.channelsAsBatch(x)
	if !p.padded() {
		return []string{c.scale(c.reshapeLike(c.unfold(single, kernel, p), c.y[0]), 1/float64(p.count))}
	}
	zero := c.scalarLike(x, 0)
	sum := c.unfold(c.Op("Pad", single, c.Ints(p.pads...), zero), kernel, p)
	real := []any{1, 1}
	n := len(p.win.Kernel)
	rest := make([]int64, len(p.pads)) // padding that is not counted
	copy(rest, p.pads)
	for i := range n {
		size := c.size(x, 2+i)
		if c.n.Int("count_include_pad", 0) != 0 {
			size = c.addToSize(size, p.pads[2+i]+p.pads[n+4+i]-p.ceil[i])
			rest[2+i], rest[n+4+i] = 0, p.ceil[i]
		}
		real = append(real, size)
	}
	counts := c.unfold(c.Op("Pad", c.full(c.shape(real...), t, 1), c.Ints(rest...), zero), kernel, p)
	return []string{c.reshapeLike(c.div(sum, counts), c.y[0])}
}

// addToSize adds a number to a size.
func (c *call) addToSize(size string, n int64) string {
	if v, ok := c.value(size).Known(); ok {
		return c.Ints(v[0] + n)
	}
	return c.add(size, c.Ints(n))
}
