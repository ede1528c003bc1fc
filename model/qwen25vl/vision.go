package qwen25vl

import (
	"fmt"
	"math"
	"slices"

	"assay/model"
	"assay/onnx"
)

// eps of all norms in the tower.
const eps = 1e-6

// Vision builds the tower and the merger of patches into tokens: [image tokens, hidden].
func (b *Architecture) Vision(g *model.Graph) string {
	v := b.vision
	width := 3 * v.Frames * v.Patch * v.Patch
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("patches", width))
	order := g.Input(inPatches, onnx.Int64, onnx.Dims("patches"))
	tokens := g.Input(inTokens, onnx.Int64, onnx.Dims("image_tokens"))
	cos, sin := b.rotary(g)

	// The convolution that embeds patches sees each one once: it is a product.
	kernel := g.Op("Reshape", g.Param(b.patchKey()), g.Ints(int64(v.Hidden), int64(width)))
	x := g.Pick(g.OpA("Gemm", onnx.Attrs{"transB": 1}, pixels, kernel), order, 0)
	divisions := map[string]*segments{} // declared where they are first used
	for i := range v.Layers {
		division := "window"
		if slices.Contains(v.Whole, i) {
			division = "picture"
		}
		if divisions[division] == nil {
			divisions[division] = b.segments(g, division, cos, sin)
		}
		name, seen := fmt.Sprintf("blocks.%d", i), divisions[division]
		g.Segment(name, func() { x = b.block(name).forward(g, x, seen) })
	}
	x = g.Op("Reshape", g.RMSNorm(x, b.tower+"merger.ln_q", eps), g.Ints(-1, int64(v.Hidden*v.unit())))
	x = g.Linear(x, b.tower+"merger.mlp.0", "model.visual.merger.mlp.0")
	x = g.Linear(g.Activation(x, "gelu"), b.tower+"merger.mlp.2", "model.visual.merger.mlp.2")
	return g.Pick(x, tokens, 0)
}

// rotary returns cosines and sines [patches, head_dim/2]: the first half of the frequencies turns with the row, the
// other with the column.
func (b *Architecture) rotary(g *model.Graph) (cos, sin string) {
	quarter := b.vision.Hidden / b.vision.Heads / 4
	round := func(x string) string { return x }
	if b.decoder.Rope.Rounded {
		round = g.RoundBFloat16
	}
	table := make([]float32, 2*2*quarter) // [axes, 1, head_dim/2], zero for the other axis
	for i := range quarter {
		f := 1 / float32(math.Pow(b.vision.Theta, float64(float32(2*i)/float32(2*quarter))))
		table[i], table[2*quarter+quarter+i] = f, f
	}
	at := round(g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, g.Input(inPositions, onnx.Int64, onnx.Dims(2, "patches"))))
	frequencies := round(g.Floats([]int64{2, 1, int64(2 * quarter)}, table...))
	angle := g.Op("Mul", g.Op("Unsqueeze", at, g.Ints(2)), frequencies)
	angle = round(g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, angle, g.Ints(0)))
	return round(g.Op("Cos", angle)), round(g.Op("Sin", angle))
}

// block is a pre-norm block over x [patches, hidden]: x += attention(norm(x)), then x += mlp(norm(x)).
type block struct {
	norm1, qkv, proj, norm2, mlp model.Module
	heads, dim                   int
}

func (b *Architecture) block(name string) *block {
	v, at := b.vision, model.Prefix{Key: b.tower, Module: "model.visual."}.Sub(name+".")
	return &block{
		norm1: &model.RMSNorm{Key: at.Key + "norm1", Eps: eps},
		qkv:   at.Linear("attn.qkv"),
		proj:  at.Linear("attn.proj"),
		norm2: &model.RMSNorm{Key: at.Key + "norm2", Eps: eps},
		mlp:   at.Sub("mlp.").GatedMLP(v.Activation),
		heads: v.Heads,
		dim:   v.Hidden / v.Heads,
	}
}

// forward lets every patch see those of its own segment.
func (l *block) forward(g *model.Graph, x string, s *segments) string {
	hidden := l.heads * l.dim
	qkv := s.fill(g, l.qkv.Forward(g, l.norm1.Forward(g, x)), 3*hidden)
	parts := g.Node("", "Split", 2, onnx.Attrs{"axis": 2}, qkv, g.Ints(int64(2*hidden), int64(hidden)))
	// queries and keys lie side by side: twice as many heads
	turned := g.OpA("RotaryEmbedding", onnx.Attrs{"num_heads": 2 * l.heads}, parts[0], s.cos, s.sin)
	qk := g.Node("", "Split", 2, onnx.Attrs{"axis": 2, "num_outputs": 2}, turned)
	y := g.Pick(g.Attend(qk[0], qk[1], parts[1], s.mask, l.heads, l.dim), s.back, 0)
	x = g.Op("Add", x, l.proj.Forward(g, y))
	return g.Op("Add", x, l.mlp.Forward(g, l.norm2.Forward(g, x)))
}
