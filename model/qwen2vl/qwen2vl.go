// Package qwen2vl is the Qwen2-VL family: the same kind of language model as Qwen2.5-VL's with an older vision tower,
// whose layers all attend over full pictures. Most of it is in package qwenvl; this package adds the tower's MLPs and
// the list of parameters.
package qwen2vl

import (
	"encoding/json"

	"assay/checkpoints"
	"assay/internal/strictjson"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/model/qwenvl"
)

func init() { backbone.Register("qwen2_vl", open) }

// Architecture is an opened Qwen2-VL checkpoint.
type Architecture struct{ *qwenvl.Family }

func open(dir string, raw json.RawMessage, w *checkpoints.Weights) (backbone.Architecture, error) {
	f, err := qwenvl.Open(dir, raw, w, qwenvl.Spec{
		ModelType: "qwen2_vl",
		Width:     "embed_dim",
		Out:       "hidden_size",
		Flat:      true,
		Tower: qwenvl.Tower{ // transformers' Qwen2VLVisionConfig
			Layers:     32,
			Hidden:     1280,
			Heads:      16,
			Out:        3584,
			Activation: "quick_gelu",
			Patch:      14,
			Frames:     2,
			Merge:      2,
			Theta:      1e4,
		},
		Read: readVision,
		Harmless: strictjson.Harmless{ // in published files; in_channels and patch_size are used
			"in_chans":           {3},
			"spatial_patch_size": nil,
		},
	})
	return &Architecture{f}, err
}

// readVision reads mlp_ratio, the width of the blocks' MLPs relative to that of the patches.
func readVision(o *strictjson.Object, t *qwenvl.Tower) {
	ratio := 4
	if o.Get("mlp_ratio", &ratio); ratio < 1 {
		o.Failf("mlp_ratio", "%d is not positive", ratio)
	}
	t.Intermediate = ratio * t.Hidden
}

// Vision builds the tower and the merger of patches into tokens: [image tokens, hidden].
func (b *Architecture) Vision(g *nn.Graph) string {
	x := b.Whole(g, b.Patches(g), func(at nn.Prefix) *qwenvl.Block {
		mlp := at.Sub("mlp.")
		return b.Block(at, norm, &nn.MLP{
			First:      mlp.Linear("fc1"),
			Second:     mlp.Linear("fc2"),
			Activation: b.Tower.Activation,
		})
	}, nil)
	merger := b.Prefix.Sub("merger.")
	return b.Merger(merger, norm(merger.Key+"ln_q"), "mlp.0", "mlp.2").Forward(g, x)
}

func norm(key string) nn.Module { return &nn.LayerNorm{Key: key, Eps: qwenvl.Eps} }

// Parameters lists the tensors of language model, tower and merger.
func (b *Architecture) Parameters() nn.Parameters {
	t := b.Tower
	p := b.Family.Parameters(false, func(p *nn.Parameters, key string) {
		p.LayerNorm(key+"norm1", t.Hidden)
		p.LayerNorm(key+"norm2", t.Hidden)
		p.Linear(key+"mlp.fc1", t.Intermediate, t.Hidden, true)
		p.Residual(key+"mlp.fc2", t.Hidden, t.Intermediate, true, t.Layers)
	})
	merger := b.Prefix.Key + "merger."
	p.LayerNorm(merger+"ln_q", t.Hidden)
	b.MergerParameters(&p, merger+"mlp.0", merger+"mlp.2")
	return p
}
