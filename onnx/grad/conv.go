package grad

import "assay/onnx"

var convRules = []entry{
	{op: "Conv", rule: convRule},
	{op: "ConvTranspose", rule: convTransposeRule},
	{
		op:                "Resize",
		nonDifferentiable: []int{1, 2, 3},
		decompose:         resize,
		note: "antialias, exclude_outside and keep_aspect_ratio_policy if the sizes are known before the model " +
			"runs",
	},
}

// window returns the geometry of the node's convolution or pooling over x.
func (c *call) window(x string, kernel []int64) onnx.Window {
	if c.rank(x) < 3 {
		c.fail("needs data of rank 3 or more")
		return onnx.Window{}
	}
	w := onnx.WindowOf(c.n, kernel, c.value(x).Shape[2:])
	if w.Pads == nil {
		c.fail("needs the spatial sizes of %q, which auto_pad depends on", x)
	}
	return w
}

func (c *call) kernel(w string) []int64 {
	s := c.sizes(w, "the sizes of the kernel")
	if len(s) < 3 {
		c.fail("needs a kernel of rank 3 or more")
		return nil
	}
	return s[2:]
}

// Y = X * W + b: dX is the transposed convolution of dY, dW the convolution of X with dY, db the sum of dY.
func convRule(c *call) []string {
	x, w, dy := c.x[0], c.x[1], c.dy[0]
	k := c.kernel(w)
	if c.err != nil {
		return nil
	}
	win, group := c.window(x, k), c.n.Int("group", 1)
	if c.err != nil {
		return nil
	}
	g := make([]string, len(c.x))
	if c.needs(0) {
		g[0] = c.convInput(x, w, dy, win, group)
	}
	if c.needs(1) {
		g[1] = c.convKernel(x, dy, w, win, group)
	}
	if c.needs(2) {
		g[2] = c.channelSum(dy)
	}
	return g
}

// channelSum sums over all axes except axis 1.
func (c *call) channelSum(dy string) string {
	axes := append([]int64{0}, axesUpTo(c.rank(dy))[2:]...)
	return c.sum(dy, axes, false)
}

// convInput returns the transposed convolution of dy with w, cropped and padded to the shape of x.
func (c *call) convInput(x, w, dy string, win onnx.Window, group int64) string {
	n := len(win.Kernel)
	at := attrs{"strides": win.Strides, "dilations": win.Dilations, "group": group}
	pads, extra, fixed := make([]int64, 2*n), make([]int64, n), true
	for i := range n {
		in, out := c.value(x).Shape[2+i], c.value(dy).Shape[2+i]
		fixed = fixed && in.Known() && out.Known()
		full := (out.Size-1)*win.Strides[i] + (win.Kernel[i]-1)*win.Dilations[i] + 1
		pads[i] = win.Pads[i]
		if end := full - in.Size - win.Pads[i]; end >= 0 {
			pads[n+i] = end
		} else { // the stride left a remainder
			extra[i] = -end
		}
	}
	if fixed {
		at["pads"], at["output_padding"] = pads, extra
		return c.OpA("ConvTranspose", at, dy, w)
	}
	full := c.OpA("ConvTranspose", at, dy, w)
	begin, before := make([]int64, n), make([]int64, n)
	for i := range n {
		begin[i], before[i] = -win.Pads[i], win.Pads[i]
	}
	spatial := func(v string) string { return c.Op("Slice", c.Op("Shape", v), c.Ints(2), c.Ints(int64(2+n))) }
	end := c.add(c.sub(spatial(x), spatial(full)), c.Ints(before...))
	return c.Op("Pad", full, c.concat(0, c.Ints(0, 0), c.Ints(begin...), c.Ints(0, 0), end), c.scalarLike(full, 0))
}

// convKernel returns dW, with the shape of w [O, C/group, kernel], for data x [N, C, ...] and gradient dy [N, O,
// ...]: the convolution of x with dy, with batch and channels swapped, and strides and dilations swapped.
func (c *call) convKernel(x, dy, w string, win onnx.Window, group int64) string {
	n := len(win.Kernel)
	perm := axesUpTo(n + 2)
	perm[0], perm[1] = 1, 0
	data := x
	if group == 1 {
		data = c.transpose(x, perm...)
	} else { // [N, g*C, ...] -> [C, g*N, ...]
		channels := c.size(w, 1)
		spatial := make([]any, n)
		for i := range spatial {
			spatial[i] = c.size(x, 2+i)
		}
		data = c.reshape(x, append([]any{c.size(x, 0), group, channels}, spatial...)...)
		mix := axesUpTo(n + 3)
		mix[0], mix[2] = 2, 0
		data = c.reshape(c.transpose(data, mix...), append([]any{channels, -1}, spatial...)...)
	}
	at := attrs{"strides": win.Dilations, "dilations": win.Strides, "pads": win.Pads, "group": group}
	g := c.transpose(c.OpA("Conv", at, data, c.transpose(dy, perm...)), perm...)
	for i, k := range win.Kernel {
		if d := c.value(g).Shape[2+i]; !d.Known() || d.Size != k { // positions that the stride never reached
			axes := axesUpTo(n + 2)[2:]
			g = c.Op("Slice", g, c.Ints(make([]int64, n)...), c.Ints(win.Kernel...), c.Ints(axes...))
			break
		}
	}
	// Without channels (here: an empty batch) ONNX Runtime's Conv does not set its output.
	if batch := c.value(x).Shape[0]; !batch.Known() {
		return c.Op("Where", c.Op("Equal", c.size(x, 0), c.Ints(0)), c.Scalar(c.value(g).Type, 0), g)
	}
	return g
}

// Y = X *' W + b: dX is the convolution of dY with W, dW the convolution of dY with X.
func convTransposeRule(c *call) []string {
	x, w, dy := c.x[0], c.x[1], c.dy[0]
	k := c.kernel(w)
	if c.err != nil {
		return nil
	}
	win, group := c.transposedWindow(x, k), c.n.Int("group", 1)
	if c.err != nil {
		return nil
	}
	g := make([]string, len(c.x))
	if c.needs(0) {
		at := attrs{"strides": win.Strides, "dilations": win.Dilations, "pads": win.Pads, "group": group}
		g[0] = c.OpA("Conv", at, dy, w)
	}
	if c.needs(1) {
		g[1] = c.convKernel(dy, x, w, win, group)
	}
	if c.needs(2) {
		g[2] = c.channelSum(dy)
	}
	return g
}

// transposedWindow resolves the pads that follow from output_shape or auto_pad.
func (c *call) transposedWindow(x string, kernel []int64) onnx.Window {
	n := len(kernel)
	if c.rank(x) != n+2 {
		c.fail("needs data of the kernel's rank")
		return onnx.Window{}
	}
	mode, shape, extra := c.n.Str("auto_pad", "NOTSET"), c.n.Ints("output_shape"), c.n.Ints("output_padding")
	if extra == nil {
		extra = make([]int64, n)
	}
	plain := *c.n
	plain.Attrs = map[string]any{}
	for k, v := range c.n.Attrs {
		if k != "auto_pad" {
			plain.Attrs[k] = v
		}
	}
	win := onnx.WindowOf(&plain, kernel, c.value(x).Shape[2:])
	if shape == nil && mode != "SAME_UPPER" && mode != "SAME_LOWER" {
		return win
	}
	win.Pads = make([]int64, 2*n)
	for i := range n {
		total := (kernel[i]-1)*win.Dilations[i] + 1 + extra[i] - win.Strides[i]
		if shape != nil {
			in := c.value(x).Shape[2+i]
			if !in.Known() {
				c.fail("needs the spatial sizes of %q, which output_shape depends on", x)
				return win
			}
			total += in.Size*win.Strides[i] - shape[len(shape)-n+i]
		}
		total = max(total, 0)
		win.Pads[i], win.Pads[n+i] = total-total/2, total/2
		if mode == "SAME_UPPER" {
			win.Pads[i], win.Pads[n+i] = total/2, total-total/2
		}
	}
	return win
}
