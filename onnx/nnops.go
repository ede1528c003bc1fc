package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func init() {
	inferAs(inferMatMul, "MatMul", "com.microsoft.FusedMatMul")
	inferAs(inferGemm, "Gemm")
	inferAs(inferEinsum, "Einsum")
	inferShaped(inferConv, "Conv")
	inferShaped(inferConvTranspose, "ConvTranspose")
	inferShaped(inferPool, "MaxPool", "AveragePool", "LpPool")
	inferShaped(inferGlobalPool, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
	inferShaped(inferResize, "Resize")
	inferAs(inferAttention, "Attention")
	inferAs(inferGroupQuery, "com.microsoft.GroupQueryAttention")
}

// inferGroupQuery: the output has the shape of separate queries; packed queries, keys and values leave it unknown. A
// cache may have room for new entries or grow, so its length is unknown.
func inferGroupQuery(c *inference) error {
	if c.has(1) {
		c.set(0, c.arg(0).Type, c.shape(0))
	} else {
		c.set(0, c.arg(0).Type, nil)
	}
	for i := range 2 {
		if c.has(3 + i) {
			c.set(1+i, c.arg(3+i).Type, nil)
		} else {
			c.set(1+i, c.arg(0).Type, nil)
		}
	}
	return nil
}

func inferMatMul(c *inference) error {
	a, b, t := c.shape(0), c.shape(1), c.arg(0).Type
	c.set(0, t, nil)
	if a == nil || b == nil {
		return nil
	}
	if len(a) == 0 || len(b) == 0 {
		return fmt.Errorf("inputs must not be scalars")
	}
	a, b = append([]Dim{}, a...), append([]Dim{}, b...)
	swap := func(d []Dim, yes int64) {
		if n := len(d); yes != 0 && n > 1 {
			d[n-1], d[n-2] = d[n-2], d[n-1]
		}
	}
	swap(a, c.n.Int("transA", 0))
	swap(b, c.n.Int("transB", 0))
	row, column := len(a) == 1, len(b) == 1
	if row {
		a = append([]Dim{Fixed(1)}, a...)
	}
	if column {
		b = append(b, Fixed(1))
	}
	k, l := a[len(a)-1], b[len(b)-2]
	if k.Known() && l.Known() && k.Size != l.Size {
		return fmt.Errorf("the inner sizes %v and %v differ", k, l)
	}
	out, err := broadcastShapes(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return err
	}
	out = append([]Dim{}, out...)
	if !row {
		out = append(out, a[len(a)-2])
	}
	if !column {
		out = append(out, b[len(b)-1])
	}
	c.set(0, t, out)
	return nil
}

func inferGemm(c *inference) error {
	a, b, t := c.shape(0), c.shape(1), c.arg(0).Type
	c.set(0, t, unknownDims(2))
	if a == nil || b == nil {
		return nil
	}
	if len(a) != 2 || len(b) != 2 {
		return fmt.Errorf("needs two matrices")
	}
	m, k, l, n := a[0], a[1], b[0], b[1]
	if c.n.Int("transA", 0) != 0 {
		m, k = k, m
	}
	if c.n.Int("transB", 0) != 0 {
		l, n = n, l
	}
	if k.Known() && l.Known() && k.Size != l.Size {
		return fmt.Errorf("the inner sizes %v and %v differ", k, l)
	}
	out := []Dim{m, n}
	if bias := c.shape(2); c.has(2) && bias != nil {
		if _, err := broadcastShapes(out, bias); err != nil {
			return fmt.Errorf("input C: %w", err)
		}
	}
	c.set(0, t, out)
	return nil
}

func inferEinsum(c *inference) error {
	t := c.arg(0).Type
	c.set(0, t, nil)
	equation := strings.ReplaceAll(c.n.Str("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(c.in) {
		return fmt.Errorf("equation %q has %d terms for %d inputs", equation, len(terms), len(c.in))
	}
	e := einsum{sizes: map[string]Dim{}, seen: map[string]int{}}
	for i, term := range terms {
		x := c.shape(i)
		if x == nil {
			return nil
		}
		if err := e.term(term, x); err != nil {
			return err
		}
	}
	if !explicit {
		right = "..."
		for _, s := range slices.Sorted(maps.Keys(e.seen)) {
			if e.seen[s] == 1 {
				right += s
			}
		}
	}
	out, err := einsumOutput(equation, right, e.sizes, e.ellipsis)
	if err != nil {
		return err
	}
	c.set(0, t, out)
	return nil
}

// einsum holds the sizes and counts of the letters of an equation.
type einsum struct {
	sizes    map[string]Dim // by letter
	seen     map[string]int // how often a letter occurs in the terms
	ellipsis []Dim
}

// term matches the letters of one input with its shape.
func (e *einsum) term(term string, shape []Dim) error {
	before, after, dots := strings.Cut(term, "...")
	n := len(before) + len(after)
	if n > len(shape) || !dots && n != len(shape) {
		return fmt.Errorf("term %q does not fit rank %d", term, len(shape))
	}
	for j := range before {
		if err := e.put(before[j:j+1], shape[j]); err != nil {
			return err
		}
	}
	for j := range after {
		if err := e.put(after[j:j+1], shape[len(shape)-len(after)+j]); err != nil {
			return err
		}
	}
	var err error
	if dots {
		e.ellipsis, err = broadcastShapes(e.ellipsis, shape[len(before):len(shape)-len(after)])
	}
	return err
}

// put records the size of a letter.
func (e *einsum) put(letter string, d Dim) (err error) {
	e.seen[letter]++
	if old, ok := e.sizes[letter]; ok {
		d, err = old.broadcast(d)
	}
	e.sizes[letter] = d
	return err
}

// einsumOutput returns the shape of the right side of an equation.
func einsumOutput(equation, right string, sizes map[string]Dim, ellipsis []Dim) ([]Dim, error) {
	out := []Dim{}
	for i := 0; i < len(right); i++ {
		if strings.HasPrefix(right[i:], "...") {
			out = append(out, ellipsis...)
			i += 2
			continue
		}
		d, ok := sizes[right[i:i+1]]
		if !ok {
			return nil, fmt.Errorf("equation %q: %q is not in any input", equation, right[i:i+1])
		}
		out = append(out, d)
	}
	return out, nil
}

func inferConv(c *inference, x []Dim) ([]Dim, error) {
	f := c.shape(1)
	if f == nil {
		return nil, nil
	}
	if len(x) < 3 || len(f) != len(x) {
		return nil, fmt.Errorf("needs data and kernel of the same rank, 3 or more")
	}
	if group := c.n.Int("group", 1); x[1].Known() && f[1].Known() && x[1].Size != f[1].Size*group {
		return nil, fmt.Errorf("%v channels for a kernel of %v x %d groups", x[1], f[1], group)
	}
	k, ok := kernelOf(f)
	if !ok {
		return append([]Dim{x[0], f[0]}, unknownDims(len(x)-2)...), nil
	}
	w, err := c.window(k, x)
	if err != nil {
		return nil, err
	}
	sizes, err := w.outputs(x, false)
	return append([]Dim{x[0], f[0]}, sizes...), err
}

func inferConvTranspose(c *inference, x []Dim) ([]Dim, error) {
	f := c.shape(1)
	if f == nil {
		return nil, nil
	}
	if len(x) < 3 || len(f) != len(x) {
		return nil, fmt.Errorf("needs data and kernel of the same rank, 3 or more")
	}
	if x[1].Known() && f[0].Known() && x[1].Size != f[0].Size {
		return nil, fmt.Errorf("%v channels for a kernel of %v", x[1], f[0])
	}
	out := append([]Dim{x[0], f[1].integer().times(known(c.n.Int("group", 1))).dim()}, unknownDims(len(x)-2)...)
	shape, extra := c.n.Ints("output_shape"), c.n.Ints("output_padding")
	mode := c.n.Str("auto_pad", "NOTSET")
	if k, ok := kernelOf(f); ok {
		w, err := c.window(k, x)
		if err != nil {
			return nil, err
		}
		for i := range k {
			switch {
			case shape != nil:
				out[2+i] = Fixed(shape[len(shape)-len(k)+i])
			case mode == "SAME_UPPER" || mode == "SAME_LOWER":
				out[2+i] = x[2+i].integer().times(known(w.Strides[i])).dim()
			default:
				rest := (k[i]-1)*w.Dilations[i] + 1 - w.Pads[i] - w.Pads[i+len(k)]
				if extra != nil {
					rest += extra[i]
				}
				out[2+i] = x[2+i].integer().plus(known(-1)).times(known(w.Strides[i])).plus(known(rest)).dim()
			}
		}
	}
	return out, nil
}

func inferPool(c *inference, x []Dim) ([]Dim, error) {
	if len(x) < 3 {
		return nil, fmt.Errorf("needs rank 3 or more")
	}
	w, err := c.window(nil, x)
	if err != nil {
		return nil, err
	}
	sizes, err := w.outputs(x, c.n.Int("ceil_mode", 0) != 0)
	if err != nil {
		return nil, err
	}
	out := append(slices.Clone(x[:2]), sizes...)
	c.set(1, Int64, out)
	return out, nil
}

func inferGlobalPool(c *inference, x []Dim) ([]Dim, error) {
	if len(x) < 2 {
		return nil, nil
	}
	out := append([]Dim{}, x[:2]...)
	for range x[2:] {
		out = append(out, Fixed(1))
	}
	return out, nil
}

func inferResize(c *inference, x []Dim) ([]Dim, error) {
	axes := c.n.Ints("axes")
	if axes == nil {
		axes = allAxes(x)
	}
	out := append([]Dim{}, x...)
	sizes := c.arg(3).Ints
	scales := Floats(c.arg(2).Const)
	for i, at := range axes {
		a, err := axis(at, len(x))
		if err != nil {
			return nil, err
		}
		out[a] = Dim{Size: -1}
		switch {
		case c.has(3) && i < len(sizes):
			if out[a] = sizes[i].dim(); c.n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
				out[a] = Dim{Size: -1}
			}
		case !c.has(3) && i < len(scales) && scales[i] == 1:
			out[a] = x[a]
		case !c.has(3) && i < len(scales) && x[a].Known():
			out[a] = Fixed(int64(float32(x[a].Size) * float32(scales[i])))
		}
	}
	return out, nil
}

func inferAttention(c *inference) error {
	q, k, v := c.shape(0), c.shape(1), c.shape(2)
	t := c.arg(0).Type
	for i := range c.out {
		c.set(i, t, nil)
	}
	if q == nil || k == nil || v == nil {
		return nil
	}
	if len(q) != len(v) || len(q) != 3 && len(q) != 4 || len(k) != len(q) {
		return fmt.Errorf("needs q, k and v all of rank 3 or all of rank 4")
	}
	heads, kv := c.n.Int("q_num_heads", 0), c.n.Int("kv_num_heads", 0)
	rows, total, hd := q[len(q)-2], k[len(k)-2], v[len(v)-1].integer()
	if len(q) == 3 {
		if heads <= 0 || kv <= 0 {
			return fmt.Errorf("inputs of rank 3 need the attributes q_num_heads and kv_num_heads")
		}
		c.set(0, t, []Dim{q[0], rows, hd.over(known(kv), false).times(known(heads)).dim()})
	} else {
		c.set(0, t, []Dim{q[0], q[1], rows, v[3]})
	}
	if c.has(4) {
		total = Dim{Size: -1}
		if past := c.shape(4); past != nil {
			total = k[len(k)-2].integer().plus(past[2].integer()).dim()
		}
	}
	nq, nk, dk := Fixed(heads), Fixed(kv), k[len(k)-1].integer()
	if len(q) == 4 {
		nq, nk = q[1], k[1]
	} else {
		dk, hd = dk.over(known(kv), false), hd.over(known(kv), false)
	}
	c.set(1, t, []Dim{q[0], nk, total, dk.dim()})
	c.set(2, t, []Dim{q[0], nk, total, hd.dim()})
	c.set(3, t, []Dim{q[0], nq, rows, total})
	return nil
}
