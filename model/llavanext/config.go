// Package llavanext is the LLaVA-NeXT family: a CLIP vision tower over any-resolution tiles, a two-layer projector, and a
// Llama or Mistral language model.
package llavanext

import (
	"encoding/json"
	"fmt"

	"assay/checkpoints"
	"assay/model"
)

func init() { model.Register("llava_next", open) }

// visionConfig is vision_config of config.json, with CLIPVisionConfig's defaults.
type visionConfig struct {
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	ImageSize    int     `json:"image_size"`
	Patch        int     `json:"patch_size"`
	Activation   string  `json:"hidden_act"`
	Eps          float64 `json:"layer_norm_eps"`
	ModelType    string  `json:"model_type"`
}

type config struct {
	Text          json.RawMessage `json:"text_config"`
	Vision        visionConfig    `json:"vision_config"`
	Pinpoints     [][2]int        `json:"image_grid_pinpoints"` // height, width
	ImageToken    *int64          `json:"image_token_index"`
	ImageToken5   *int64          `json:"image_token_id"`
	FeatureLayer  json.RawMessage `json:"vision_feature_layer"`
	Strategy      string          `json:"vision_feature_select_strategy"`
	ProjectorAct  string          `json:"projector_hidden_act"`
	Tied          *bool           `json:"tie_word_embeddings"`
	ProjectorBias *bool           `json:"multimodal_projector_bias"`
}

// preprocessor is preprocessor_config.json (or image_processor of processor_config.json).
type preprocessor struct {
	Crop struct {
		Height int `json:"height"`
		Width  int `json:"width"`
	} `json:"crop_size"`
	Pinpoints [][2]int `json:"image_grid_pinpoints"`
}

// Backbone is an opened LLaVA-NeXT checkpoint.
type Backbone struct {
	decoder   model.Decoder
	vision    visionConfig
	tower     string // checkpoint prefix of the vision tower
	layer     int    // vision layers that run before the features are taken
	act       string // of the projector
	pinpoints [][2]int
	crop      int // side of a tile, pixels
	colours   model.Colours
	keys      model.Keys
	bias      bool   // of the projector
	text      string // checkpoint prefix of the language model
	weights   *checkpoints.Weights
}

func open(dir string, raw json.RawMessage, w *checkpoints.Weights) (model.Backbone, error) {
	c := config{Vision: visionConfig{Hidden: 768, Intermediate: 3072, Layers: 12, Heads: 12, ImageSize: 224, Patch: 32, Activation: "quick_gelu", Eps: 1e-5},
		Strategy: "default", ProjectorAct: "gelu", Pinpoints: [][2]int{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if c.Strategy != "default" {
		return nil, fmt.Errorf("config.json: vision_feature_select_strategy %q is not supported; default is", c.Strategy)
	}
	if len(c.Text) == 0 {
		c.Text = json.RawMessage("{}")
	}
	text, err := model.ParseText(c.Text, "llama")
	if err != nil {
		return nil, err
	}
	b := &Backbone{vision: c.Vision, act: c.ProjectorAct, pinpoints: c.Pinpoints, weights: w, bias: c.ProjectorBias == nil || *c.ProjectorBias}
	if b.layer, err = featureLayer(c.FeatureLayer, c.Vision.Layers); err != nil {
		return nil, err
	}
	if c.Tied != nil {
		text.Tied = *c.Tied
	}
	b.findKeys(&text, w)
	b.decoder = model.Decoder{TextConfig: text, Key: b.text, Module: "model.language_model."}
	return b, b.readPreprocessor(dir)
}

// findKeys finds which spelling of parameter names the checkpoint uses.
func (b *Backbone) findKeys(text *model.TextConfig, w *checkpoints.Weights) {
	b.text, b.tower = "language_model.model.", "vision_tower."
	lm := "language_model.lm_head.weight"
	top := ""
	if w.Has("model.language_model.embed_tokens.weight") { // as modules are named in transformers >= 4.52
		b.text, lm, top = "model.language_model.", "lm_head.weight", "model."
	}
	b.tower = top + "vision_tower."
	if w.Has(b.tower + "vision_model.embeddings.class_embedding") {
		b.tower += "vision_model."
	}
	for _, n := range []string{"multi_modal_projector.linear_1.weight", "multi_modal_projector.linear_1.bias", "multi_modal_projector.linear_2.weight",
		"multi_modal_projector.linear_2.bias", "image_newline"} {
		if top != "" && w.Has(top+n) {
			w.Alias(n, top+n)
		}
	}
	b.keys = text.Tables(w, b.text+"embed_tokens.weight", lm)
}

// featureLayer returns how many vision layers run: -2 of 24 means 23 (hidden_states[-2] of 25).
func featureLayer(raw json.RawMessage, layers int) (int, error) {
	n := -2
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &n); err != nil {
			return 0, fmt.Errorf("config.json: vision_feature_layer %s: one layer number is supported", raw)
		}
	}
	if n < 0 {
		n += layers + 1
	}
	if n < 0 || n > layers {
		return 0, fmt.Errorf("config.json: vision_feature_layer %s is outside the %d layers", raw, layers)
	}
	return n, nil
}

func (b *Backbone) readPreprocessor(dir string) error {
	var p preprocessor
	var file string
	var err error
	if b.colours, file, err = model.ReadImageProcessor(dir, &p); err != nil {
		return err
	}
	b.crop = p.Crop.Height
	if b.crop == 0 {
		b.crop = b.vision.ImageSize
	}
	if b.crop != b.vision.ImageSize || p.Crop.Width != p.Crop.Height {
		return fmt.Errorf("%s: crop_size %dx%d does not fit the vision tower's image_size %d", file, p.Crop.Height, p.Crop.Width, b.vision.ImageSize)
	}
	if len(p.Pinpoints) > 0 {
		b.pinpoints = p.Pinpoints
	}
	for _, hw := range b.pinpoints {
		if hw[0]%b.crop != 0 || hw[1]%b.crop != 0 || hw[0] <= 0 || hw[1] <= 0 {
			return fmt.Errorf("%s: image_grid_pinpoints: %v is no multiple of the tile size %d", file, hw, b.crop)
		}
	}
	return nil
}
