package qwen25vl

import (
	"fmt"
	"slices"

	"assay/model/nn"
	"assay/model/qwenvl"
	"assay/onnx"
)

// Vision builds the tower and the merger of patches into tokens: [image tokens, hidden].
func (b *Architecture) Vision(g *nn.Graph) string {
	patches := b.Patches(g)
	order := g.Input(inPatches, onnx.Int64, onnx.Dims("patches"))
	tokens := g.Input(inTokens, onnx.Int64, onnx.Dims("image_tokens"))
	turns := b.Rotary(g)
	x := g.Pick(patches, order, 0)
	divisions := map[string]*qwenvl.Segments{} // declared where they are first used
	for i := range b.Tower.Layers {
		division := "window"
		if slices.Contains(b.whole, i) {
			division = "picture"
		}
		if divisions[division] == nil {
			divisions[division] = b.Segments(g, division, turns)
		}
		name, seen := fmt.Sprintf("blocks.%d", i), divisions[division]
		at := b.Prefix.Sub(name + ".")
		block := b.Block(at, norm, at.Sub("mlp.").GatedMLP(b.Tower.Activation))
		g.Segment(name, func() { x = block.Forward(g, x, seen) })
	}
	merger := b.Prefix.Sub("merger.")
	return g.Pick(b.Merger(merger, norm(merger.Key+"ln_q"), "mlp.0", "mlp.2").Forward(g, x), tokens, 0)
}

func norm(key string) nn.Module { return &nn.RMSNorm{Key: key, Eps: qwenvl.Eps} }

// Parameters lists the tensors of language model, tower and merger.
func (b *Architecture) Parameters() nn.Parameters {
	t := b.Tower
	p := b.Family.Parameters(false, func(p *nn.Parameters, key string) {
		p.Add(nn.RoleNorm, key+"norm1.weight", t.Hidden)
		p.Add(nn.RoleNorm, key+"norm2.weight", t.Hidden)
		p.GatedMLP(key+"mlp.", t.Hidden, t.Intermediate, true, t.Layers)
	})
	merger := b.Prefix.Key + "merger."
	p.Add(nn.RoleNorm, merger+"ln_q.weight", t.Hidden)
	b.MergerParameters(&p, merger+"mlp.0", merger+"mlp.2")
	return p
}
