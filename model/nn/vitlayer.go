package nn

import (
	"fmt"

	"assay/onnx"
)

// ViT is the transformer of CLIP's towers and of DINOv2: pre-norm layers of attention and an MLP. Its parameters are
// named as in CLIP; a checkpoint with other names is given aliases.
type ViT struct {
	Hidden, Heads int
	Activation    string
	Eps           float64
	Key, Module   string // prefix of "encoder.layers.N." in the checkpoint and in PEFT
}

// Span describes which rows of x [segments*length, hidden] attend to each other: the rows of one segment.
type Span struct {
	Shape string // int64 vector [-1, length, hidden]
	// Segments is for fused operators, if all rows are needed: see InSegments.
	Segments string
	Mask     string // added to the scores, broadcast to [segments, heads, query rows, length]; "": none
	Pick     string // int64 [segments], one row of each: the only ones that the layer must return; "": all rows
}

// Patches are the squares of size x size pixels that pictures of 3 channels are cut into.
type Patches struct{ Size, Height, Width int } // in pixels; what exceeds the last whole patch is not used

// Embed cuts pixels [segments, 3, height, width] into patches and projects them (weights conv, with a bias if there is
// one): a convolution as a product, as cuDNN would search an algorithm for every number of segments. It puts the class
// token [1, 1, hidden] in front and adds positions [1 + patches, hidden]. The result is [segments, 1 + patches,
// hidden].
func (v *ViT) Embed(g *Graph, pixels string, p Patches, conv, class, positions string) string {
	rows, columns, size := int64(p.Height/p.Size), int64(p.Width/p.Size), int64(p.Size)
	x := pixels
	if rows*size != int64(p.Height) || columns*size != int64(p.Width) {
		x = g.Op("Slice", x, g.Ints(0, 0), g.Ints(rows*size, columns*size), g.Ints(2, 3))
	}
	x = g.Op("Reshape", x, g.Ints(-1, 3, rows, size, columns, size))
	x = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 4, 1, 3, 5}}, x)
	inputs := []string{g.Op("Reshape", x, g.Ints(-1, 3*size*size)),
		g.Op("Reshape", g.Param(conv+".weight"), g.Ints(int64(v.Hidden), 3*size*size))}
	if g.Has(conv + ".bias") {
		inputs = append(inputs, g.Param(conv+".bias"))
	}
	x = g.OpA("Gemm", onnx.Attrs{"transB": 1}, inputs...)
	x = g.Op("Reshape", x, g.Ints(-1, rows*columns, int64(v.Hidden)))
	class = g.Op("Expand", class, g.Shape(g.SizeOf(pixels, 0), 1, v.Hidden))
	return g.Op("Add", g.OpA("Concat", onnx.Attrs{"axis": 1}, class, x), positions)
}

// Layer is layer i over x [segments*length, hidden]. It returns [segments*length, hidden], or [segments, hidden] with
// s.Pick.
func (v *ViT) Layer(g *Graph, x string, i int, s Span) string {
	name := fmt.Sprintf("encoder.layers.%d", i)
	layer := v.layer(g, Prefix{v.Key, v.Module}.Sub(name+"."))
	g.Segment(name, func() { x = layer.Forward(g, x, s) })
	return x
}

// ViTLayer is a pre-norm layer: x += attention(norm(x)), then x += mlp(norm(x)), each times DINOv2's layer scale if the
// checkpoint has one.
type ViTLayer struct {
	Norm1                     Module
	Query, Key, Value, Output Module
	Scale1                    string // parameter [hidden]; "": none
	Norm2, MLP                Module
	Scale2                    string
	Heads, HeadDim            int
}

// layer builds a layer from the parts in the checkpoint: DINOv2's giant has a gated MLP.
func (v *ViT) layer(g *Graph, at Prefix) *ViTLayer {
	attention, mlp := at.Sub("self_attn."), at.Sub("mlp.")
	l := &ViTLayer{
		Norm1:   &LayerNorm{at.Key + "layer_norm1", v.Eps},
		Query:   attention.Linear("q_proj"),
		Key:     attention.Linear("k_proj"),
		Value:   attention.Linear("v_proj"),
		Output:  attention.Linear("out_proj"),
		Norm2:   &LayerNorm{at.Key + "layer_norm2", v.Eps},
		MLP:     &MLP{mlp.Linear("fc1"), mlp.Linear("fc2"), v.Activation},
		Heads:   v.Heads,
		HeadDim: v.Hidden / v.Heads,
	}
	if g.Has(mlp.Key + "gate_proj.weight") {
		l.MLP = mlp.GatedMLP("silu")
	}
	for key, scale := range map[string]*string{"layer_scale1.lambda1": &l.Scale1, "layer_scale2.lambda1": &l.Scale2} {
		if g.Has(at.Key + key) {
			*scale = at.Key + key
		}
	}
	return l
}

// Forward runs the layer; see [ViT.Layer].
func (l *ViTLayer) Forward(g *Graph, x string, s Span) string {
	add := func(x, y, scale string) string {
		y = g.Wide(y)
		if scale != "" {
			y = g.Op("Mul", y, g.Param(scale))
		}
		return g.Op("Add", x, y)
	}
	segments := func(t string) string { return g.Op("Reshape", t, s.Shape) }
	y := l.Norm1.Forward(g, x)
	if g.Kernels == Fused && s.Segments != "" {
		q, k, v := l.Query.Forward(g, y), l.Key.Forward(g, y), l.Value.Forward(g, y)
		x = add(x, l.Output.Forward(g, g.FlashAttention(q, k, v, s.Segments, l.Heads, l.Heads, 0)), l.Scale1)
		return add(x, l.MLP.Forward(g, l.Norm2.Forward(g, x)), l.Scale2)
	}
	k, v := segments(l.Key.Forward(g, y)), segments(l.Value.Forward(g, y))
	var q string
	if s.Pick == "" {
		q = segments(l.Query.Forward(g, y))
	} else {
		x = g.Pick(x, s.Pick, 0)
		q = g.Op("Unsqueeze", l.Query.Forward(g, g.Pick(y, s.Pick, 0)), g.Ints(1))
	}
	y = g.Attend(q, k, v, s.Mask, l.Heads, l.HeadDim)
	x = add(x, l.Output.Forward(g, y), l.Scale1)
	return add(x, l.MLP.Forward(g, l.Norm2.Forward(g, x)), l.Scale2)
}

// ViTLayer appends the tensors of one of n layers of CLIP's towers; key is the prefix of "layer_norm1".
func (p *Parameters) ViTLayer(key string, hidden, intermediate, n int) {
	p.LayerNorm(key+"layer_norm1", hidden)
	for _, name := range []string{"q_proj", "k_proj", "v_proj"} {
		p.Linear(key+"self_attn."+name, hidden, hidden, true)
	}
	p.Residual(key+"self_attn.out_proj", hidden, hidden, true, n)
	p.LayerNorm(key+"layer_norm2", hidden)
	p.Linear(key+"mlp.fc1", intermediate, hidden, true)
	p.Residual(key+"mlp.fc2", hidden, intermediate, true, n)
}
