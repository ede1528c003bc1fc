package nn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"assay/internal/strictjson"
)

// TextConfig is the language model's part of config.json, with the defaults that transformers fills in by model_type:
// published files omit values equal to the defaults.
type TextConfig struct {
	ModelType     string
	Hidden        int // width of the residual stream
	Intermediate  int // width of the MLP
	Layers        int
	Heads         int
	KVHeads       int
	HeadDim       int
	Vocab         int // rows of the embedding table; the score token gets this id
	Eps           float64
	Activation    string
	Tied          bool   // lm_head is the embedding table
	InBias        bool   // queries, keys and values have biases
	OutBias       bool   // the attention's output projection has a bias
	MLPBias       bool   // the linear layers of the MLP have biases
	SlidingWindow int    // tokens that a row sees, including itself, in the layers of Sliding
	Sliding       []bool // by layer; nil: no layer has a window
	MaxPositions  int
	Dropout       float64 // of attention in training, which is not implemented; scoring has no dropout
	Rope          RopeConfig
}

// textKind describes how transformers reads one kind of text_config: its defaults and the keys specific to it.
type textKind struct {
	defaults TextConfig
	harmless strictjson.Harmless
	read     func(c *TextConfig, o *strictjson.Object) // reads the keys of this kind, after the common ones
}

// The kinds are the configuration classes of transformers 5.23. Keys unknown to a class are ignored there and
// rejected here.
var textKinds = map[string]textKind{
	"llama": {
		defaults: TextConfig{
			Hidden:       4096,
			Intermediate: 11008,
			Layers:       32,
			Heads:        32,
			Vocab:        32000,
			Eps:          1e-6,
			Activation:   "silu",
			MaxPositions: 2048,
			Rope:         RopeConfig{Theta: 1e4},
		},
		harmless: strictjson.Harmless{
			"pretraining_tp": nil, // how a product was split; dropped in transformers 5
			"sliding_window": {nil},
		},
		read: (*TextConfig).readLlama,
	},
	"mistral": {
		defaults: TextConfig{
			Hidden:        4096,
			Intermediate:  14336,
			Layers:        32,
			Heads:         32,
			KVHeads:       8,
			Vocab:         32000,
			Eps:           1e-6,
			Activation:    "silu",
			MaxPositions:  131072,
			SlidingWindow: 4096,
			Rope:          RopeConfig{Theta: 1e4},
		},
		harmless: strictjson.Harmless{"attention_bias": {false}, "mlp_bias": {false}},
		read:     (*TextConfig).readMistral,
	},
	"qwen2": {
		defaults: TextConfig{
			Hidden:        4096,
			Intermediate:  22016,
			Layers:        32,
			Heads:         32,
			KVHeads:       32,
			Vocab:         151936,
			Eps:           1e-6,
			Activation:    "silu",
			MaxPositions:  32768,
			SlidingWindow: 4096,
			InBias:        true,
			Rope:          RopeConfig{Theta: 1e4},
		},
		harmless: strictjson.Harmless{"attention_bias": {true}, "mlp_bias": {false}},
		read:     func(c *TextConfig, o *strictjson.Object) { c.readQwen(o, 28) },
	},
	"qwen2_vl_text":   qwen2VL,
	"qwen2_5_vl_text": qwen2VL,
	"qwen3_vl_text": {
		defaults: TextConfig{
			Hidden:       4096,
			Intermediate: 22016,
			Layers:       32,
			Heads:        32,
			KVHeads:      32,
			HeadDim:      128,
			Vocab:        151936,
			Eps:          1e-6,
			Activation:   "silu",
			MaxPositions: 128000,
			Rope:         RopeConfig{Theta: 5e5, Sections: []int{24, 20, 20}, Woven: true},
		},
		harmless: strictjson.Harmless{"mlp_bias": {false}, "sliding_window": {nil}, "use_sliding_window": {false}},
		read: func(c *TextConfig, o *strictjson.Object) {
			o.Get("attention_bias", &c.InBias)
			c.OutBias = c.InBias
			c.readLayerTypes(o, func(int) bool { return false }, false)
		},
	},
}

// qwen2VL is the text model of Qwen2-VL and of Qwen2.5-VL: Qwen2 with positions on three axes.
var qwen2VL = textKind{
	defaults: TextConfig{
		Hidden:        8192,
		Intermediate:  29568,
		Layers:        80,
		Heads:         64,
		KVHeads:       8,
		Vocab:         152064,
		Eps:           1e-5,
		Activation:    "silu",
		MaxPositions:  32768,
		SlidingWindow: 4096,
		InBias:        true,
		Rope:          RopeConfig{Theta: 1e6, Sections: []int{16, 24, 24}},
	},
	harmless: strictjson.Harmless{
		"attention_bias":        {true},
		"mlp_bias":              {false},
		"image_token_id":        nil, // of the full model; older files repeat these here
		"video_token_id":        nil,
		"vision_start_token_id": nil,
		"vision_end_token_id":   nil,
		"vision_token_id":       nil,
	},
	read: func(c *TextConfig, o *strictjson.Object) {
		c.readQwen(o, 80)
		if c.HeadDim*c.Heads != c.Hidden { // attention divides; only the rotary part would use head_dim
			o.Failf("head_dim", "%d heads of %d do not make up hidden_size %d", c.Heads, c.HeadDim, c.Hidden)
		}
	},
}

// ParseText reads a text_config of one of the kinds. The first kind applies if model_type is absent or is that of the
// full model. Problems are added to the object's errors.
func ParseText(o *strictjson.Object, kinds ...string) TextConfig {
	kind := kinds[0]
	o.Opt("model_type", &kind)
	if !slices.Contains(kinds, kind) {
		o.Failf("model_type", "%q is not supported%s; %s are", kind, Lacking(kind), strings.Join(kinds, ", "))
		kind = kinds[0]
	}
	k, ok := textKinds[kind]
	if !ok { // the model_type of the full model
		kind = kinds[0]
		k = textKinds[kind]
	}
	c := k.defaults
	c.ModelType = kind
	ReadSizes(o, map[string]*int{
		"hidden_size":             &c.Hidden,
		"intermediate_size":       &c.Intermediate,
		"num_hidden_layers":       &c.Layers,
		"num_attention_heads":     &c.Heads,
		"vocab_size":              &c.Vocab,
		"max_position_embeddings": &c.MaxPositions,
	})
	if raw := o.Raw("num_key_value_heads"); string(raw) == "null" {
		c.KVHeads = 0
	}
	o.Opt("num_key_value_heads", &c.KVHeads)
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	if c.KVHeads < 1 || c.Heads%c.KVHeads != 0 {
		o.Failf("num_key_value_heads", "%d attention heads do not share %d key heads evenly", c.Heads, c.KVHeads)
	}
	if c.HeadDim > 0 { // the kind has a default
		o.Get("head_dim", &c.HeadDim)
	} else if o.Opt("head_dim", &c.HeadDim); c.HeadDim == 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.HeadDim%2 != 0 || c.HeadDim <= 0 {
		o.Failf("head_dim", "%d must be positive and even", c.HeadDim)
		c.HeadDim = 2
	}
	if o.Get("rms_norm_eps", &c.Eps); c.Eps < 0 {
		o.Failf("rms_norm_eps", "%g is negative", c.Eps)
	}
	o.Get("hidden_act", &c.Activation)
	CheckActivation(o, "hidden_act", c.Activation)
	o.Get("tie_word_embeddings", &c.Tied)
	c.Dropout = ReadDropout(o, "attention_dropout")
	c.Rope.read(o, &c)
	k.read(&c, o)
	o.Close(k.harmless, Legacy)
	return c
}

// ReadDropout reads a dropout probability. It matters only in training.
func ReadDropout(o *strictjson.Object, key string) (p float64) {
	if o.Opt(key, &p); p < 0 || p > 1 {
		o.Failf(key, "%g is not a probability", p)
	}
	return p
}

func (c *TextConfig) readLlama(o *strictjson.Object) {
	bias := false
	o.Get("attention_bias", &bias)
	c.InBias, c.OutBias = bias, bias
	o.Get("mlp_bias", &c.MLPBias)
	if c.Hidden%c.Heads != 0 {
		o.Failf("hidden_size", "%d is not a multiple of the %d attention heads", c.Hidden, c.Heads)
	}
	// LlamaModel ignores layer_types: a file with anything but full attention is not a Llama's.
	c.readLayerTypes(o, func(int) bool { return false }, false)
}

func (c *TextConfig) readMistral(o *strictjson.Object) {
	window := c.readWindow(o)
	c.SlidingWindow = 0
	if window != nil {
		c.SlidingWindow = *window
	}
	c.readLayerTypes(o, func(int) bool { return window != nil }, false) // MistralModel only looks at the window
}

// readQwen reads the keys of Qwen2. use_sliding_window enables windows, starting at layer max_window_layers unless
// layer_types lists the layers.
func (c *TextConfig) readQwen(o *strictjson.Object, first int) {
	use := false
	o.Opt("use_sliding_window", &use)
	o.Get("max_window_layers", &first)
	window := c.readWindow(o)
	if !use {
		window = nil
	}
	c.SlidingWindow = 0
	if window != nil {
		c.SlidingWindow = *window
	}
	c.readLayerTypes(o, func(layer int) bool { return window != nil && layer >= first }, true)
	if window == nil && c.Sliding != nil {
		o.Failf("layer_types", "sliding_attention needs use_sliding_window and sliding_window")
	}
}

// readWindow returns sliding_window: nil if it is null.
func (c *TextConfig) readWindow(o *strictjson.Object) *int {
	window := c.SlidingWindow
	if raw := o.Raw("sliding_window"); string(raw) == "null" {
		return nil
	}
	if o.Get("sliding_window", &window); window < 1 {
		o.Failf("sliding_window", "%d is not positive", window)
	}
	return &window
}

// readLayerTypes determines the layers with a window: from layer_types if counts is set, otherwise from the rule,
// with which layer_types must then agree.
func (c *TextConfig) readLayerTypes(o *strictjson.Object, rule func(layer int) bool, counts bool) {
	c.Sliding = nil
	sliding := make([]bool, c.Layers)
	for i := range sliding {
		sliding[i] = rule(i)
	}
	var kinds []string
	if o.Opt("layer_types", &kinds); kinds != nil {
		if len(kinds) != c.Layers {
			o.Failf("layer_types", "%d entries for %d layers", len(kinds), c.Layers)
			return
		}
		for i, kind := range kinds {
			want := kind == "sliding_attention"
			switch {
			case !want && kind != "full_attention":
				o.Failf("layer_types", "%q of layer %d is not supported; full_attention and sliding_attention are", kind, i)
				return
			case want != sliding[i] && !counts:
				o.Failf("layer_types", "%q of layer %d is not what a %s does with this sliding_window", kind, i, c.ModelType)
				return
			}
			sliding[i] = want
		}
	}
	if slices.Contains(sliding, true) {
		c.Sliding = sliding
	}
}

// slides reports whether layer i has a window.
func (c *TextConfig) slides(i int) bool { return c.Sliding != nil && c.Sliding[i] }

// Longest returns an error if a sequence whose last rotary position is given is too long to be computed exactly.
func (c *TextConfig) Longest(position int64) error {
	if c.Rope.Type == "dynamic" && position >= int64(c.MaxPositions) {
		return fmt.Errorf("the sample's positions reach %d: dynamic rope is not supported beyond "+
			"max_position_embeddings, %d, where its frequencies change", position, c.MaxPositions)
	}
	return nil
}

// ReadSizes reads numbers that must be positive. Others are reported and replaced by 1.
func ReadSizes(o *strictjson.Object, sizes map[string]*int) {
	for key, into := range sizes {
		if o.Get(key, into); *into < 1 {
			o.Failf(key, "%d is not positive", *into)
			*into = 1
		}
	}
}
