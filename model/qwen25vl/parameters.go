package qwen25vl

import (
	"fmt"

	"assay/model"
)

// Parameters lists the tensors of language model, tower and merger.
func (b *Architecture) Parameters() model.Parameters {
	v, p := b.vision, b.decoder.Parameters(b.keys)
	p.Add(model.RoleWeight, b.patchKey(), v.Hidden, 3, v.Frames, v.Patch, v.Patch)
	for i := range v.Layers {
		block := fmt.Sprintf("%sblocks.%d.", b.tower, i)
		p.Add(model.RoleNorm, block+"norm1.weight", v.Hidden)
		p.Linear(block+"attn.qkv", 3*v.Hidden, v.Hidden, true)
		p.Residual(block+"attn.proj", v.Hidden, v.Hidden, true, v.Layers)
		p.Add(model.RoleNorm, block+"norm2.weight", v.Hidden)
		p.GatedMLP(block+"mlp.", v.Hidden, v.Intermediate, true, v.Layers)
	}
	merged := v.Hidden * v.unit()
	p.Add(model.RoleNorm, b.tower+"merger.ln_q.weight", v.Hidden)
	p.Linear(b.tower+"merger.mlp.0", merged, merged, true)
	p.Linear(b.tower+"merger.mlp.2", b.decoder.Hidden, merged, true)
	return p
}
