// Package qwen25vl is the Qwen2.5-VL family: a vision tower of dynamic resolution with window attention, and a Qwen2
// language model whose rotary positions follow the pictures' rows and columns.
package qwen25vl

import (
	"encoding/json"
	"fmt"
	"strings"

	"assay/checkpoints"
	"assay/internal/strictjson"
	"assay/model"
)

// model_types of the whole and of its parts.
const (
	modelType  = "qwen2_5_vl"
	textType   = "qwen2_5_vl_text"
	visionType = "qwen2_5_vl_vision"
)

func init() { model.Register(modelType, open) }

// visionConfig is vision_config of config.json, with the defaults of transformers' Qwen2_5_VLVisionConfig.
type visionConfig struct {
	Layers       int
	Hidden       int
	Intermediate int
	Heads        int
	Out          int // width of the tokens
	Activation   string
	Patch        int // pixels
	Frames       int
	Merge        int   // patches along the edge of a token
	Window       int   // pixels
	Whole        []int // layers that see the whole picture
	Theta        float64
}

// harmless are keys of the whole configuration that change no number.
var harmless = strictjson.Harmless{
	"video_token_id":        nil, // no video is shown
	"vision_start_token_id": nil, // the chat template writes it
	"vision_end_token_id":   nil,
	"vision_token_id":       nil,
}

// visionHarmless are those of vision_config.
var visionHarmless = strictjson.Harmless{
	"in_channels": {3}, "in_chans": {3}, // in_chans: published files
	"spatial_patch_size": nil, // published files; patch_size counts
	"tokens_per_second":  nil, // of videos
}

// readVision reads vision_config.
func readVision(o *strictjson.Object) visionConfig {
	v := visionConfig{
		Layers:       32,
		Hidden:       3584,
		Intermediate: 3420,
		Heads:        16,
		Out:          3584,
		Activation:   "silu",
		Patch:        14,
		Frames:       2,
		Merge:        2,
		Window:       112,
		Whole:        []int{7, 15, 23, 31},
		Theta:        1e4,
	}
	p := o.Sub("vision_config")
	if p == nil {
		p = o.None("vision_config")
	}
	kind := visionType
	if p.Get("model_type", &kind); kind != visionType && kind != modelType { // published files have the latter
		p.Failf("model_type", "%q is not supported; %s is", kind, visionType)
	}
	for key, into := range map[string]*int{
		"depth":               &v.Layers,
		"hidden_size":         &v.Hidden,
		"intermediate_size":   &v.Intermediate,
		"num_heads":           &v.Heads,
		"out_hidden_size":     &v.Out,
		"patch_size":          &v.Patch,
		"temporal_patch_size": &v.Frames,
		"spatial_merge_size":  &v.Merge,
		"window_size":         &v.Window,
	} {
		p.Get(key, into)
	}
	p.Get("fullatt_block_indexes", &v.Whole)
	p.Get("hidden_act", &v.Activation)
	model.CheckActivation(p, "hidden_act", v.Activation)
	readTheta(p, &v.Theta)
	p.Close(visionHarmless, model.Legacy)
	if err := v.check(); err != nil {
		p.Failf("", "%w", err)
	}
	return v
}

// readTheta reads the rotary part of the tower, which knows one type of positions: rows and columns.
func readTheta(o *strictjson.Object, theta *float64) {
	kind := "axial"
	o.Get("rope_theta", theta)
	if r := o.Sub("rope_parameters"); r != nil {
		r.Get("type", &kind)
		r.Get("rope_type", &kind)
		r.Get("rope_theta", theta)
		r.Close(strictjson.Harmless{"partial_rotary_factor": {1}})
		if kind != "axial" && kind != "default" {
			r.Failf("rope_type", "%q is not supported; axial is", kind)
		}
	}
	if *theta <= 0 {
		o.Failf("rope_theta", "%g is no base", *theta)
	}
}

func (v *visionConfig) check() error {
	switch {
	case v.Layers < 1 || v.Hidden < 1 || v.Heads < 1 || v.Hidden%v.Heads != 0 || v.Hidden/v.Heads%4 != 0:
		return fmt.Errorf("%d layers of width %d with %d heads: a head's width must be a multiple of 4", v.Layers, v.Hidden,
			v.Heads)
	case v.Patch < 1 || v.Merge < 1 || v.Frames < 1:
		return fmt.Errorf("patch_size %d, spatial_merge_size %d and temporal_patch_size %d must be positive", v.Patch,
			v.Merge, v.Frames)
	case v.cells() < 1:
		return fmt.Errorf("window_size %d holds no token of %d pixels", v.Window, v.Patch*v.Merge)
	}
	return nil
}

// cells is the edge of a window in tokens.
func (v *visionConfig) cells() int { return v.Window / v.Merge / v.Patch }

// unit is how many patches make a token.
func (v *visionConfig) unit() int { return v.Merge * v.Merge }

// Architecture is an opened Qwen2.5-VL checkpoint.
type Architecture struct {
	decoder model.Decoder
	vision  visionConfig
	tower   string // checkpoint prefix of the vision tower
	keys    model.Keys
	colours model.Colours
	least   int // pixels that a picture is enlarged to
	most    int // pixels that a picture is reduced to
}

func open(dir string, raw json.RawMessage, w *checkpoints.Weights) (model.Architecture, error) {
	o, err := strictjson.Parse("config.json", raw)
	if err != nil {
		return nil, err
	}
	b := &Architecture{tower: "visual."}
	b.vision = readVision(o)
	imageToken := int64(151655)
	o.Get("image_token_id", &imageToken)
	tied := false
	o.Get("tie_word_embeddings", &tied)
	text := parseText(o)
	if text.Tied = text.Tied || tied; b.vision.Out != text.Hidden {
		o.Failf("vision_config", "out_hidden_size %d is not the language model's hidden_size, %d", b.vision.Out, text.Hidden)
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	layers := "model."
	if w.Has("model.language_model.embed_tokens.weight") { // as modules are named in transformers >= 4.52
		layers, b.tower = "model.language_model.", "model.visual."
	}
	b.keys = text.Tables(w, layers+"embed_tokens.weight", "lm_head.weight")
	b.decoder = model.Decoder{TextConfig: text, Key: layers, Module: "model.language_model.", ImageToken: imageToken}
	return b, b.readProcessor(dir)
}

// parseText reads text_config or, in published checkpoints, the same fields at top level. Files of transformers 4.52 to
// 4.57 have both, and then they must agree.
func parseText(o *strictjson.Object) model.TextConfig {
	t := o.Sub("text_config")
	if t == nil {
		t = o.Rest(harmless)
		o.Close(harmless)
		return model.ParseText(t, textType, modelType)
	}
	o.Same(t)
	o.Close(harmless, model.Legacy)
	return model.ParseText(t, textType, modelType)
}

func (b *Architecture) patchKey() string { return b.tower + "patch_embed.proj.weight" }

// readProcessor reads the limits of a picture's size, which have three spellings, and compares the sizes of patches.
func (b *Architecture) readProcessor(dir string) error {
	p := struct{ Patch, Merge, Frames int }{Patch: 14, Merge: 2, Frames: 2}
	var file string
	var err error
	b.least, b.most = 56*56, 28*28*1280
	b.colours, file, err = model.ReadImageProcessor(dir, model.ImageProcessor{
		Kinds: []string{"Qwen2VLImageProcessor", "Qwen2_5_VLImageProcessor"},
		Read: func(o *strictjson.Object) {
			o.Get("patch_size", &p.Patch)
			o.Get("merge_size", &p.Merge)
			o.Get("temporal_patch_size", &p.Frames)
			b.readLimits(o)
			o.Raw("do_center_crop") // transformers does not look at it
			o.Raw("crop_size")
		},
	})
	if err != nil {
		return err
	}
	v := b.vision
	if p.Patch != v.Patch || p.Merge != v.Merge || p.Frames != v.Frames {
		return fmt.Errorf(
			"%s: patch_size %d, merge_size %d, temporal_patch_size %d do not fit the vision tower's %d, %d, %d", file, p.Patch,
			p.Merge, p.Frames, v.Patch, v.Merge, v.Frames)
	}
	if b.least < 1 || b.most < b.least {
		return fmt.Errorf("%s: a picture cannot have at least %d and at most %d pixels", file, b.least, b.most)
	}
	return nil
}

// readLimits reads the least and the most pixels of a picture; the spelling that is read last counts. The edges of a
// size are numbers of pixels in spite of their names.
func (b *Architecture) readLimits(o *strictjson.Object) {
	if s := o.Sub("size"); s != nil {
		if !s.Has("min_pixels") && !s.Has("shortest_edge") && !o.Has("min_pixels") ||
			!s.Has("max_pixels") && !s.Has("longest_edge") && !o.Has("max_pixels") {
			o.Failf("size", "shortest_edge and longest_edge are both wanted")
		}
		s.Opt("min_pixels", &b.least)
		s.Opt("max_pixels", &b.most)
		s.Opt("shortest_edge", &b.least)
		s.Opt("longest_edge", &b.most)
		s.Close(strictjson.Harmless{"height": {nil}, "width": {nil}, "max_height": {nil}, "max_width": {nil}})
	}
	o.Opt("min_pixels", &b.least)
	o.Opt("max_pixels", &b.most)
}

// Decoder, Keys and the rest describe the checkpoint to package model.
func (b *Architecture) Decoder() *model.Decoder { return &b.decoder }

// Keys names the parameters outside the layers.
func (b *Architecture) Keys() model.Keys { return b.keys }

// Placeholder stands for a picture in prompts.
func (b *Architecture) Placeholder() string { return "<|image_pad|>" }

// EndOfTurn closes a turn of ChatML.
func (b *Architecture) EndOfTurn() string { return "<|im_end|>" }

// CanPair: two pictures, one joined, or the two frames of each temporal patch.
func (b *Architecture) CanPair(pair string) bool {
	return pair == model.Sequence || pair == model.Concat || pair == model.Frames && b.vision.Frames == 2
}

// VisionKey reports whether a parameter belongs to the tower or its merger.
func (b *Architecture) VisionKey(key string) bool { return strings.HasPrefix(key, b.tower) }
