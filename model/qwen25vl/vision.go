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
	var windows, pictures *segments
	for i := range v.Layers {
		seen := &windows
		name := "window"
		if slices.Contains(v.Whole, i) {
			seen, name = &pictures, "picture"
		}
		if *seen == nil {
			*seen = b.segments(g, name, cos, sin)
		}
		block := fmt.Sprintf("blocks.%d", i)
		g.Segment(block, func() { x = b.block(g, x, block+".", *seen) })
	}
	x = g.Op("Reshape", g.RMSNorm(x, b.tower+"merger.ln_q", eps), g.Ints(-1, int64(v.Hidden*v.unit())))
	x = g.Linear(x, b.tower+"merger.mlp.0", "model.visual.merger.mlp.0")
	x = g.Linear(g.Activation(x, "gelu"), b.tower+"merger.mlp.2", "model.visual.merger.mlp.2")
	return g.Pick(x, tokens, 0)
}

// rotary returns cosines and sines [patches, head_dim/2]: the first half of the frequencies turns with the row, the other with
// the column.
func (b *Architecture) rotary(g *model.Graph) (cos, sin string) {
	quarter := b.vision.Hidden / b.vision.Heads / 4
	table := make([]float32, 2*2*quarter) // [axes, 1, head_dim/2], zero for the other axis
	for i := range quarter {
		f := 1 / float32(math.Pow(b.vision.Theta, float64(float32(2*i)/float32(2*quarter))))
		table[i], table[2*quarter+quarter+i] = f, f
	}
	at := g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, g.Input(inPositions, onnx.Int64, onnx.Dims(2, "patches")))
	angle := g.Op("Mul", g.Op("Unsqueeze", at, g.Ints(2)), g.Floats([]int64{2, 1, int64(2 * quarter)}, table...))
	angle = g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, angle, g.Ints(0))
	return g.Op("Cos", angle), g.Op("Sin", angle)
}

// block is one pre-norm block over x [patches, C].
func (b *Architecture) block(g *model.Graph, x, name string, s *segments) string {
	v, key, module := b.vision, b.tower+name, "model.visual."+name
	qkv := g.Linear(g.RMSNorm(x, key+"norm1", eps), key+"attn.qkv", module+"attn.qkv")
	parts := g.Node("", "Split", 2, onnx.Attrs{"axis": 2}, s.fill(g, qkv, 3*v.Hidden), g.Ints(int64(2*v.Hidden), int64(v.Hidden)))
	// queries and keys lie side by side: twice as many heads
	turned := g.OpA("RotaryEmbedding", onnx.Attrs{"num_heads": 2 * v.Heads}, parts[0], s.cos, s.sin)
	qk := g.Node("", "Split", 2, onnx.Attrs{"axis": 2, "num_outputs": 2}, turned)
	y := g.Pick(g.Attend(qk[0], qk[1], parts[1], s.mask, v.Heads, v.Hidden/v.Heads), s.back, 0)
	x = g.Op("Add", x, g.Linear(y, key+"attn.proj", module+"attn.proj"))
	return g.Op("Add", x, g.GatedMLP(g.RMSNorm(x, key+"norm2", eps), key+"mlp.", module+"mlp.", v.Activation))
}
