package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// TextConfig is the language model's part of config.json, with the defaults that Hugging Face fills in by model_type:
// published files leave out what equals them.
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
	Tied          bool // lm_head is the embedding table
	InBias        bool // queries, keys and values have biases
	OutBias       bool // so has the attention's output
	MLPBias       bool // so have the layers of the MLP
	SlidingWindow int  // 0: none
	MaxPositions  int
	Rope          RopeConfig
}

// RopeConfig is the rotary part: rope_parameters of transformers 5, or rope_theta and rope_scaling of older files.
type RopeConfig struct {
	Type      string // default, linear, llama3, mrope
	Theta     float64
	Factor    float64
	LowFreq   float64
	HighFreq  float64
	Original  float64 // original_max_position_embeddings
	Sections  []int   // mrope_section: how many frequencies turn with each axis in turn; empty: all with the only one
	Attention float64 // attention_factor; 0: 1
}

type textJSON struct {
	ModelType    string   `json:"model_type"`
	Hidden       *int     `json:"hidden_size"`
	Intermediate *int     `json:"intermediate_size"`
	Layers       *int     `json:"num_hidden_layers"`
	Heads        *int     `json:"num_attention_heads"`
	KVHeads      *int     `json:"num_key_value_heads"`
	HeadDim      *int     `json:"head_dim"`
	Vocab        *int     `json:"vocab_size"`
	Eps          *float64 `json:"rms_norm_eps"`
	Activation   *string  `json:"hidden_act"`
	Tied         *bool    `json:"tie_word_embeddings"`
	Bias         bool     `json:"attention_bias"`
	MLPBias      bool     `json:"mlp_bias"`
	Window       *int     `json:"sliding_window"`
	UseWindow    *bool    `json:"use_sliding_window"`
	FirstWindow  *int     `json:"max_window_layers"`
	MaxPositions *int     `json:"max_position_embeddings"`
	Theta        *float64 `json:"rope_theta"`
	Scaling      *rope    `json:"rope_scaling"`
	Parameters   *rope    `json:"rope_parameters"`
}

type rope struct {
	Type      string   `json:"rope_type"`
	OldType   string   `json:"type"`
	Theta     *float64 `json:"rope_theta"`
	Factor    float64  `json:"factor"`
	LowFreq   float64  `json:"low_freq_factor"`
	HighFreq  float64  `json:"high_freq_factor"`
	Original  float64  `json:"original_max_position_embeddings"`
	Sections  []int    `json:"mrope_section"`
	Attention float64  `json:"attention_factor"`
}

// the defaults of transformers' configuration classes
var textDefaults = map[string]TextConfig{
	"llama":   {Hidden: 4096, Intermediate: 11008, Layers: 32, Heads: 32, Vocab: 32000, Eps: 1e-6, Activation: "silu", MaxPositions: 2048, Rope: RopeConfig{Theta: 1e4}},
	"mistral": {Hidden: 4096, Intermediate: 14336, Layers: 32, Heads: 32, KVHeads: 8, Vocab: 32000, Eps: 1e-6, Activation: "silu", MaxPositions: 131072, SlidingWindow: 4096, Rope: RopeConfig{Theta: 1e4}},
	"qwen2":   {Hidden: 4096, Intermediate: 22016, Layers: 32, Heads: 32, KVHeads: 32, Vocab: 151936, Eps: 1e-6, Activation: "silu", MaxPositions: 32768, SlidingWindow: 4096, InBias: true, Rope: RopeConfig{Theta: 1e4}},
	"qwen2_5_vl_text": {Hidden: 8192, Intermediate: 29568, Layers: 80, Heads: 64, KVHeads: 8, Vocab: 152064, Eps: 1e-5, Activation: "silu", MaxPositions: 32768, SlidingWindow: 4096, InBias: true,
		Rope: RopeConfig{Theta: 1e6, Sections: []int{16, 24, 24}}},
}

// firstWindow is the default of max_window_layers, the first layer with a sliding window, of families that switch windows on
// by use_sliding_window.
var firstWindow = map[string]int{"qwen2": 28, "qwen2_5_vl_text": 80}

// ParseText reads a text_config. modelType is used where the JSON names none.
func ParseText(raw []byte, modelType string) (TextConfig, error) {
	var j textJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return TextConfig{}, fmt.Errorf("config.json: text_config: %w", err)
	}
	var nulls map[string]json.RawMessage
	if err := json.Unmarshal(raw, &nulls); err != nil {
		return TextConfig{}, fmt.Errorf("config.json: text_config: %w", err)
	}
	if j.ModelType == "" {
		j.ModelType = modelType
	}
	c, ok := textDefaults[j.ModelType]
	if !ok {
		return c, fmt.Errorf("config.json: text_config.model_type %q is not supported; %s are", j.ModelType, strings.Join(slices.Sorted(maps.Keys(textDefaults)), ", "))
	}
	c.ModelType = j.ModelType
	set(&c.Hidden, j.Hidden)
	set(&c.Intermediate, j.Intermediate)
	set(&c.Layers, j.Layers)
	set(&c.Heads, j.Heads)
	set(&c.KVHeads, j.KVHeads)
	set(&c.HeadDim, j.HeadDim)
	set(&c.Vocab, j.Vocab)
	set(&c.Eps, j.Eps)
	set(&c.Activation, j.Activation)
	set(&c.Tied, j.Tied)
	set(&c.MaxPositions, j.MaxPositions)
	if c.ModelType == "llama" {
		c.InBias, c.OutBias, c.MLPBias = j.Bias, j.Bias, j.MLPBias
	}
	set(&c.Rope.Theta, j.Theta)
	if v, ok := nulls["sliding_window"]; ok && string(v) == "null" {
		c.SlidingWindow = 0
	}
	set(&c.SlidingWindow, j.Window)
	if err := c.switchWindow(&j); err != nil {
		return c, err
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.Heads <= 0 || c.KVHeads <= 0 || c.Heads%c.KVHeads != 0 {
		return c, fmt.Errorf("config.json: text_config: %d attention heads do not share %d key heads evenly", c.Heads, c.KVHeads)
	}
	if c.HeadDim == 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.HeadDim%2 != 0 || c.HeadDim <= 0 {
		return c, fmt.Errorf("config.json: text_config: head_dim %d must be positive and even", c.HeadDim)
	}
	for _, r := range []*rope{j.Scaling, j.Parameters} {
		if r != nil {
			c.Rope.apply(r)
		}
	}
	return c, c.Rope.check(c.HeadDim)
}

// switchWindow drops the sliding window where it is not used.
func (c *TextConfig) switchWindow(j *textJSON) error {
	first, ok := firstWindow[c.ModelType]
	if !ok {
		return nil
	}
	set(&first, j.FirstWindow)
	if j.UseWindow == nil || !*j.UseWindow || first >= c.Layers {
		c.SlidingWindow = 0
	} else if first > 0 {
		return fmt.Errorf("config.json: text_config: a sliding window in layers %d to %d only is not supported", first, c.Layers-1)
	}
	return nil
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

func (c *RopeConfig) apply(r *rope) {
	c.Type = r.Type
	if c.Type == "" {
		c.Type = r.OldType
	}
	set(&c.Theta, r.Theta)
	c.Factor, c.LowFreq, c.HighFreq, c.Original, c.Attention = r.Factor, r.LowFreq, r.HighFreq, r.Original, r.Attention
	if len(r.Sections) > 0 {
		c.Sections = r.Sections
	}
}

// Axes is how many positions a row has: 3 (time, row, column) where the frequencies are shared out, else 1.
func (c *RopeConfig) Axes() int {
	if len(c.Sections) > 0 {
		return 3
	}
	return 1
}

// axis returns the axis that frequency i turns with: sections belong to the axes in turn.
func (c *RopeConfig) axis(i int) int {
	for s, n := range c.Sections {
		if i < n {
			return s % c.Axes()
		}
		i -= n
	}
	return 0
}

func (c *RopeConfig) check(headDim int) error {
	total := 0
	for _, n := range c.Sections {
		total += n
	}
	if len(c.Sections) > 0 && 2*total != headDim {
		return fmt.Errorf("config.json: mrope_section %v must share out head_dim/2 = %d frequencies", c.Sections, headDim/2)
	}
	switch c.Type {
	case "", "default", "mrope":
	case "linear":
		if c.Factor <= 0 {
			return fmt.Errorf("config.json: linear rope scaling needs a positive factor, not %g", c.Factor)
		}
	case "llama3":
		if c.Factor <= 0 || c.Original <= 0 || c.LowFreq <= 0 || c.HighFreq <= c.LowFreq {
			return fmt.Errorf("config.json: llama3 rope scaling needs factor, original_max_position_embeddings and low_freq_factor < high_freq_factor")
		}
	default:
		return fmt.Errorf("config.json: rope type %q is not supported; default, linear, llama3 and mrope are", c.Type)
	}
	return nil
}

// InvFreq returns the head_dim/2 rotary frequencies theta^(-2i/d), scaled as the rope type says, in float32 steps as
// transformers computes them (modeling_rope_utils).
func (c *TextConfig) InvFreq() []float32 {
	f := make([]float32, c.HeadDim/2)
	for i := range f {
		e := float32(2*i) / float32(c.HeadDim)
		v := 1 / float32(math.Pow(c.Rope.Theta, float64(e)))
		switch c.Rope.Type {
		case "linear":
			v /= float32(c.Rope.Factor)
		case "llama3":
			v = c.Rope.llama3(v)
		}
		f[i] = v
	}
	return f
}

// llama3 slows frequencies whose wavelength exceeds the original context, with a smooth passage between two bounds.
func (c *RopeConfig) llama3(v float32) float32 {
	wave := 2 * math.Pi / float64(v)
	switch {
	case wave > c.Original/c.LowFreq:
		return v / float32(c.Factor)
	case wave < c.Original/c.HighFreq:
		return v
	}
	smooth := (c.Original/wave - c.LowFreq) / (c.HighFreq - c.LowFreq)
	return float32((1-smooth)*float64(v)/c.Factor + smooth*float64(v))
}

func (c *TextConfig) attentionFactor() float64 {
	if c.Rope.Attention > 0 && c.Rope.Type != "default" && c.Rope.Type != "" {
		return c.Rope.Attention
	}
	return 1
}
