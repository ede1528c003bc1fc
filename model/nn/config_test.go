package nn

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/internal/strictjson"
)

func parseText(t *testing.T, raw string, kinds ...string) (TextConfig, error) {
	t.Helper()
	o, err := strictjson.Parse("config.json", []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := ParseText(o, kinds...)
	return c, o.Err()
}

// Frequencies and factors match transformers' rotary embeddings (tools/oracle/rope.py).
func TestRopeAsTransformers(t *testing.T) {
	raw, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Config    json.RawMessage
		Attention float64
		InvFreq   []float64 `json:"inv_freq"`
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) < 16 {
		t.Fatal(len(cases), err)
	}
	for _, want := range cases {
		c, err := parseText(t, string(want.Config), "llama", "qwen2_5_vl_text")
		if err != nil {
			t.Errorf("%s: %v", want.Config, err)
			continue
		}
		got := c.InvFreq()
		if len(got) != len(want.InvFreq) || !(math.Abs(c.Rope.Attention-want.Attention) <= 1e-9) {
			t.Errorf("%s: %d frequencies times %g, want %d times %g", want.Config, len(got), c.Rope.Attention,
				len(want.InvFreq), want.Attention)
			continue
		}
		for i, v := range got {
			if !(math.Abs(float64(v)-want.InvFreq[i]) <= 4e-7*want.InvFreq[i]) {
				t.Errorf("%s: frequency %d is %g, want %g", want.Config, i, v, want.InvFreq[i])
			}
		}
	}
}

// Which layers have a window: transformers' rules by kind of model.
func TestSlidingLayers(t *testing.T) {
	const qwen = `{"num_hidden_layers": 4, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 2`
	const sliding = `, "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]}`
	on, off := true, false
	for _, c := range []struct {
		kind, config string
		want         []bool
		refused      string
	}{
		{"llama", `{"num_hidden_layers": 2, "layer_types": ["full_attention", "full_attention"], "sliding_window": null}`,
			nil, ""},
		{"llama", `{"num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]}`, nil, "layer_types"},
		{"llama", `{"sliding_window": 8}`, nil, "sliding_window"},
		{"mistral", `{"num_hidden_layers": 2}`, []bool{on, on}, ""},
		{"mistral", `{"num_hidden_layers": 2, "sliding_window": null, "layer_types": ["full_attention", "full_attention"]}`,
			nil, ""},
		{"mistral", `{"num_hidden_layers": 2, "layer_types": ["full_attention", "full_attention"]}`, nil, "layer_types"},
		{"qwen2", qwen + `}`, []bool{off, off, on, on}, ""},
		{"qwen2", qwen + sliding, []bool{on, off, off, on}, ""},
		{"qwen2", `{"num_hidden_layers": 4, "sliding_window": 8` + sliding, nil, "use_sliding_window"},
		{"qwen2", `{"num_hidden_layers": 4, "use_sliding_window": true, "sliding_window": null, "max_window_layers": 0}`, nil,
			""},
		{"qwen2", qwen + `, "layer_types": ["full_attention"]}`, nil, "1 entries for 4 layers"},
		{"qwen2", `{"num_hidden_layers": 1, "layer_types": ["chunked_attention"]}`, nil, "chunked_attention"},
	} {
		got, err := parseText(t, c.config, c.kind)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s %s: error %v, want %q", c.kind, c.config, err, c.refused)
		} else if err == nil && !slices.Equal(got.Sliding, c.want) {
			t.Errorf("%s %s: %v, want %v", c.kind, c.config, got.Sliding, c.want)
		}
	}
}

func TestTextRefused(t *testing.T) {
	for config, want := range map[string]string{
		`{"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}`:     "longrope",
		`{"rope_parameters": {"rope_type": "default", "turns": 2}}`:         "turns",
		`{"rope_parameters": {"full_attention": {"rope_type": "default"}}}`: "full_attention",
		`{"rope_parameters": {"rope_type": "linear"}}`: "factor: a rope of " +
			"type linear needs it",
		`{"rope_parameters": {"rope_type": "linear", "factor": 2, "partial_rotary_factor": 0.5}}`: "partial_rotary_factor",
		`{"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"factor": 2}}`:     "keep one",
		`{"rope_scaling": {"type": "mrope", "mrope_section": [1]}}`:                               "mrope",
		`{"rope_theta": null}`:                                 "rope_theta: null",
		`{"original_max_position_embeddings": 8}`:              "original_max_position_embeddings",
		`{"hidden_act": "xielu"}`:                              "xielu",
		`{"hidden_size": 30, "num_attention_heads": 4}`:        "not a multiple",
		`{"num_attention_heads": 4, "num_key_value_heads": 3}`: "share",
		`{"num_hidden_layers": 0}`:                             "num_hidden_layers",
		`{"rms_norm_eps": "1e-6"}`:                             "rms_norm_eps",
		`{"model_type": "gemma"}`:                              "gemma",
		`{"is_decoder": true}`:                                 "is_decoder",
		`{"attention_dropout": 2}`:                             "attention_dropout",
		`{"per_layer_config": {"0": {}}, "head_dim": 128, "use_qk_norm": true}`: `"per_layer_config" ({"0":{}}), ` +
			`"use_qk_norm" (true)`,
	} {
		if _, err := parseText(t, config, "llama"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", config, err, want)
		}
	}
}

func TestDynamicRopeIsShort(t *testing.T) {
	c, err := parseText(t, `{"max_position_embeddings": 10, "rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}`,
		"llama")
	if err != nil || c.Longest(9) != nil || c.Longest(10) == nil {
		t.Error(err, c.Longest(9), c.Longest(10))
	}
}
