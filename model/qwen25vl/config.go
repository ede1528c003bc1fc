// Package qwen25vl is the Qwen2.5-VL family: a vision tower of dynamic resolution with window attention, and a Qwen2 language
// model whose rotary positions follow the pictures' rows and columns.
package qwen25vl

import (
	"encoding/json"
	"fmt"
	"strings"

	"assay/checkpoints"
	"assay/model"
)

func init() { model.Register("qwen2_5_vl", open) }

// visionConfig is vision_config of config.json, with the defaults of transformers' Qwen2_5_VLVisionConfig.
type visionConfig struct {
	Layers       int    `json:"depth"`
	Hidden       int    `json:"hidden_size"`
	Intermediate int    `json:"intermediate_size"`
	Heads        int    `json:"num_heads"`
	Activation   string `json:"hidden_act"`
	Patch        int    `json:"patch_size"` // pixels
	Frames       int    `json:"temporal_patch_size"`
	Merge        int    `json:"spatial_merge_size"`    // patches along the edge of a token
	Window       int    `json:"window_size"`           // pixels
	Whole        []int  `json:"fullatt_block_indexes"` // layers that see the whole picture
	Rope         struct {
		Theta float64 `json:"rope_theta"`
	} `json:"rope_parameters"`
}

func (v *visionConfig) check() error {
	switch {
	case v.Layers < 1 || v.Hidden < 1 || v.Heads < 1 || v.Hidden%v.Heads != 0 || v.Hidden/v.Heads%4 != 0:
		return fmt.Errorf("config.json: vision_config: %d layers of width %d with %d heads: a head's width must be a multiple of 4", v.Layers, v.Hidden, v.Heads)
	case v.Patch < 1 || v.Merge < 1 || v.Frames < 1:
		return fmt.Errorf("config.json: vision_config: patch_size %d, spatial_merge_size %d and temporal_patch_size %d must be positive", v.Patch, v.Merge, v.Frames)
	case v.cells() < 1:
		return fmt.Errorf("config.json: vision_config: window_size %d holds no token of %d pixels", v.Window, v.Patch*v.Merge)
	}
	return nil
}

// cells is the edge of a window in tokens.
func (v *visionConfig) cells() int { return v.Window / v.Merge / v.Patch }

// unit is how many patches make a token.
func (v *visionConfig) unit() int { return v.Merge * v.Merge }

type config struct {
	Text       json.RawMessage `json:"text_config"`
	Vision     visionConfig    `json:"vision_config"`
	Tied       bool            `json:"tie_word_embeddings"`
	ImageToken int64           `json:"image_token_id"`
}

// Backbone is an opened Qwen2.5-VL checkpoint.
type Backbone struct {
	decoder    model.Decoder
	vision     visionConfig
	tower      string // checkpoint prefix of the vision tower
	keys       model.Keys
	imageToken int64
	colours    model.Colours
	least      int // pixels that a picture is enlarged to
	most       int // pixels that a picture is reduced to
}

func open(dir string, raw json.RawMessage, w *checkpoints.Weights) (model.Backbone, error) {
	c := config{ImageToken: 151655, Vision: visionConfig{Layers: 32, Hidden: 3584, Intermediate: 3420, Heads: 16, Activation: "silu", Patch: 14, Frames: 2, Merge: 2,
		Window: 112, Whole: []int{7, 15, 23, 31}}}
	c.Vision.Rope.Theta = 1e4
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if err := c.Vision.check(); err != nil {
		return nil, err
	}
	text, err := parseText(raw, &c)
	if err != nil {
		return nil, err
	}
	b := &Backbone{vision: c.Vision, tower: "visual.", imageToken: c.ImageToken}
	layers := "model."
	if w.Has("model.language_model.embed_tokens.weight") { // as modules are named in transformers >= 4.52
		layers, b.tower = "model.language_model.", "model.visual."
	}
	b.keys = text.Tables(w, layers+"embed_tokens.weight", "lm_head.weight")
	b.decoder = model.Decoder{TextConfig: text, Key: layers, Module: "model.language_model."}
	return b, b.readProcessor(dir)
}

// parseText reads text_config or, in published checkpoints, the same fields at top level.
func parseText(raw json.RawMessage, c *config) (model.TextConfig, error) {
	if len(c.Text) > 0 {
		raw = c.Text
	} else {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &fields); err != nil {
			return model.TextConfig{}, fmt.Errorf("config.json: %w", err)
		}
		delete(fields, "model_type") // of the whole
		var err error
		if raw, err = json.Marshal(fields); err != nil {
			return model.TextConfig{}, fmt.Errorf("config.json: %w", err)
		}
	}
	text, err := model.ParseText(raw, "qwen2_5_vl_text")
	text.Tied = text.Tied || c.Tied
	return text, err
}

func (b *Backbone) patchKey() string { return b.tower + "patch_embed.proj.weight" }

// readProcessor reads the limits of a picture's size, which have three spellings, and compares the sizes of patches.
func (b *Backbone) readProcessor(dir string) error {
	type limits struct {
		Least *int `json:"min_pixels"`
		Most  *int `json:"max_pixels"`
	}
	p := struct {
		limits
		Size struct {
			limits
			Shortest *int `json:"shortest_edge"` // both are numbers of pixels in spite of their names
			Longest  *int `json:"longest_edge"`
		} `json:"size"`
		Patch  int `json:"patch_size"`
		Merge  int `json:"merge_size"`
		Frames int `json:"temporal_patch_size"`
	}{Patch: 14, Merge: 2, Frames: 2}
	var file string
	var err error
	if b.colours, file, err = model.ReadImageProcessor(dir, &p); err != nil {
		return err
	}
	b.least, b.most = 56*56, 28*28*1280
	for _, v := range []*int{p.Size.Least, p.Size.Shortest, p.Least} { // the last one counts
		if v != nil {
			b.least = *v
		}
	}
	for _, v := range []*int{p.Size.Most, p.Size.Longest, p.Most} {
		if v != nil {
			b.most = *v
		}
	}
	v := b.vision
	if p.Patch != v.Patch || p.Merge != v.Merge || p.Frames != v.Frames {
		return fmt.Errorf("%s: patch_size %d, merge_size %d, temporal_patch_size %d do not fit the vision tower's %d, %d, %d", file, p.Patch, p.Merge, p.Frames, v.Patch, v.Merge, v.Frames)
	}
	if b.least < 1 || b.most < b.least {
		return fmt.Errorf("%s: a picture cannot have at least %d and at most %d pixels", file, b.least, b.most)
	}
	return nil
}

// Decoder, Keys and the rest describe the checkpoint to package model.
func (b *Backbone) Decoder() *model.Decoder { return &b.decoder }

// Keys names the parameters outside the layers.
func (b *Backbone) Keys() model.Keys { return b.keys }

// Placeholder stands for a picture in prompts.
func (b *Backbone) Placeholder() string { return "<|image_pad|>" }

// EndOfTurn closes a turn of ChatML.
func (b *Backbone) EndOfTurn() string { return "<|im_end|>" }

// CanPair: two pictures, one joined, or the two frames of each temporal patch.
func (b *Backbone) CanPair(pair string) bool {
	return pair == model.Sequence || pair == model.Concat || pair == model.Frames && b.vision.Frames == 2
}

// VisionKey reports whether a parameter belongs to the tower or its merger.
func (b *Backbone) VisionKey(key string) bool { return strings.HasPrefix(key, b.tower) }
