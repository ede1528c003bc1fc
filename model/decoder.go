package model

import (
	"math"
	"strconv"

	"assay/onnx"
)

// Packing describes the rows of a packed batch to the decoder: no padding is ever multiplied. The sequences of a batch lie
// one after the other, sorted into groups; all sequences of a group have the same length and the same number of selected
// rows, so that attention runs group by group as [sequences, heads, rows, columns].
type Packing struct {
	Groups      int
	Rows        string // [groups] int64: rows of each group, sequences times length
	Lengths     string // [groups] int64: length of each sequence of the group
	Select      string // [selected] int64, ascending: rows that the last layer must deliver; "": all
	SelectRows  string // [groups] int64: selected rows of each group
	SelectEach  string // [groups] int64: selected rows of each sequence of the group
	SelectPlace string // [selected] int64: place of each selected row within its sequence
	Segments    string // [rows] int64: rows see rows of their own segment and of segment 0 only; "": all rows before them
}

func newPacking(g *Graph, groups int, selected bool) *Packing {
	ints := func(name, dim string) string { return g.Input(name, onnx.Int64, onnx.Dims(dim)) }
	vec := func(name string) string { return g.Input(name, onnx.Int64, onnx.Dims(groups)) }
	p := &Packing{Groups: groups, Rows: vec("group_rows"), Lengths: vec("group_lengths")}
	if selected {
		p.Select, p.SelectPlace = ints("select", "selected"), ints("select_place", "selected")
		p.SelectRows, p.SelectEach = vec("group_select_rows"), vec("group_select_each")
	}
	return p
}

// element returns entry i of an int64 vector as a vector of one element.
func (g *Graph) element(v string, i int) string {
	return g.Op("Slice", v, g.Ints(int64(i)), g.Ints(int64(i+1)))
}

// Decoder is the language model of the Llama kind (Llama, Mistral, Qwen2): RMSNorm, rotary positions, grouped-query
// attention, SwiGLU.
type Decoder struct {
	TextConfig
	Key        string // checkpoint prefix of the layers, e.g. "language_model.model."
	Module     string // PEFT's prefix of the same, e.g. "model.language_model."
	ImageToken int64  // id that config.json gives a picture's placeholder
}

// Rotary declares the positions [axes, rows] int64 and returns their cosines and sines [1, rows, head_dim/2]. Every
// frequency turns with one axis: it is zero for the others, and the sum over the axes is exact.
func (d *Decoder) Rotary(g *Graph) (cos, sin string) {
	axes, each := d.Rope.Axes(), d.HeadDim/2
	table := make([]float32, axes*each)
	for i, f := range d.InvFreq() {
		table[d.Rope.axis(i)*each+i] = f
	}
	p := g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, g.Input(inPositions, onnx.Int64, onnx.Dims(axes, "rows")))
	angle := g.Op("Mul", g.Op("Unsqueeze", p, g.Ints(2)), g.Floats([]int64{int64(axes), 1, int64(each)}, table...))
	angle = g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, angle, g.Ints(0))
	cos, sin = g.Op("Cos", angle), g.Op("Sin", angle)
	if d.Rope.Attention != 1 {
		s := g.Scalar(onnx.Float, d.Rope.Attention)
		cos, sin = g.Op("Mul", cos, s), g.Op("Mul", sin, s)
	}
	return cos, sin
}

// Build runs x [rows, hidden] through all layers and the final norm, and returns [selected, hidden].
func (d *Decoder) Build(g *Graph, x, cos, sin string, p *Packing) string {
	type view struct {
		window int
		last   bool
	}
	views := map[view][]string{} // layers that see alike share their masks
	for i := 0; i < d.Layers; i++ {
		last := i == d.Layers-1 && p.Select != ""
		v := view{0, last}
		if d.slides(i) {
			v.window = d.SlidingWindow
		}
		if views[v] == nil {
			views[v] = d.masks(g, p, v.window, last)
		}
		masks := views[v]
		name := "layers." + strconv.Itoa(i)
		g.Segment(name, func() { x = d.layer(g, x, cos, sin, name, masks, p, last) })
	}
	if d.Layers == 0 && p.Select != "" {
		x = g.Pick(x, p.Select, 0)
	}
	return g.RMSNorm(x, d.Key+"norm", d.Eps)
}

func (d *Decoder) layer(g *Graph, x, cos, sin, name string, masks []string, p *Packing, last bool) string {
	key, module := d.Key+name+".", d.Module+name+"."
	linear := func(x, part string) string { return g.Linear(x, key+part, module+part) }
	normed := g.RMSNorm(x, key+"input_layernorm", d.Eps)
	asked, qcos, qsin := normed, cos, sin
	if last { // only the rows that are read later ask; all rows answer
		asked, x = g.Pick(normed, p.Select, 0), g.Pick(x, p.Select, 0)
		qcos, qsin = g.OpA("Gather", onnx.Attrs{"axis": 1}, cos, p.Select), g.OpA("Gather", onnx.Attrs{"axis": 1}, sin, p.Select)
	}
	rotate := func(t, cos, sin string, heads int) string {
		t = g.Op("Unsqueeze", t, g.Ints(0))
		return g.OpA("RotaryEmbedding", onnx.Attrs{"num_heads": heads}, t, cos, sin)
	}
	q := linear(asked, "self_attn.q_proj")
	q = g.Op("Mul", q, g.Scalar(onnx.Float, 1/math.Sqrt(float64(d.HeadDim))))
	q = rotate(q, qcos, qsin, d.Heads)
	k := rotate(linear(normed, "self_attn.k_proj"), cos, sin, d.KVHeads)
	v := g.Op("Unsqueeze", linear(normed, "self_attn.v_proj"), g.Ints(0))
	a := d.attend(g, q, k, v, masks, p, last)
	x = g.Op("Add", x, linear(a, "self_attn.o_proj"))

	normed = g.RMSNorm(x, key+"post_attention_layernorm", d.Eps)
	return g.Op("Add", x, g.GatedMLP(normed, key+"mlp.", module+"mlp.", d.Activation))
}

// attend: q [1, asking rows, heads*dim], k and v [1, rows, kv_heads*dim] -> [asking rows, heads*dim]. Query heads that share
// a key head are stacked as rows of one product, so that keys are never repeated.
func (d *Decoder) attend(g *Graph, q, k, v string, masks []string, p *Packing, last bool) string {
	askRows, askEach := p.Rows, p.Lengths
	if last {
		askRows, askEach = p.SelectRows, p.SelectEach
	}
	split := func(t, rows string) []string {
		if p.Groups == 1 {
			return []string{t}
		}
		return g.Node("", "Split", p.Groups, onnx.Attrs{"axis": 1}, t, rows)
	}
	qs, ks, vs := split(q, askRows), split(k, p.Rows), split(v, p.Rows)
	rep := d.Heads / d.KVHeads
	outs := make([]string, p.Groups)
	for i := range outs {
		length, each := g.element(p.Lengths, i), g.element(askEach, i)
		heads := func(t string) string { // [1, n*L, kv*d] -> [n, kv, L, d]
			return g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}}, g.Op("Reshape", t, g.Shape(-1, length, d.KVHeads, d.HeadDim)))
		}
		qi := g.Op("Reshape", qs[i], g.Shape(-1, each, d.KVHeads, rep, d.HeadDim))
		qi = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 3, 1, 4}}, qi)
		qi = g.Op("Reshape", qi, g.Ints(0, int64(d.KVHeads), -1, int64(d.HeadDim)))
		scores := g.Op("MatMul", qi, g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 1, 3, 2}}, heads(ks[i])))
		prob := g.OpA("Softmax", onnx.Attrs{"axis": -1}, g.Op("Add", scores, masks[i]))
		y := g.Op("MatMul", prob, heads(vs[i])) // [n, kv, rep*r, d]
		y = g.Op("Reshape", y, g.Shape(0, d.KVHeads, rep, each, d.HeadDim))
		y = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 3, 1, 2, 4}}, y)
		outs[i] = g.Op("Reshape", y, g.Ints(-1, int64(d.Heads*d.HeadDim)))
	}
	if len(outs) == 1 {
		return outs[0]
	}
	return g.OpA("Concat", onnx.Attrs{"axis": 0}, outs...)
}

// masks returns per group what is added to the scores [sequences or 1, 1, rep*asking rows, length]: 0 where a row may look
// (itself and before, within the window of that many rows unless it is 0), the lowest float elsewhere.
func (d *Decoder) masks(g *Graph, p *Packing, window int, last bool) []string {
	masks := make([]string, p.Groups)
	places := make([]string, p.Groups)
	if last {
		places = []string{p.SelectPlace}
		if p.Groups > 1 {
			places = g.Node("", "Split", p.Groups, onnx.Attrs{"axis": 0}, p.SelectPlace, p.SelectRows)
		}
	}
	rep := d.Heads / d.KVHeads
	for i := range masks {
		length := g.element(p.Lengths, i)
		columns := g.Op("Range", g.Int(0), g.Op("Squeeze", length), g.Int(1))
		rows, each := columns, length
		if last {
			rows, each = places[i], g.element(p.SelectEach, i)
		}
		rows = g.Op("Reshape", rows, g.Shape(-1, 1, each, 1)) // [n or 1, 1, r, 1]
		seen := g.Op("LessOrEqual", columns, rows)
		if window > 0 {
			near := g.Op("Less", g.Op("Sub", rows, columns), g.Int(int64(window)))
			seen = g.Op("And", seen, near)
		}
		if p.Segments != "" {
			own := g.Op("Reshape", p.Segments, g.Shape(-1, 1, length, 1))
			other := g.Op("Reshape", p.Segments, g.Shape(-1, 1, 1, length))
			seen = g.Op("And", seen, g.Op("Or", g.Op("Equal", own, other), g.Op("Equal", other, g.Int(0))))
		}
		m := g.Op("Where", seen, g.Scalar(onnx.Float, 0), g.Scalar(onnx.Float, -math.MaxFloat32))
		if rep > 1 {
			m = g.Op("Expand", m, g.Shape(1, rep, 1, 1))
			m = g.Op("Reshape", m, g.Shape(0, 1, -1, length))
		}
		masks[i] = m
	}
	return masks
}
