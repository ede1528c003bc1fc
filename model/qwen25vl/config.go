// Package qwen25vl is the Qwen2.5-VL family: a dynamic-resolution vision tower with window attention, and a Qwen2
// language model whose rotary positions follow the pictures' rows and columns. Most of it is in package qwenvl; this
// package adds the windows: patches are reordered window by window, some layers attend over the full picture, and the
// tokens are put back in order at the end.
package qwen25vl

import (
	"encoding/json"

	"assay/checkpoints"
	"assay/internal/strictjson"
	"assay/model/backbone"
	"assay/model/qwenvl"
)

func init() { backbone.Register("qwen2_5_vl", open) }

// Architecture is an opened Qwen2.5-VL checkpoint.
type Architecture struct {
	*qwenvl.Family
	window int   // pixels
	whole  []int // layers that attend over the full picture
}

// cells returns the edge of a window in tokens.
func (b *Architecture) cells() int { return b.window / b.Tower.Merge / b.Tower.Patch }

func open(dir string, raw json.RawMessage, w *checkpoints.Weights) (backbone.Architecture, error) {
	b := &Architecture{window: 112, whole: []int{7, 15, 23, 31}}
	var err error
	b.Family, err = qwenvl.Open(dir, raw, w, qwenvl.Spec{
		ModelType: "qwen2_5_vl",
		Width:     "hidden_size",
		Out:       "out_hidden_size",
		Flat:      true,
		Tower: qwenvl.Tower{ // transformers' Qwen2_5_VLVisionConfig
			Layers:       32,
			Hidden:       3584,
			Intermediate: 3420,
			Heads:        16,
			Out:          3584,
			Activation:   "silu",
			Patch:        14,
			Frames:       2,
			Merge:        2,
			Theta:        1e4,
		},
		Read: b.readVision,
		Harmless: strictjson.Harmless{
			"in_chans":           {3},
			"spatial_patch_size": nil, // in published files; patch_size is used
			"tokens_per_second":  nil, // for videos
		},
	})
	return b, err
}

func (b *Architecture) readVision(o *strictjson.Object, t *qwenvl.Tower) {
	o.Get("intermediate_size", &t.Intermediate)
	o.Get("fullatt_block_indexes", &b.whole)
	if o.Get("window_size", &b.window); t.Patch > 0 && t.Merge > 0 && b.window/t.Merge/t.Patch < 1 {
		o.Failf("", "window_size %d is smaller than a token of %d pixels", b.window, t.Patch*t.Merge)
	}
}
