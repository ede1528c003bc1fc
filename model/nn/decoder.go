package nn

import (
	"strconv"

	"assay/onnx"
)

// Decoder is a Llama-style language model (Llama, Mistral, Qwen2): RMSNorm, rotary positions, grouped-query
// attention, SwiGLU. A family with different layers sets Layer.
type Decoder struct {
	TextConfig
	Key        string // checkpoint prefix of the layers, e.g. "language_model.model."
	Module     string // PEFT's prefix of the layers, e.g. "model.language_model."
	ImageToken int64  // id of the image placeholder in config.json
	Deepstack  int    // blocks of image features that are added after the first layers, see FeatureWidth

	// Layer builds layer i from the standard layer: a family replaces parts of it, or wraps it. nil: all layers are
	// standard.
	Layer func(i int, standard *DecoderLayer) Layer
}

// FeatureWidth is the width of an image token's features. The first Hidden replace the placeholder; block k of the
// others is added to its row after layer k (DeepStack, arXiv 2406.04334).
func (d *Decoder) FeatureWidth() int { return d.Hidden * (1 + d.Deepstack) }

// Layer is one layer of a decoder: [rows, hidden] becomes [rows, hidden], or with v.Selected [selected, hidden].
type Layer interface {
	Forward(g *Graph, x Residual, v *View) Residual
}

// Residual is the residual stream between layers, [rows, hidden]: a sum in float32, and a term still to be added, in
// the type of the products; "": none. A fused norm adds the two.
type Residual struct{ Sum, Added string }

// norm returns the sum of both and its norm.
func (r Residual) norm(g *Graph, norm Module) (sum, normed string) {
	if r.Added == "" {
		return r.Sum, norm.Forward(g, r.Sum)
	}
	return g.AddNorm(r.Sum, r.Added, norm)
}

// Whole returns the sum of both.
func (r Residual) Whole(g *Graph) string {
	if r.Added == "" {
		return r.Sum
	}
	return g.Op("Add", r.Sum, g.Wide(r.Added))
}

// DecoderLayer is a pre-norm layer: x += attention(norm(x)), then x += mlp(norm(x)).
type DecoderLayer struct {
	InputNorm         Module
	Attention         *SelfAttention
	PostAttentionNorm Module
	MLP               Module
}

// layer returns layer i, whose path is name.
func (d *Decoder) layer(i int, name string) Layer {
	at := Prefix{d.Key, d.Module}.Sub(name + ".")
	attention := at.Sub("self_attn.")
	standard := &DecoderLayer{
		InputNorm: &RMSNorm{at.Key + "input_layernorm", d.Eps},
		Attention: &SelfAttention{
			Query:   attention.Linear("q_proj"),
			Key:     attention.Linear("k_proj"),
			Value:   attention.Linear("v_proj"),
			Output:  attention.Linear("o_proj"),
			Heads:   d.Heads,
			KVHeads: d.KVHeads,
			HeadDim: d.HeadDim,
			Layer:   i,
			Rotate:  rotate,
		},
		PostAttentionNorm: &RMSNorm{at.Key + "post_attention_layernorm", d.Eps},
		MLP:               at.Sub("mlp.").GatedMLP(d.Activation),
	}
	if d.Layer == nil {
		return standard
	}
	return d.Layer(i, standard)
}

// Forward runs the layer.
func (l *DecoderLayer) Forward(g *Graph, in Residual, v *View) Residual {
	x, all := in.norm(g, l.InputNorm)
	queries := all
	if v.Selected { // the last layer: only rows that are used later are queries
		queries, x = g.Pick(all, v.Select, 0), g.Pick(x, v.Select, 0)
	}
	x, normed := g.AddNorm(x, l.Attention.Forward(g, queries, all, v), l.PostAttentionNorm)
	out := Residual{x, l.MLP.Forward(g, normed)}
	if g.Kernels == Plain {
		out = Residual{Sum: out.Whole(g)}
	}
	return out
}

// Rotary declares the positions [axes, rows] int64 and returns their cosines and sines. Each frequency belongs to one
// axis: it is zero for the others, so the sum over the axes is exact.
func (d *Decoder) Rotary(g *Graph) Rotation {
	axes, each := d.Rope.Axes(), d.HeadDim/2
	table := make([]float32, axes*each)
	for i, f := range d.InvFreq() {
		table[d.Rope.axis(i)*each+i] = f
	}
	p := g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, g.Input(InPositions, onnx.Int64, onnx.Dims(axes, "rows")))
	angle := g.Op("Mul", g.Op("Unsqueeze", p, g.Ints(2)), g.Floats([]int64{int64(axes), 1, int64(each)}, table...))
	angle = g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, angle, g.Ints(0))
	r := Rotation{Cos: g.Op("Cos", angle), Sin: g.Op("Sin", angle)}
	if d.Rope.Attention != 1 {
		s := g.Scalar(onnx.Float, d.Rope.Attention)
		r.Cos, r.Sin = g.Op("Mul", r.Cos, s), g.Op("Mul", r.Sin, s)
	}
	if g.Kernels == Fused { // fused operators read them in float32
		return r
	}
	return r.narrow(g)
}

// Forward runs x [rows, hidden] through all layers and the final norm, and returns [selected, hidden].
func (d *Decoder) Forward(g *Graph, x string, r Rotation, p *Packing) string {
	type kind struct {
		window   int
		selected bool
	}
	stream := Residual{Sum: x}
	views := map[kind]*View{} // layers of one kind share their masks
	for i := range d.Layers {
		k := kind{selected: i == d.Layers-1 && p.Select != ""}
		if d.slides(i) {
			k.window = d.SlidingWindow
		}
		if views[k] == nil {
			views[k] = &View{Packing: p, Rotation: r, Selected: k.selected}
			views[k].mask(g, k.window, d.Heads/d.KVHeads)
		}
		name := "layers." + strconv.Itoa(i)
		layer := d.layer(i, name)
		if k.selected {
			g.rows = p.Select
		}
		g.Segment(name, func() { stream = layer.Forward(g, stream, views[k]) })
		if i < len(p.Deepstack) {
			added := p.Deepstack[i]
			if k.selected {
				added = g.Pick(added, p.Select, 0)
			}
			stream = Residual{Sum: g.Op("Add", stream.Whole(g), added)}
		}
	}
	if d.Layers == 0 && p.Select != "" {
		stream.Sum = g.Pick(stream.Sum, p.Select, 0)
	}
	return g.RMSNorm(stream.Whole(g), d.Key+"norm", d.Eps)
}

// Aligned reports whether the rows of a sample of that length start at multiples of 16 bytes, wherever they are
// summed in a batch of samples of the same length. The gradients of softmax and of norms need ONNX Runtime's
// ReduceSum, which adds a row's values in an order that depends on its address. Models with a multiple of four heads
// are aligned.
func (d *Decoder) Aligned(length int) bool {
	for _, floats := range []int{
		d.Heads * length * length, // scores of all queries
		d.Heads * 2 * length,      // and of the selected ones
		length * d.Hidden,
		length * d.KVHeads * d.HeadDim,
	} {
		if floats%4 != 0 {
			return false
		}
	}
	return true
}
