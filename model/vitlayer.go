package model

import (
	"fmt"

	"assay/onnx"
)

// ViT is the transformer of CLIP's towers and of DINOv2: pre-norm layers of attention and an MLP. Its parameters are named
// as in CLIP; a checkpoint with other names is given aliases.
type ViT struct {
	Hidden, Heads int
	Activation    string
	Eps           float64
	Key, Module   string // what stands before "encoder.layers.N." in the checkpoint and for PEFT
}

// Span says which rows of x [segments*length, hidden] see each other: those of one segment.
type Span struct {
	Shape string // int64 vector [-1, length, hidden]
	Mask  string // added to the scores, broadcast to [segments, heads, asking rows, length]; "": all see all
	Pick  string // int64 [segments], one row of each: the only ones that the layer must deliver; "": all rows
}

// Embed cuts pixels [segments, 3, H, W] into patches of patch x patch, projects them (weights conv, with a bias if there is
// one), puts the class token [1, 1, hidden] in front and adds positions [1 + patches, hidden]: [segments, 1 + patches, hidden].
func (v *ViT) Embed(g *Graph, pixels string, patch int, conv, class, positions string) string {
	inputs := []string{pixels, g.Param(conv + ".weight")}
	if g.Has(conv + ".bias") {
		inputs = append(inputs, g.Param(conv+".bias"))
	}
	x := g.OpA("Conv", onnx.Attrs{"strides": []int{patch, patch}, "kernel_shape": []int{patch, patch}}, inputs...)
	x = g.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1}}, g.Op("Reshape", x, g.Ints(0, int64(v.Hidden), -1)))
	class = g.Op("Expand", class, g.Shape(g.SizeOf(pixels, 0), 1, v.Hidden))
	return g.Op("Add", g.OpA("Concat", onnx.Attrs{"axis": 1}, class, x), positions)
}

// Layer is layer i over x [segments*length, hidden]: x += attention(norm(x)), then x += mlp(norm(x)), each times DINOv2's
// layer scale if the checkpoint has one. It returns [segments*length, hidden], or [segments, hidden] with s.Pick.
func (v *ViT) Layer(g *Graph, x string, i int, s Span) string {
	name := fmt.Sprintf("encoder.layers.%d", i)
	g.Segment(name, func() { x = v.layer(g, x, name+".", s) })
	return x
}

func (v *ViT) layer(g *Graph, x, name string, s Span) string {
	key, module := v.Key+name, v.Module+name
	linear := func(x, part string) string { return g.Linear(x, key+part, module+part) }
	add := func(x, y, scale string) string {
		if g.Has(key + scale) {
			y = g.Op("Mul", y, g.Param(key+scale))
		}
		return g.Op("Add", x, y)
	}
	segments := func(t string) string { return g.Op("Reshape", t, s.Shape) }
	y := g.LayerNorm(x, key+"layer_norm1", v.Eps)
	k, value := segments(linear(y, "self_attn.k_proj")), segments(linear(y, "self_attn.v_proj"))
	var q string
	if s.Pick == "" {
		q = segments(linear(y, "self_attn.q_proj"))
	} else {
		x = g.Pick(x, s.Pick, 0)
		q = g.Op("Unsqueeze", linear(g.Pick(y, s.Pick, 0), "self_attn.q_proj"), g.Ints(1))
	}
	x = add(x, linear(g.Attend(q, k, value, s.Mask, v.Heads, v.Hidden/v.Heads), "self_attn.out_proj"), "layer_scale1.lambda1")
	y = g.LayerNorm(x, key+"layer_norm2", v.Eps)
	if g.Has(key + "mlp.gate_proj.weight") {
		y = g.GatedMLP(y, key+"mlp.", module+"mlp.", "silu")
	} else {
		y = linear(g.Activation(linear(y, "mlp.fc1"), v.Activation), "mlp.fc2")
	}
	return add(x, y, "layer_scale2.lambda1")
}

// ViTLayer appends the tensors of one of n layers of CLIP's towers; key stands before "layer_norm1".
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
