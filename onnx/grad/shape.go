package grad

var shapeRules = []entry{
	{op: "Reshape", nonDifferentiable: []int{1}, rule: reshapeRule},
	{op: "Flatten", rule: reshapeRule},
	{op: "Squeeze", nonDifferentiable: []int{1}, rule: reshapeRule},
	{op: "Unsqueeze", nonDifferentiable: []int{1}, rule: reshapeRule},
	{
		op:                "Expand",
		nonDifferentiable: []int{1},
		broadcast:         true,
		rule:              func(c *call) []string { return []string{c.dy[0], ""} },
	},
	{op: "Transpose", rule: func(c *call) []string {
		perm := c.n.Ints("perm")
		if perm == nil { // reversed: its own inverse
			return []string{c.Op("Transpose", c.dy[0])}
		}
		back := make([]int64, len(perm))
		for i, p := range perm {
			back[p] = int64(i)
		}
		return []string{c.transpose(c.dy[0], back...)}
	}},
	{op: "Concat", rule: concatRule},
	{op: "Split", outputs: allOutputs, nonDifferentiable: []int{1}, rule: splitRule},
	{op: "Slice", nonDifferentiable: []int{1, 2, 3, 4}, rule: sliceRule},
	{op: "Pad", nonDifferentiable: []int{1, 3}, rule: padRule},
	{op: "Tile", nonDifferentiable: []int{1}, rule: tileRule},
	{op: "Trilu", nonDifferentiable: []int{1}, rule: func(c *call) []string {
		return []string{c.OpA("Trilu", attrs{"upper": c.n.Int("upper", 1)}, append([]string{c.dy[0]}, c.x[1:]...)...)}
	}},
	{op: "DepthToSpace", decompose: depthToSpace},
	{op: "SpaceToDepth", decompose: spaceToDepth},
}

func reshapeRule(c *call) []string { return []string{c.reshapeLike(c.dy[0], c.x[0])} }

func concatRule(c *call) []string {
	if len(c.x) == 1 {
		return []string{c.dy[0]}
	}
	axis := c.axis(0, c.x[0])
	if c.err != nil {
		return nil
	}
	sizes := make([]any, len(c.x))
	for i, x := range c.x {
		sizes[i] = c.size(x, int(axis))
	}
	return c.Node("", "Split", len(c.x), attrs{"axis": axis}, c.dy[0], c.shape(sizes...))
}

// splitRule: outputs without a gradient count as zeros.
func splitRule(c *call) []string {
	parts := make([]string, len(c.y))
	for i, g := range c.dy {
		if parts[i] = g; g == "" {
			parts[i] = c.zerosLike(c.y[i])
		}
	}
	return []string{c.concat(c.axis(0, c.x[0]), parts...)}
}

// sliceRule pads the gradient with zeros. With steps other than 1, and for slices whose position is only known when
// the model runs, the gradient is that of a gather of the taken indices. A slice from the start may have any length.
func sliceRule(c *call) []string {
	x := c.x[0]
	r := c.rank(x)
	axes, known := c.ints(3, "")
	if c.err != nil {
		return nil
	}
	if !known {
		return c.fail("needs constant axes")
	}
	starts, fixed := c.value(c.x[1]).Known()
	steps, constant := c.ints(4, "")
	if axes == nil {
		n := c.value(c.x[1])
		if len(n.Shape) != 1 || !n.Shape[0].Known() {
			return c.fail("needs the number of starts")
		}
		axes = axesUpTo(int(n.Shape[0].Size))
	}
	pads, open := make([]int64, 2*r), map[int64]string{}
	for i, a := range axes {
		a = (a + int64(r)) % int64(r)
		before, after := c.value(x).Shape[a], c.value(c.y[0]).Shape[a]
		if !fixed || !constant || steps != nil && steps[i] != 1 {
			return c.sliceGather(axes)
		}
		if before.Same(after) {
			continue
		}
		if !before.Known() || !after.Known() {
			if starts[i] != 0 {
				return c.sliceGather(axes)
			}
			open[a] = c.sub(c.size(x, int(a)), c.size(c.y[0], int(a))) // a slice from the start: the rest comes after it
			continue
		}
		if starts[i] < 0 {
			starts[i] += before.Size
		}
		pads[a] = min(max(starts[i], 0), before.Size)
		pads[a+int64(r)] = before.Size - after.Size - pads[a]
	}
	amounts := make([]any, len(pads))
	for i, n := range pads {
		amounts[i] = n
		if size, ok := open[int64(i-r)]; ok {
			amounts[i] = size
		}
	}
	return []string{c.Op("Pad", c.dy[0], c.shape(amounts...), c.scalarLike(c.dy[0], 0))}
}

// sliceGather copies the rows back to the indices that the slice took, one axis at a time, the last one first.
func (c *call) sliceGather(axes []int64) []string {
	x := c.x[0]
	r := int64(c.rank(x))
	shapes := make([]string, len(axes)+1) // of x after slicing 0, 1, ... axes
	shapes[0] = c.shapeOf(x)
	taken := make([]string, len(axes))
	part := func(v string, i int) string {
		if v == "" {
			return ""
		}
		return c.Op("Slice", v, c.Ints(int64(i)), c.Ints(int64(i+1)))
	}
	for i := range axes {
		a := (axes[i] + r) % r
		all := c.arange(c.size(x, int(a)))
		taken[i] = c.Op("Slice", all, part(c.x[1], i), part(c.x[2], i), c.Ints(0), part(c.in(4), i))
		dims := make([]any, r)
		for k := range dims {
			dims[k] = c.Op("Slice", shapes[i], c.Ints(int64(k)), c.Ints(int64(k+1)))
		}
		dims[a] = c.Op("Shape", taken[i])
		shapes[i+1] = c.shape(dims...)
	}
	g := c.dy[0]
	for i := len(axes) - 1; i >= 0; i-- {
		g = c.indexCopy(g, taken[i], shapes[i], (axes[i]+r)%r)
	}
	return []string{g}
}

// padRule: constant padding is cropped, and the gradient of its value is the sum over the padding. The other modes
// read elements several times: they are gathers.
func padRule(c *call) []string {
	if c.n.Str("mode", "constant") != "constant" {
		return c.padGather()
	}
	g := make([]string, len(c.x))
	back := c.Op("Neg", c.x[1])
	if v, ok := c.value(c.x[1]).Known(); ok {
		for i := range v {
			v[i] = -v[i]
		}
		back = c.Ints(v...)
	}
	g[0] = c.Op("Pad", c.dy[0], back, c.scalarLike(c.dy[0], 0), c.in(3))
	if c.needs(2) {
		inside := c.Op("Pad", c.fullLike(c.x[0], 0), c.x[1], c.scalarLike(c.dy[0], 1), c.in(3)) // 1 in the padding
		g[2] = c.reshapeLike(c.sumAll(c.mul(c.dy[0], inside)), c.x[2])
	}
	return g
}

// padGather: along an axis of size n, padded index i reads i clipped to the edge, reflected at it, or wrapped around.
func (c *call) padGather() []string {
	x := c.x[0]
	r := int64(c.rank(x))
	axes, ok := c.ints(3, "")
	if axes == nil {
		axes = axesUpTo(int(r))
	}
	pads, fixed := c.value(c.x[1]).Known()
	if !ok || !fixed || c.err != nil {
		return c.fail("needs constant pads and axes in mode %s", c.n.Str("mode", ""))
	}
	indices := make([]string, len(axes))
	for i := range axes {
		a := (axes[i] + r) % r
		before, after := pads[i], pads[i+len(axes)]
		if before == 0 && after == 0 {
			continue
		}
		n := c.Op("Squeeze", c.size(x, int(a)))
		at := c.Op("Range", c.Int(-before), c.add(n, c.Int(after)), c.Int(1))
		last := c.sub(n, c.Int(1))
		switch c.n.Str("mode", "") {
		case "edge":
			at = c.Op("Max", c.Op("Min", at, last), c.Int(0))
		case "reflect": // n-1 - | n-1 - |i| |
			at = c.sub(last, c.Op("Abs", c.sub(last, c.Op("Abs", at))))
		case "wrap":
			at = c.Op("Mod", at, n)
		default:
			return c.fail("needs mode constant, reflect, edge or wrap, not %s", c.n.Str("mode", ""))
		}
		indices[i] = at
	}
	// The output of one axis is the input of the next: gradients are computed in reverse, each for the shape before
	// its axis.
	g := c.dy[0]
	shape := make([]any, r)
	for k := range shape {
		shape[k] = c.size(x, k)
	}
	rows := make([]string, len(axes))
	for i := range axes {
		rows[i] = c.size(x, int((axes[i]+r)%r))
	}
	for i := len(axes) - 1; i >= 0; i-- {
		if indices[i] != "" {
			g = c.indexAdd(g, indices[i], rows[i], (axes[i]+r)%r)
		}
	}
	return []string{g}
}

// tileRule: the repeats become separate axes, which are summed. Reshape would read a repeat of 0 as "copy this size",
// so if repeats are only known at run time, such an axis is padded with zeros to one repeat.
func tileRule(c *call) []string {
	x, dy, r := c.x[0], c.dy[0], c.rank(c.x[0])
	repeats := c.x[1]
	if _, known := c.value(repeats).Known(); !known && r > 0 {
		least := c.Op("Max", repeats, c.Ints(1))
		missing := c.mul(c.sub(least, repeats), c.Op("Shape", x)) // elements of axes with 0 repeats
		dy = c.Op("Pad", dy, c.concat(0, c.Ints(make([]int64, r)...), missing), c.scalarLike(dy, 0))
		repeats = least
	}
	parts := make([]any, 0, 2*r)
	axes := make([]int64, r)
	for i := range r {
		parts = append(parts, c.Op("Slice", repeats, c.Ints(int64(i)), c.Ints(int64(i+1))), c.size(x, i))
		axes[i] = int64(2 * i)
	}
	return []string{c.sum(c.reshape(dy, parts...), axes, false), ""}
}

func depthToSpace(c *call) []string {
	x, b := c.x[0], c.n.Int("blocksize", 1)
	h, w := c.size(x, 2), c.size(x, 3)
	k := c.value(x).Shape[1]
	if !k.Known() {
		return c.fail("needs the number of channels of %q", x)
	}
	d := k.Size / (b * b)
	if c.n.Str("mode", "DCR") == "CRD" {
		t := c.transpose(c.reshape(x, 0, d, b, b, h, w), 0, 1, 4, 2, 5, 3)
		return []string{c.reshape(t, 0, d, c.multiplySize(h, b), c.multiplySize(w, b))}
	}
	t := c.transpose(c.reshape(x, 0, b, b, d, h, w), 0, 3, 4, 1, 5, 2)
	return []string{c.reshape(t, 0, d, c.multiplySize(h, b), c.multiplySize(w, b))}
}

func spaceToDepth(c *call) []string {
	x, b := c.x[0], c.n.Int("blocksize", 1)
	h, w := c.Op("Div", c.size(x, 2), c.Ints(b)), c.Op("Div", c.size(x, 3), c.Ints(b))
	t := c.transpose(c.reshape(x, 0, c.size(x, 1), h, b, w, b), 0, 3, 5, 1, 2, 4)
	return []string{c.reshape(t, 0, c.Op("Mul", c.size(x, 1), c.Ints(b*b)), h, w)}
}

// multiplySize multiplies a size.
func (c *call) multiplySize(size string, by int64) string {
	if v, ok := c.value(size).Known(); ok {
		return c.Ints(v[0] * by)
	}
	return c.Op("Mul", size, c.Ints(by))
}
