package nn

import (
	"cmp"
	"slices"

	"gorgonia.org/tensor"

	"assay/lora"
	"assay/onnx"
)

// Kernels selects the operators that layers are built from.
type Kernels int

// Plain operators are ONNX's and ONNX Runtime's. Fused adds the operators of onnx.FusedDomain wherever a layer's
// parts fit them: attention over packed rows, rotary positions, RMS norms with the preceding sum, SwiGLU.
const (
	Plain Kernels = iota
	Fused
)

// FusedHeads are the head sizes that the GPU kernels are compiled for (ops/triton/compile.py). The CPU kernels take
// any size.
var FusedHeads = []int{64, 72, 80, 128}

func (k Kernels) String() string {
	if k == Fused {
		return "fused"
	}
	return "plain"
}

// Names of the tables of FlashAttention, [segments, 5] int32: first query, queries, first key, keys, offset. Query i
// of a segment attends to its key j if j <= offset + i.
const (
	InSegments       = "attention_segments" // of all rows
	InSelectSegments = "select_segments"    // of the selected rows
)

// SegmentTable is the content of a table of FlashAttention.
type SegmentTable []int32

// Add appends a segment, unless it is empty.
func (s *SegmentTable) Add(q0, qn, k0, kn, offset int) {
	if qn > 0 && kn > 0 {
		*s = append(*s, int32(q0), int32(qn), int32(k0), int32(kn), int32(offset))
	}
}

// Tensor returns the table as a graph input.
func (s SegmentTable) Tensor() *tensor.Dense {
	return tensor.New(tensor.WithShape(len(s)/5, 5), tensor.WithBacking([]int32(s)))
}

// Segments declares a table of FlashAttention.
func (g *Graph) Segments(name string) string {
	return g.Input(name, onnx.Int32, onnx.Dims(name+"_count", 5))
}

// FlashAttention attends from rows q [queries, heads*dim] to k and v [rows, kv_heads*dim], each query to the keys
// that the table assigns to it, and only to the last window of those unless window is 0. It returns [queries,
// heads*dim].
func (g *Graph) FlashAttention(q, k, v, segments string, heads, kvHeads, window int) string {
	at := onnx.Attrs{"heads": heads, "kv_heads": kvHeads, "window": window}
	return g.Node(onnx.FusedDomain, "FlashAttention", 2, at, q, k, v, segments)[0]
}

// RopeSplit cuts rows [rows, (heads + 2 kv_heads) dim] into queries, keys and values, and rotates queries and keys by
// cosines and sines [rows, dim/2].
func (g *Graph) RopeSplit(qkv string, r Rotation, heads, kvHeads int) (q, k, v string) {
	y := g.Node(onnx.FusedDomain, "RopeSplit", 3, onnx.Attrs{"heads": heads, "kv_heads": kvHeads}, qkv, r.Cos, r.Sin)
	return y[0], y[1], y[2]
}

// AddNorm returns x + y, with x in float32 and y in the type of the products, and a norm of the sum.
func (g *Graph) AddNorm(x, y string, norm Module) (sum, normed string) {
	if n, ok := norm.(*RMSNorm); ok && g.fusesNorm(n.Key) {
		at := onnx.Attrs{"epsilon": n.Eps}
		out := g.Node(onnx.FusedDomain, "AddRMSNorm", 3, at, x, y, g.Param(n.Key+".weight"))
		return out[0], out[1]
	}
	sum = g.Op("Add", x, g.Wide(y))
	return sum, norm.Forward(g, sum)
}

// fusesNorm reports whether a norm is computed by AddRMSNorm. Its gradient divides the normed rows by the weight, so
// a norm with a weight of 0 has plain operators.
func (g *Graph) fusesNorm(key string) bool {
	key += ".weight"
	if g.Kernels != Fused {
		return false
	}
	if g.TrainsWeight(key) { // its gradient does not use the operator's
		return true
	}
	w := g.Tensors[g.whole(key)]
	if w == nil {
		var err error
		if w, err = g.weights.Dense(key); err != nil {
			return true // in a plan; or the session will not open either
		}
	}
	return !onnx.HasZero(w.Float32s())
}

// fusedNorm computes the norm of rows x [rows, n] in one operator.
func (g *Graph) fusedNorm(x, key string, eps float64) string {
	out := g.Node(onnx.FusedDomain, "AddRMSNorm", 3, onnx.Attrs{"epsilon": eps}, x, "", g.Param(key+".weight"))
	g.Last().Outputs[0] = "" // the sum is x
	return out[1]
}

// optionalOutputs are the outputs that a fused operator need not have.
var optionalOutputs = map[string][]int{
	"FlashAttention":     {1},
	"FlashAttentionGrad": {0, 1, 2},
	"AddRMSNorm":         {0, 1, 2},
	"RMSNormGrad":        {0, 1},
}

// OmitUnread removes optional outputs of fused operators that nothing reads: ONNX Runtime would keep them until the run
// ends.
func OmitUnread(m *onnx.Model) {
	read := onnx.ReadBy(m.Nodes)
	for _, o := range m.Outputs {
		read[o.Name] = true
	}
	for _, n := range m.Nodes {
		if n.Domain != onnx.FusedDomain {
			continue
		}
		for _, i := range optionalOutputs[n.Op] {
			if i < len(n.Outputs) && !read[n.Outputs[i]] {
				n.Outputs[i] = ""
			}
		}
	}
}

// joined returns the outputs of several layers over x side by side, [rows, the sum of their widths]. Frozen weights
// become one matrix when the session opens, and adapters one product with the sum of their ranks.
func (g *Graph) joined(x string, layers ...Module) string {
	linear := make([]*Linear, len(layers))
	for i, l := range layers {
		if linear[i], _ = l.(*Linear); linear[i] == nil || !g.joins(linear[i]) {
			outs := make([]string, len(layers))
			for i, l := range layers {
				outs[i] = l.Forward(g, x)
			}
			return g.OpA("Concat", onnx.Attrs{"axis": 1}, outs...)
		}
	}
	var weights, biases []string
	var widths []int64
	for _, l := range linear {
		t, err := g.weights.Tensor(l.Key + ".weight")
		if err != nil {
			return g.fail("%w", err)
		}
		widths = append(widths, t.Shape[0])
		weights = append(weights, g.param(l.Key+".weight", g.Compute))
		if g.Has(l.Key + ".bias") {
			biases = append(biases, g.param(l.Key+".bias", g.Compute))
		} else {
			biases = append(biases, g.Numbers(g.Compute, widths[len(widths)-1:], make([]float64, t.Shape[0])...))
		}
	}
	inputs := []string{x, g.OpA("Concat", onnx.Attrs{"axis": 0}, weights...)}
	if slices.ContainsFunc(linear, func(l *Linear) bool { return g.Has(l.Key + ".bias") }) {
		inputs = append(inputs, g.OpA("Concat", onnx.Attrs{"axis": 0}, biases...))
	}
	return g.joinedAdapters(x, g.OpA("Gemm", onnx.Attrs{"transB": 1}, inputs...), linear, widths)
}

// joins reports whether a layer's weight can be part of a larger matrix: it is frozen and not packed, and its
// adapter, if any, is a plain product of the same x, or of x with dropout. All graphs of a training decide alike, with
// and without adapter: a device would hold the weight once by itself and once as such a part.
func (g *Graph) joins(l *Linear) bool {
	if g.packed(l.Key+".weight") != nil || g.own(l.Key+".weight") || g.own(l.Key+".bias") || g.LowMemory {
		return false
	}
	a := cmp.Or(g.Trained, g.Adapter)
	if a == nil {
		return true
	}
	_, adapted := a.Target(l.Module)
	return !adapted || !a.Config.DoRA && a.InitOffset == nil && a.Branches == nil
}

// joinedAdapters adds the layers' adapters to their joined outputs, with one A [sum of ranks, in] and one B [sum of
// widths, sum of ranks]. B is zero where a layer's output does not depend on another layer's A. With dropout, which
// drops other elements for each layer, each A is a product by itself.
func (g *Graph) joinedAdapters(x, y string, layers []*Linear, widths []int64) string {
	if g.Adapter == nil {
		return y
	}
	var as, bs, smalls []string
	before, total := int64(0), int64(0)
	for _, w := range widths {
		total += w
	}
	for i, l := range layers {
		if site, ok := g.Adapter.Target(l.Module); ok {
			a, b := g.adapterPair(l.Module)
			if g.err != nil {
				return y
			}
			if site.Scale != 1 {
				b = g.Op("Mul", b, g.Scalar(g.Compute, site.Scale))
			}
			if dropped := g.dropped(x, g.Compute, g.Tensors[lora.NameA(l.Module)].Shape()[1]); dropped != "" {
				smalls = append(smalls, g.OpA("Gemm", onnx.Attrs{"transB": 1}, dropped, a))
			}
			as = append(as, a)
			bs = append(bs, g.between(before, b, total-before-widths[i], int64(site.Rank)))
		}
		before += widths[i]
	}
	if len(as) == 0 {
		return y
	}
	if len(smalls) == 0 {
		smalls = append(smalls, g.OpA("Gemm", onnx.Attrs{"transB": 1}, x, g.concat(0, as...)))
	}
	return g.OpA("Gemm", onnx.Attrs{"transB": 1}, g.concat(1, smalls...), g.concat(1, bs...), y)
}

// between is a matrix [n, columns] with rows of zeros before and after it. CUDA has no Pad of bfloat16.
func (g *Graph) between(before int64, x string, after, columns int64) string {
	zeros := func(rows int64) string {
		return g.Numbers(g.Compute, []int64{rows, columns}, make([]float64, rows*columns)...)
	}
	parts := []string{x}
	if before > 0 {
		parts = append([]string{zeros(before)}, parts...)
	}
	if after > 0 {
		parts = append(parts, zeros(after))
	}
	return g.concat(0, parts...)
}

// fused is attention with fused operators; see Forward.
func (a *SelfAttention) fused(g *Graph, queries, all string, v *View) string {
	if !v.Selected {
		q, k, value := g.RopeSplit(g.joined(all, a.Query, a.Key, a.Value), v.flat, a.Heads, a.KVHeads)
		return g.FlashAttention(q, k, value, v.AllSegments, a.Heads, a.KVHeads, v.sliding)
	}
	turned := func(x string, r Rotation, heads int) string {
		return g.Op("Squeeze", rotate(g, x, r.narrow(g), heads), g.Ints(0))
	}
	q := turned(a.Query.Forward(g, queries), v.Rotation.at(g, v.Select), a.Heads)
	k := turned(g.ofAllRows(a.Key, all), v.Rotation, a.KVHeads)
	return g.FlashAttention(q, k, g.ofAllRows(a.Value, all), v.SelectSegments, a.Heads, a.KVHeads, v.sliding)
}
