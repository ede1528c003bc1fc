package llavanext

import (
	"fmt"
	"slices"

	"assay/model/nn"
)

// Parameters lists the tensors of language model, tower, projector and newline row. Vision layers after the last one
// that features are taken from are never read.
func (b *Architecture) Parameters() nn.Parameters {
	v, p := b.vision, b.decoder.Parameters(b.keys)
	embeddings := b.tower + "embeddings."
	p.Add(nn.RoleEmbedding, embeddings+"class_embedding", v.Hidden)
	p.Add(nn.RoleWeight, embeddings+"patch_embedding.weight", v.Hidden, 3, v.Patch, v.Patch)
	p.Add(nn.RolePositions, embeddings+"position_embedding.weight", b.side()*b.side()+1, v.Hidden)
	p.LayerNorm(b.tower+"pre_layrnorm", v.Hidden)
	read, deepest := len(p), slices.Max(b.layers)
	for i := range v.Layers {
		p.ViTLayer(fmt.Sprintf("%sencoder.layers.%d.", b.tower, i), v.Hidden, v.Intermediate, v.Layers)
		if i < deepest {
			read = len(p)
		}
	}
	p.LayerNorm(b.tower+"post_layernorm", v.Hidden)
	for i := range p[read:] {
		p[read+i].Unread = true
	}
	p.Linear("multi_modal_projector.linear_1", b.decoder.Hidden, v.Hidden*len(b.layers), b.bias)
	p.Linear("multi_modal_projector.linear_2", b.decoder.Hidden, b.decoder.Hidden, b.bias)
	p.Add(nn.RoleEmbedding, "image_newline", b.decoder.Hidden)
	return p
}
