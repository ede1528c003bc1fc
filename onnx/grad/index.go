package grad

import "assay/onnx"

var indexRules = []entry{
	{op: "Gather", nonDifferentiable: []int{1}, rule: gatherRule},
	{op: "GatherElements", nonDifferentiable: []int{1}, rule: gatherElementsRule},
	{op: "GatherND", nonDifferentiable: []int{1}, rule: gatherNDRule},
	{op: "ScatterND", nonDifferentiable: []int{1}, rule: scatterNDRule, note: "reduction none or add"},
	{op: "ScatterElements", nonDifferentiable: []int{1}, rule: scatterElementsRule, note: "reduction none or add"},
	{op: "TopK", nonDifferentiable: []int{1}, rule: topKRule},
	{op: "Compress", nonDifferentiable: []int{1}, rule: compressRule},
}

// maxOneHotRows is the maximum number of table rows for which the gradient of a Gather is a product with one-hot
// rows.
const maxOneHotRows = 4096

// Y = X[indices] along an axis: rows of dY are summed by index. ScatterND with reduction "add" is avoided: on some
// devices its order of addition, and so the last bits, differ from run to run.
func gatherRule(c *call) []string {
	x, idx := c.x[0], c.x[1]
	axis := c.axis(0, x)
	if c.err != nil {
		return nil
	}
	g := c.dy[0]
	ri := c.rank(idx)
	if ri != 1 { // indices of any rank: one long list of rows
		dims := make([]any, 0, c.rank(x))
		for i := range c.rank(x) {
			if int64(i) == axis {
				dims = append(dims, -1)
				continue
			}
			dims = append(dims, c.size(x, i))
		}
		g, idx = c.reshape(g, dims...), c.Op("Reshape", idx, c.Ints(-1))
	}
	idx = c.cast(idx, onnx.Int64)
	if c.n.Meta[onnx.MetaUnique] == "true" {
		return []string{c.indexCopy(g, idx, c.shapeOf(x), axis), ""}
	}
	return []string{c.indexAdd(g, idx, c.size(x, int(axis)), axis), ""}
}

// indexCopy copies the rows of g along an axis to distinct indices of zeros of the given shape.
func (c *call) indexCopy(g, idx, shape string, axis int64) string {
	t := c.value(g).Type
	at := c.unsqueeze(idx, -1)
	if axis == 0 {
		return c.Op("ScatterND", c.full(shape, t, 0), at, g)
	}
	r := int64(c.rank(g))
	perm := append([]int64{axis}, append(axesUpTo(int(r))[:axis], axesUpTo(int(r))[axis+1:]...)...)
	front := c.Op("Gather", shape, c.Ints(perm...))
	return c.fromFront(c.Op("ScatterND", c.full(front, t, 0), at, c.toFront(g, axis)), axis)
}

// indexAdd sums the rows of g along an axis by index, into size rows.
func (c *call) indexAdd(g, idx, size string, axis int64) string {
	r := c.rank(g)
	flat := c.toFront(g, axis)
	rest := []any{} // shape of a row
	for i := 1; i < r; i++ {
		rest = append(rest, c.size(flat, i))
	}
	rows := flat
	if r != 2 {
		rows = c.reshape(flat, c.size(flat, 0), -1)
	}
	idx = c.nonNegative(idx, size)
	n, fixed := c.value(size).Known()
	var sum string
	if fixed && n[0] <= maxOneHotRows {
		sum = c.gemm(c.oneHot(idx, size, c.value(g).Type), rows, true, false, 1)
	} else {
		sum = c.indexAddSparse(rows, idx, size)
	}
	if r != 2 {
		sum = c.reshape(sum, append([]any{size}, rest...)...)
	}
	return c.fromFront(sum, axis)
}

// nonNegative turns indices counted from the end into indices counted from the front.
func (c *call) nonNegative(idx, size string) string {
	if v, ok := c.value(idx).Known(); ok {
		negative := false
		for _, i := range v {
			negative = negative || i < 0
		}
		if !negative {
			return idx
		}
	}
	return c.where(c.Op("Less", idx, c.Int(0)), c.add(idx, size), idx)
}

// oneHot returns one-hot rows [indices, size].
func (c *call) oneHot(idx, size string, t onnx.DType) string {
	return c.cast(c.Op("Equal", c.unsqueeze(idx, 1), c.arange(size)), t)
}

// indexAddSparse is indexAdd for tables with many more rows than indices (vocabularies). A product sums the rows of
// equal indices into the first of them, and these are copied to their distinct indices.
func (c *call) indexAddSparse(rows, idx, size string) string {
	equal := c.Op("Equal", c.unsqueeze(idx, 1), c.unsqueeze(idx, 0)) // [N, N]
	t := c.value(rows).Type
	first := c.OpA("ArgMax", attrs{"axis": 1, "keepdims": 0}, c.cast(equal, onnx.Float))
	isFirst := c.Op("Equal", first, c.arange(c.size(idx, 0)))
	firsts := c.Op("Reshape", c.Op("NonZero", isFirst), c.Ints(-1))
	sums := c.gemm(c.cast(c.Op("Gather", equal, firsts), t), rows, false, false, 1)
	return c.Op(
		"ScatterND",
		c.full(c.shape(size, c.size(rows, 1)), t, 0),
		c.unsqueeze(c.Op("Gather", idx, firsts), -1),
		sums,
	)
}

// Y = X[.., indices, ..] element by element along an axis: dX = sum of dY over the indices that are equal to the
// position.
func gatherElementsRule(c *call) []string {
	x, idx := c.x[0], c.x[1]
	axis, r := c.axis(0, x), c.rank(x)
	if c.err != nil {
		return nil
	}
	idx = c.cast(idx, onnx.Int64)
	size := c.size(x, int(axis))
	idx = c.nonNegative(idx, size)
	k := c.value(idx).Shape[axis]
	place := make([]any, r) // 0, 1, ... along the axis
	for i := range place {
		place[i] = 1
	}
	place[axis] = -1
	var g string
	if k.Known() && k.Size == 1 {
		g = c.masked(c.Op("Equal", idx, c.reshape(c.arange(size), place...)), c.dy[0])
	} else { // [.., K, 1, ..] against [.., 1, size, ..]
		hit := c.Op("Equal", c.unsqueeze(idx, axis+1), c.reshape(c.arange(size), append([]any{1}, place...)...))
		g = c.sum(c.masked(hit, c.unsqueeze(c.dy[0], axis+1)), []int64{axis}, false)
	}
	// Along the other axes the indices may be shorter than the data.
	before, after := make([]int64, r), make([]any, r)
	whole := true
	for i := range r {
		a, b := c.value(x).Shape[i], c.value(idx).Shape[i]
		if after[i] = 0; int64(i) != axis && !a.Same(b) {
			after[i] = c.sub(c.size(x, i), c.size(idx, i))
			whole = false
		}
	}
	if !whole {
		g = c.Op("Pad", g, c.shape(append([]any{c.Ints(before...)}, after...)...), c.scalarLike(g, 0))
	}
	return []string{g, ""}
}

// gatherNDRule: the index vectors become row numbers of the flattened leading axes.
func gatherNDRule(c *call) []string {
	x, idx := c.x[0], c.x[1]
	if c.n.Int("batch_dims", 0) != 0 {
		return c.fail("needs batch_dims = 0")
	}
	last := c.rank(idx) - 1
	if last < 0 || !c.value(idx).Shape[last].Known() {
		return c.fail("needs the last size of the indices %q", idx)
	}
	k := int(c.value(idx).Shape[last].Size)
	total, rows := c.Ints(1), ""
	for i := k - 1; i >= 0; i-- { // row = ((i0 n1 + i1) n2 + i2) ...
		at := c.Op("Reshape", c.Op("Slice", idx, c.Ints(int64(i)), c.Ints(int64(i+1)), c.Ints(-1)), c.Ints(-1))
		n := c.size(x, i)
		at = c.mul(c.nonNegative(at, n), total)
		if rows != "" {
			at = c.add(rows, at)
		}
		rows, total = at, c.mul(total, n)
	}
	g := c.indexAdd(c.reshape(c.dy[0], c.size(rows, 0), -1), rows, total, 0)
	return []string{c.reshapeLike(g, x), ""}
}

// Y = X with updates at indices: dX = dY, zero at replaced elements; dUpdates = dY[indices].
func scatterNDRule(c *call) []string {
	g := make([]string, 3)
	switch c.n.Str("reduction", "none") {
	case "add":
		g[0] = c.dy[0]
	case "none":
		if c.needs(0) {
			g[0] = c.Op("ScatterND", c.dy[0], c.x[1], c.zerosLike(c.x[2]))
		}
	default:
		return c.fail("needs reduction none or add")
	}
	if c.needs(2) {
		g[2] = c.Op("GatherND", c.dy[0], c.x[1])
	}
	return g
}

func scatterElementsRule(c *call) []string {
	g := make([]string, 3)
	at := attrs{"axis": c.n.Int("axis", 0)}
	switch c.n.Str("reduction", "none") {
	case "add":
		g[0] = c.dy[0]
	case "none":
		if c.needs(0) {
			g[0] = c.OpA("ScatterElements", at, c.dy[0], c.x[1], c.zerosLike(c.x[2]))
		}
	default:
		return c.fail("needs reduction none or add")
	}
	if c.needs(2) {
		g[2] = c.OpA("GatherElements", at, c.dy[0], c.x[1])
	}
	return g
}

// The gradients are copied back to their distinct indices.
func topKRule(c *call) []string {
	if c.dy[0] == "" {
		return []string{""}
	}
	return []string{
		c.OpA("ScatterElements", attrs{"axis": c.n.Int("axis", -1)}, c.zerosLike(c.x[0]), c.y[1], c.dy[0]),
		"",
	}
}

// compressRule: the taken indices are distinct.
func compressRule(c *call) []string {
	x := c.x[0]
	taken := c.Op("Reshape", c.Op("NonZero", c.x[1]), c.Ints(-1))
	if _, ok := c.n.Attrs["axis"]; !ok {
		flat := c.indexCopy(c.dy[0], taken, c.Op("Reshape", c.Op("Size", x), c.Ints(-1)), 0)
		return []string{c.reshapeLike(flat, x), ""}
	}
	return []string{c.indexCopy(c.dy[0], taken, c.shapeOf(x), c.axis(0, x)), ""}
}
