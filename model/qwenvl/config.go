package qwenvl

import (
	"encoding/json"
	"fmt"

	"assay/checkpoints"
	"assay/internal/strictjson"
	"assay/model/backbone"
	"assay/model/nn"
)

// Spec describes the config.json of a member of the family.
type Spec struct {
	ModelType string // model_type at top level; with _text and _vision appended, that of the parts
	Width     string // key of vision_config with the width of the patches
	Out       string // key of vision_config with the width of the tokens
	Flat      bool   // published files have the fields of the text model at top level
	Tower     Tower  // defaults of transformers' configuration class
	// Read reads the keys of vision_config that only this member has, and checks them.
	Read     func(o *strictjson.Object, t *Tower)
	Harmless strictjson.Harmless // keys of vision_config that do not affect results
}

// Tower has the values of vision_config that all vision towers of the family share.
type Tower struct {
	Layers       int
	Hidden       int // width of the patches
	Intermediate int
	Heads        int
	Out          int // width of the tokens
	Activation   string
	Patch        int // pixels
	Frames       int
	Merge        int // patches along the edge of a token
	Theta        float64
}

// Unit is the number of patches in a token.
func (t *Tower) Unit() int { return t.Merge * t.Merge }

// Values is the number of values in a patch.
func (t *Tower) Values() int { return 3 * t.Frames * t.Patch * t.Patch }

// harmless are top-level keys of the configuration that change no number.
var harmless = strictjson.Harmless{
	"video_token_id":        nil, // video is not used
	"vision_start_token_id": nil, // the chat template writes it
	"vision_end_token_id":   nil,
	"vision_token_id":       nil,
}

// Open reads the configuration and the image processor of a checkpoint.
func Open(dir string, raw json.RawMessage, w *checkpoints.Weights, s Spec) (*Family, error) {
	o, err := strictjson.Parse("config.json", raw)
	if err != nil {
		return nil, err
	}
	b := &Family{Name: s.ModelType, Prefix: nn.Prefix{Key: "visual.", Module: "model.visual."}}
	b.Tower = s.readVision(o)
	imageToken := int64(151655)
	o.Get("image_token_id", &imageToken)
	tied := false
	o.Get("tie_word_embeddings", &tied)
	text := s.parseText(o)
	if s.Flat { // before transformers 5 the value in the text part counted
		tied = tied || text.Tied
	}
	if text.Tied = tied; b.Tower.Out != text.Hidden {
		o.Failf("vision_config", "%s %d is not the language model's hidden_size, %d", s.Out, b.Tower.Out, text.Hidden)
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	layers := "model."
	// module names of transformers >= 4.52
	if !s.Flat || w.Has("model.language_model.embed_tokens.weight") {
		layers, b.Prefix.Key = "model.language_model.", "model.visual."
	}
	b.keys = text.Tables(w, layers+"embed_tokens.weight", "lm_head.weight")
	b.decoder = nn.Decoder{TextConfig: text, Key: layers, Module: "model.language_model.", ImageToken: imageToken}
	return b, b.readProcessor(dir)
}

// parseText reads text_config or, in published checkpoints of older members, the same fields at top level. Files of
// transformers 4.52 to 4.57 may have both, and then they must agree.
func (s *Spec) parseText(o *strictjson.Object) nn.TextConfig {
	kind := s.ModelType + "_text"
	t := o.Sub("text_config")
	if t != nil {
		o.Same(t)
		o.Close(harmless, nn.Legacy)
		return nn.ParseText(t, kind, s.ModelType)
	}
	if s.Flat {
		t = o.Rest(harmless)
		o.Close(harmless)
		return nn.ParseText(t, kind, s.ModelType)
	}
	o.Close(harmless, nn.Legacy)
	return nn.ParseText(o.None("text_config"), kind)
}

// readVision reads vision_config.
func (s *Spec) readVision(o *strictjson.Object) Tower {
	t := s.Tower
	p := o.Sub("vision_config")
	if p == nil {
		p = o.None("vision_config")
	}
	want := s.ModelType + "_vision"
	kind := want
	if p.Get("model_type", &kind); kind != want && kind != s.ModelType { // published files have ModelType
		p.Failf("model_type", "%q is not supported; %s is", kind, want)
	}
	for key, into := range map[string]*int{
		s.Width:               &t.Hidden,
		s.Out:                 &t.Out,
		"depth":               &t.Layers,
		"num_heads":           &t.Heads,
		"patch_size":          &t.Patch,
		"temporal_patch_size": &t.Frames,
		"spatial_merge_size":  &t.Merge,
	} {
		p.Get(key, into)
	}
	p.Get("hidden_act", &t.Activation)
	nn.CheckActivation(p, "hidden_act", t.Activation)
	readTheta(p, &t.Theta)
	s.Read(p, &t)
	p.Close(s.Harmless, strictjson.Harmless{"in_channels": {3}}, nn.Legacy)
	switch {
	case t.Layers < 1 || t.Hidden < 1 || t.Heads < 1 || t.Hidden%t.Heads != 0 || t.Hidden/t.Heads%4 != 0:
		p.Failf("", "%d layers of width %d with %d heads: a head's width must be a multiple of 4", t.Layers, t.Hidden,
			t.Heads)
	case t.Patch < 1 || t.Merge < 1 || t.Frames < 1:
		p.Failf("", "patch_size %d, spatial_merge_size %d and temporal_patch_size %d must be positive", t.Patch, t.Merge,
			t.Frames)
	}
	return t
}

// readTheta reads the rotary part of the tower, which has one type of positions: rows and columns.
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
		o.Failf("rope_theta", "%g is not positive", *theta)
	}
}

// readProcessor reads the limits of a picture's size, which have three spellings, and checks the patch sizes.
func (b *Family) readProcessor(dir string) error {
	p := struct{ Patch, Merge, Frames int }{Patch: 14, Merge: 2, Frames: 2}
	var file string
	var err error
	b.least, b.most = 56*56, 28*28*1280
	b.colours, file, err = backbone.ReadImageProcessor(dir, backbone.ImageProcessor{
		Kinds: []string{"Qwen2VLImageProcessor", "Qwen2_5_VLImageProcessor"},
		Read: func(o *strictjson.Object) {
			o.Get("patch_size", &p.Patch)
			o.Get("merge_size", &p.Merge)
			o.Get("temporal_patch_size", &p.Frames)
			b.readLimits(o)
			o.Raw("do_center_crop") // transformers ignores it
			o.Raw("crop_size")
		},
	})
	if err != nil {
		return err
	}
	t := b.Tower
	if p.Patch != t.Patch || p.Merge != t.Merge || p.Frames != t.Frames {
		return fmt.Errorf(
			"%s: patch_size %d, merge_size %d, temporal_patch_size %d do not match the vision tower's %d, %d, %d", file, p.Patch,
			p.Merge, p.Frames, t.Patch, t.Merge, t.Frames)
	}
	if b.least < 1 || b.most < b.least {
		return fmt.Errorf("%s: invalid limits of at least %d and at most %d pixels", file, b.least, b.most)
	}
	return nil
}

// readLimits reads the minimum and maximum pixels of a picture; the spelling that is read last counts. Despite their
// names, the edges of a size are numbers of pixels.
func (b *Family) readLimits(o *strictjson.Object) {
	if s := o.Sub("size"); s != nil {
		if !s.Has("min_pixels") && !s.Has("shortest_edge") && !o.Has("min_pixels") ||
			!s.Has("max_pixels") && !s.Has("longest_edge") && !o.Has("max_pixels") {
			o.Failf("size", "shortest_edge and longest_edge are both required")
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
