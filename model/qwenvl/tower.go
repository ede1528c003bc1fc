package qwenvl

import (
	"fmt"
	"math"

	"assay/model/nn"
	"assay/onnx"
)

// Eps of all norms in the towers.
const Eps = 1e-6

// Inputs of the vision tower. Inside the tower every patch has a place, picture by picture.
const (
	inPixels    = "pixel_values"
	inPositions = "patch_positions" // [2, patches] int64: row and column of each place in its picture
	pictures    = "picture"         // the segments that are full pictures
)

// Patches declares pixel_values and embeds them: [patches, hidden]. Kernel and stride of the convolution are equal, so
// that it is a matrix product.
func (b *Family) Patches(g *nn.Graph) string {
	t, key := b.Tower, b.patchKey()
	pixels := g.Input(inPixels, onnx.Float, onnx.Dims("patches", t.Values()))
	kernel := g.Op("Reshape", g.Param(key+".weight"), g.Ints(int64(t.Hidden), int64(t.Values())))
	inputs := []string{pixels, kernel}
	if g.Has(key + ".bias") {
		inputs = append(inputs, g.Param(key+".bias"))
	}
	return g.OpA("Gemm", onnx.Attrs{"transB": 1}, inputs...)
}

func (b *Family) patchKey() string { return b.Prefix.Key + "patch_embed.proj" }

// Turns are the cosines and sines of the patches' rotary positions, [patches, head_dim/2].
type Turns struct{ Cos, Sin string }

// Rotary declares the patches' rows and columns: the first half of the frequencies rotates with the row, the other with
// the column. In a model that was cast to bfloat16 as a whole, each step is rounded.
func (b *Family) Rotary(g *nn.Graph) Turns {
	quarter := b.Tower.Hidden / b.Tower.Heads / 4
	round := func(x string) string { return x }
	if b.decoder.Rope.Rounded {
		round = g.RoundBFloat16
	}
	table := make([]float32, 2*2*quarter) // [axes, 1, head_dim/2], zero for the other axis
	for i := range quarter {
		v := 1 / float32(math.Pow(b.Tower.Theta, float64(float32(2*i)/float32(2*quarter))))
		table[i], table[2*quarter+quarter+i] = v, v
	}
	at := round(g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, g.Input(inPositions, onnx.Int64, onnx.Dims(2, "patches"))))
	frequencies := round(g.Floats([]int64{2, 1, int64(2 * quarter)}, table...))
	angle := g.Op("Mul", g.Op("Unsqueeze", at, g.Ints(2)), frequencies)
	angle = round(g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, angle, g.Ints(0)))
	return Turns{round(g.Op("Cos", angle)), round(g.Op("Sin", angle))}
}

// Block is a pre-norm block over x [patches, hidden]: x += attention(norm(x)), then x += mlp(norm(x)).
type Block struct {
	Norm1, QKV, Proj, Norm2, MLP nn.Module
	Heads, Dim                   int
}

// Block returns a block with the parts that have the same names in all towers; the member passes its own MLP.
func (b *Family) Block(at nn.Prefix, norm func(key string) nn.Module, mlp nn.Module) *Block {
	return &Block{
		Norm1: norm(at.Key + "norm1"),
		QKV:   at.Linear("attn.qkv"),
		Proj:  at.Linear("attn.proj"),
		Norm2: norm(at.Key + "norm2"),
		MLP:   mlp,
		Heads: b.Tower.Heads,
		Dim:   b.Tower.Hidden / b.Tower.Heads,
	}
}

// Forward lets every patch attend to the patches of its own segment.
func (l *Block) Forward(g *nn.Graph, x string, s *Segments) string {
	if g.Kernels == nn.Fused {
		q, k, v := g.RopeSplit(l.QKV.Forward(g, l.Norm1.Forward(g, x)), s.turns, l.Heads, l.Heads)
		y := l.Proj.Forward(g, g.FlashAttention(q, k, v, s.table, l.Heads, l.Heads, 0))
		x, y = g.AddNorm(x, y, l.Norm2)
		return g.Op("Add", x, g.Wide(l.MLP.Forward(g, y)))
	}
	hidden := l.Heads * l.Dim
	qkv := s.fill(g, g.Compute, l.QKV.Forward(g, l.Norm1.Forward(g, x)), 3*hidden)
	parts := g.Node("", "Split", 2, onnx.Attrs{"axis": 2}, qkv, g.Ints(int64(2*hidden), int64(hidden)))
	// queries and keys are next to each other: twice as many heads
	turned := g.OpA("RotaryEmbedding", onnx.Attrs{"num_heads": 2 * l.Heads}, parts[0], s.cos, s.sin)
	qk := g.Node("", "Split", 2, onnx.Attrs{"axis": 2, "num_outputs": 2}, turned)
	attend := g.Attend
	if s.whole {
		attend = g.AttendWhole
	}
	y := g.Pick(attend(qk[0], qk[1], parts[1], s.mask, l.Heads, l.Dim), s.back, 0)
	x = g.Op("Add", x, g.Wide(l.Proj.Forward(g, y)))
	return g.Op("Add", x, g.Wide(l.MLP.Forward(g, l.Norm2.Forward(g, x))))
}

// Whole runs blocks that attend over full pictures, and calls after, unless it is nil, with the output of each.
func (b *Family) Whole(g *nn.Graph, x string, block func(at nn.Prefix) *Block, after func(i int, x string)) string {
	seen := b.Segments(g, pictures, b.Rotary(g))
	for i := range b.Tower.Layers {
		name := fmt.Sprintf("blocks.%d", i)
		l := block(b.Prefix.Sub(name + "."))
		g.Segment(name, func() { x = l.Forward(g, x, seen) })
		if after != nil {
			after(i, x)
		}
	}
	return x
}

// Merger merges consecutive patches into tokens: [tokens, out].
type Merger struct {
	Norm   nn.Module
	MLP    nn.Module
	Width  int  // of the joined patches of a token
	Joined bool // patches are joined before the norm, not after it
}

// Merger returns a merger of the tower's width; first and second are the names of its linear layers.
func (b *Family) Merger(at nn.Prefix, norm nn.Module, first, second string) *Merger {
	return &Merger{
		Norm:  norm,
		MLP:   &nn.MLP{First: at.Linear(first), Second: at.Linear(second), Activation: "gelu"},
		Width: b.Tower.Hidden * b.Tower.Unit(),
	}
}

// Forward joins the patches of a token and projects them.
func (m *Merger) Forward(g *nn.Graph, x string) string {
	join := func(x string) string { return g.Op("Reshape", x, g.Ints(-1, int64(m.Width))) }
	if m.Joined {
		x = m.Norm.Forward(g, join(x))
	} else {
		x = join(m.Norm.Forward(g, x))
	}
	return g.Wide(m.MLP.Forward(g, x))
}

// Parameters lists the tensors of the language model, of the patch embedding and, for each block, those with the same
// names in all towers; block adds the others.
func (b *Family) Parameters(patchBias bool, block func(p *nn.Parameters, key string)) nn.Parameters {
	t, p := b.Tower, b.decoder.Parameters(b.keys)
	p.Add(nn.RoleWeight, b.patchKey()+".weight", t.Hidden, 3, t.Frames, t.Patch, t.Patch)
	if patchBias {
		p.Add(nn.RoleBias, b.patchKey()+".bias", t.Hidden)
	}
	for i := range t.Layers {
		key := fmt.Sprintf("%sblocks.%d.", b.Prefix.Key, i)
		p.Linear(key+"attn.qkv", 3*t.Hidden, t.Hidden, true)
		p.Residual(key+"attn.proj", t.Hidden, t.Hidden, true, t.Layers)
		block(&p, key)
	}
	return p
}

// MergerParameters lists the parameters of a [Merger] without its norm.
func (b *Family) MergerParameters(p *nn.Parameters, first, second string) {
	merged := b.Tower.Hidden * b.Tower.Unit()
	p.Linear(first, merged, merged, true)
	p.Linear(second, b.decoder.Hidden, merged, true)
}
