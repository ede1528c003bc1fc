package lora

import (
	"slices"
	"testing"
)

// TestUnused: what selects nothing is named, and nothing else is.
func TestUnused(t *testing.T) {
	var modules []Module
	for _, name := range []string{"model.language_model.layers.0.self_attn.q_proj",
		"model.language_model.layers.0.self_attn.v_proj",
		"model.language_model.layers.1.self_attn.q_proj", "model.visual.blocks.0.attn.qkv", "lm_head"} {
		modules = append(modules, Module{Name: name, Linear: true, Out: 4, In: 4})
	}
	for _, test := range []struct {
		change func(c *Config)
		want   []string
	}{
		{func(*Config) {}, nil},
		{func(c *Config) { c.Targets = Names{Regex: "all-linear"} }, nil},
		{func(c *Config) { c.LayersToTransform = []int{1} }, []string{`targets: "v_proj" selects no layer`}},
		{func(c *Config) { c.LayersToTransform = []int{0, 7} },
			[]string{"layers: there is none with the number 7 that targets select"}},
		{func(c *Config) { c.Targets.List = append(c.Targets.List, "qkv") }, nil},
		{func(c *Config) {
			c.Targets.List, c.Exclude = append(c.Targets.List, "qkv"), c.Exclude.Within([]string{Language})
		}, []string{`targets: "qkv" selects no layer`}},
		{func(c *Config) { c.Ranks = Overrides{{"q_proj", 2}, {"layers.0.self_attn.q_proj", 3}, {"o_proj", 4}} }, []string{
			`rank_pattern: "layers.0.self_attn.q_proj" is that of no layer with an adapter, or others before it are`,
			`rank_pattern: "o_proj" is that of no layer with an adapter, or others before it are`}},
		{func(c *Config) { c.Alphas = Overrides{{"layers.0.self_attn.q_proj", 3}, {"q_proj", 2}} }, nil},
	} {
		c := NewConfig(2, 2, Names{List: []string{"q_proj", "v_proj"}})
		test.change(c)
		if got, err := c.Unused(modules); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q %v, want %q", c, got, err, test.want)
		}
	}
}
