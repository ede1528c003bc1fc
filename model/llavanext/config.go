// Package llavanext is the LLaVA-NeXT family: a CLIP vision tower over any-resolution tiles, a two-layer projector, and
// a Llama or Mistral language model. It registers with package backbone, reads and checks the configuration, cuts
// pictures into tiles as transformers does, and builds the graph from pixels to image features: the features of a
// picture's tiles, without those on padding, and newline rows.
package llavanext

import (
	"encoding/json"
	"fmt"
	"slices"

	"assay/checkpoints"
	"assay/internal/strictjson"
	"assay/model/backbone"
	"assay/model/nn"
)

func init() { backbone.Register("llava_next", open) }

// visionConfig is vision_config of config.json.
type visionConfig struct {
	Hidden       int
	Intermediate int
	Layers       int
	Heads        int
	ImageSize    int
	Patch        int
	Activation   string
	Eps          float64
	Dropout      float64 // of attention in training
}

// Architecture is an opened LLaVA-NeXT checkpoint.
type Architecture struct {
	decoder   nn.Decoder
	vision    visionConfig
	tower     string // checkpoint prefix of the vision tower
	layers    []int  // numbers of vision layers after which features are taken; these are concatenated
	act       string // of the projector
	pinpoints [][2]int
	crop      int // side of a tile, pixels
	colours   backbone.Colours
	keys      nn.Keys
	bias      bool   // of the projector
	text      string // checkpoint prefix of the language model
	weights   *checkpoints.Weights
}

// harmless are top-level keys of the configuration that change no number, or not at the values listed.
var harmless = strictjson.Harmless{
	"ignore_index":                nil, // of labels
	"image_seq_length":            nil, // tokens of one tile; they are counted
	"use_image_newline_parameter": {true},
	"vocab_size":                  nil, // that of text_config is used
	"hidden_size":                 nil,
	"pad_token_id":                nil,
}

// visionHarmless lists such keys of vision_config.
var visionHarmless = strictjson.Harmless{
	"vocab_size":     nil, // the tower has no text
	"projection_dim": nil, // of CLIP's projection, which is not part of the tower
	"num_channels":   {3},
}

func open(dir string, raw json.RawMessage, w *checkpoints.Weights) (backbone.Architecture, error) {
	o, err := strictjson.Parse("config.json", raw)
	if err != nil {
		return nil, err
	}
	b := &Architecture{
		weights:   w,
		act:       "gelu",
		bias:      true,
		pinpoints: [][2]int{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}},
	}
	b.vision = readVision(o)
	t := o.Sub("text_config")
	if t == nil {
		t = o.None("text_config")
	}
	text := nn.ParseText(t, "llama", "mistral", "qwen2")
	text.Dropout = max(text.Dropout, b.vision.Dropout)
	text.Tied = false // the value in text_config is ignored
	o.Get("tie_word_embeddings", &text.Tied)
	imageToken := int64(32000)
	o.Get("image_token_index", &imageToken)
	o.Get("image_token_id", &imageToken) // the name in transformers 5
	o.Get("projector_hidden_act", &b.act)
	nn.CheckActivation(o, "projector_hidden_act", b.act)
	o.Get("multimodal_projector_bias", &b.bias)
	strategy := "default"
	if o.Get("vision_feature_select_strategy", &strategy); strategy != "default" {
		o.Failf("vision_feature_select_strategy", "%q is not supported; default is", strategy)
	}
	b.readFeatureLayers(o)
	readPinpoints(o, &b.pinpoints)
	o.Close(harmless, nn.Legacy)
	if err := o.Err(); err != nil {
		return nil, err
	}
	b.findKeys(&text, w)
	b.decoder = nn.Decoder{TextConfig: text, Key: b.text, Module: "model.language_model.", ImageToken: imageToken}
	return b, b.readPreprocessor(dir)
}

// readVision reads vision_config of a CLIP tower. The defaults of its class are smaller than the tower of a
// configuration without the key.
func readVision(o *strictjson.Object) visionConfig {
	v := visionConfig{
		Hidden:       768,
		Intermediate: 3072,
		Layers:       12,
		Heads:        12,
		ImageSize:    224,
		Patch:        32,
		Activation:   "quick_gelu",
		Eps:          1e-5,
	}
	p := o.Sub("vision_config")
	if p == nil {
		v.Hidden, v.Intermediate, v.Layers, v.Heads, v.ImageSize, v.Patch = 1024, 4096, 24, 16, 336, 14
		return v
	}
	kind := "clip_vision_model"
	if p.Get("model_type", &kind); kind != "clip_vision_model" {
		p.Failf("model_type", "%q is not supported; clip_vision_model is", kind)
	}
	nn.ReadSizes(p, map[string]*int{
		"hidden_size":         &v.Hidden,
		"intermediate_size":   &v.Intermediate,
		"num_hidden_layers":   &v.Layers,
		"num_attention_heads": &v.Heads,
		"image_size":          &v.ImageSize,
		"patch_size":          &v.Patch,
	})
	if v.Hidden%v.Heads != 0 {
		p.Failf("hidden_size", "%d is not a multiple of the %d attention heads", v.Hidden, v.Heads)
	}
	p.Get("hidden_act", &v.Activation)
	nn.CheckActivation(p, "hidden_act", v.Activation)
	p.Get("layer_norm_eps", &v.Eps)
	v.Dropout = nn.ReadDropout(p, "attention_dropout")
	p.Close(visionHarmless, nn.Legacy)
	return v
}

// readFeatureLayers reads which hidden states are the features, one number or several: -2 of 24 layers is the output of
// the first 23.
func (b *Architecture) readFeatureLayers(o *strictjson.Object) {
	const key = "vision_feature_layer"
	list, one := []int{-2}, 0
	if raw := o.Raw(key); raw != nil && json.Unmarshal(raw, &one) == nil && string(raw) != "null" {
		list = []int{one}
	} else {
		o.Get(key, &list)
	}
	if len(list) == 0 {
		o.Failf(key, "names no layer")
	}
	for _, n := range list {
		if n < 0 {
			n += b.vision.Layers + 1
		}
		if n < 0 || n > b.vision.Layers {
			o.Failf(key, "%v is outside the %d layers", list, b.vision.Layers)
			return
		}
		b.layers = append(b.layers, n)
	}
}

// readPinpoints reads image_grid_pinpoints, the [height, width] of every grid of tiles; null keeps the default.
func readPinpoints(o *strictjson.Object, into *[][2]int) {
	const key = "image_grid_pinpoints"
	var list [][]int
	if o.Opt(key, &list); list == nil {
		return
	}
	*into = nil
	for _, hw := range list {
		if len(hw) != 2 {
			o.Failf(key, "%v is not [height, width]", hw)
			return
		}
		*into = append(*into, [2]int{hw[0], hw[1]})
	}
	if len(list) == 0 {
		o.Failf(key, "is empty")
	}
}

// findKeys finds out which parameter names the checkpoint uses.
func (b *Architecture) findKeys(text *nn.TextConfig, w *checkpoints.Weights) {
	b.text, b.tower = "language_model.model.", "vision_tower."
	lm := "language_model.lm_head.weight"
	top := ""
	if w.Has("model.language_model.embed_tokens.weight") { // module names of transformers >= 4.52
		b.text, lm, top = "model.language_model.", "lm_head.weight", "model."
	}
	b.tower = top + "vision_tower."
	if w.Has(b.tower + "vision_model.embeddings.class_embedding") {
		b.tower += "vision_model."
	}
	for _, n := range []string{
		"multi_modal_projector.linear_1.weight",
		"multi_modal_projector.linear_1.bias",
		"multi_modal_projector.linear_2.weight",
		"multi_modal_projector.linear_2.bias",
		"image_newline",
	} {
		if top != "" && w.Has(top+n) {
			w.Alias(n, top+n)
		}
	}
	b.keys = text.Tables(w, b.text+"embed_tokens.weight", lm)
}

// readPreprocessor reads the image processor, which must match the model: transformers takes the arrangement of tiles
// from one of them and their number from the other.
func (b *Architecture) readPreprocessor(dir string) error {
	var file string
	var err error
	pinpoints := [][2]int{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}
	size, crop := backbone.Size{Shortest: 224}, backbone.Size{Height: 224, Width: 224}
	b.colours, file, err = backbone.ReadImageProcessor(dir, backbone.ImageProcessor{
		Kinds: []string{"LlavaNextImageProcessor"},
		Read: func(o *strictjson.Object) {
			backbone.ReadSize(o, "size", &size)
			backbone.ReadSize(o, "crop_size", &crop)
			readPinpoints(o, &pinpoints)
			o.Raw("do_center_crop")       // tiles have the size of the crop
			o.Raw("aspect_ratio_setting") // anyres, in published files
		},
		Outer: b.readProcessor,
	})
	if err != nil {
		return err
	}
	b.crop = b.vision.ImageSize
	square := backbone.Size{Height: b.crop, Width: b.crop}
	if crop != square && crop != (backbone.Size{Shortest: b.crop}) {
		return fmt.Errorf("%s: crop_size %+v does not match the vision tower's image_size %d", file, crop, b.crop)
	} else if size != square && size != (backbone.Size{Shortest: b.crop}) {
		return fmt.Errorf("%s: size %+v does not match the vision tower's image_size %d", file, size, b.crop)
	}
	if !slices.Equal(pinpoints, b.pinpoints) {
		return fmt.Errorf("%s: image_grid_pinpoints %v differ from config.json's, %v", file, pinpoints, b.pinpoints)
	}
	for _, hw := range b.pinpoints {
		if hw[0]%b.crop != 0 || hw[1]%b.crop != 0 || hw[0] <= 0 || hw[1] <= 0 {
			return fmt.Errorf("%s: image_grid_pinpoints: %v is not a multiple of the tile size %d", file, hw, b.crop)
		}
	}
	return nil
}

// readProcessor checks processor_config.json, from which transformers counts image tokens, against the model.
func (b *Architecture) readProcessor(o *strictjson.Object) {
	patch, strategy, class, placeholder := b.vision.Patch, "default", 1, b.Placeholder()
	if o.Get("patch_size", &patch); patch != b.vision.Patch {
		o.Failf("patch_size", "%d is not the vision tower's, %d", patch, b.vision.Patch)
	}
	if o.Get("vision_feature_select_strategy", &strategy); strategy != "default" {
		o.Failf("vision_feature_select_strategy", "%q is not supported; default is", strategy)
	}
	if o.Get("num_additional_image_tokens", &class); class != 1 {
		o.Failf("num_additional_image_tokens", "%d is not supported; 1, the class token, is", class)
	}
	if o.Get("image_token", &placeholder); placeholder != b.Placeholder() {
		o.Failf("image_token", "%q is not supported; %s is", placeholder, b.Placeholder())
	}
	o.Close(strictjson.Harmless{"processor_class": nil, "_processor_class": nil, "chat_template": nil})
}
