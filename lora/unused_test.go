package lora

import (
	"slices"
	"testing"
)

// TestUnused: settings that select nothing are named, and no others.
func TestUnused(t *testing.T) {
	var modules []Module
	for _, name := range []string{"model.language_model.layers.0.self_attn.q_proj",
		"model.language_model.layers.0.self_attn.v_proj",
		"model.language_model.layers.1.self_attn.q_proj", "model.visual.blocks.0.attn.qkv", "lm_head"} {
		modules = append(modules, Module{Name: name, Linear: true, Out: 4, In: 4})
	}
	modules = append(modules, Module{Name: "model.visual"})
	for _, test := range []struct {
		change func(c *Config)
		want   []string
	}{
		{func(*Config) {}, nil},
		{func(c *Config) { c.Targets = Names{Regex: "all-linear"} }, nil},
		{func(c *Config) { c.LayersToTransform = []int{1} }, []string{`targets: "v_proj" selects no layer`}},
		{func(c *Config) { c.LayersToTransform = []int{0, 7} },
			[]string{"layers: targets select no layer with index 7"}},
		{func(c *Config) { c.LayersToTransform = []int{7, 8} },
			[]string{"layers: targets select no layer with index 7", "layers: targets select no layer with index 8"}},
		{func(c *Config) { c.ModulesToSave = []string{"lm_head", "lm_heed", "visual"} },
			[]string{`modules_to_save: "lm_heed" names no module of the backbone`}},
		{func(c *Config) { c.Targets.List = append(c.Targets.List, "qkv") }, nil},
		{func(c *Config) {
			c.Targets.List, c.Exclude = append(c.Targets.List, "qkv"), c.Exclude.Within([]string{Language})
		}, []string{`targets: "qkv" selects no layer`}},
		{func(c *Config) { c.Ranks = Overrides{{"q_proj", 2}, {"layers.0.self_attn.q_proj", 3}, {"o_proj", 4}} }, []string{
			`rank_pattern: "layers.0.self_attn.q_proj" applies to no layer with an adapter, or earlier patterns take precedence`,
			`rank_pattern: "o_proj" applies to no layer with an adapter, or earlier patterns take precedence`}},
		{func(c *Config) { c.Alphas = Overrides{{"layers.0.self_attn.q_proj", 3}, {"q_proj", 2}} }, nil},
	} {
		c := NewConfig(2, 2, Names{List: []string{"q_proj", "v_proj"}})
		test.change(c)
		if got, err := c.Unused(modules); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q %v, want %q", c, got, err, test.want)
		}
	}
}

// TestUnusedRefuses: a configuration that selects nothing at all, or cannot be read, is an error.
func TestUnusedRefuses(t *testing.T) {
	modules := []Module{{Name: "m.layers.0.q_proj", Linear: true, Out: 4, In: 4}}
	for name, test := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"nothing": {func(c *Config) { c.Targets.List = []string{"v_proj"} },
			"matches none of the model's 1 linear layers"},
		"bad rank":      {func(c *Config) { c.Ranks = Overrides{{"(", 1}} }, "rank_pattern: regular expression"},
		"bad alpha":     {func(c *Config) { c.Alphas = Overrides{{"(", 1}} }, "alpha_pattern: regular expression"},
		"no such thing": {func(*Config) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 2, Names{List: []string{"q_proj"}})
			test.change(c)
			got, err := c.Unused(modules)
			holdsError(t, "Unused", err, test.want)
			if got != nil {
				t.Errorf("got %q, want nothing", got)
			}
		})
	}
}

// TestUsedOverrides: the indices of the patterns that apply to a module, in the order of the modules.
func TestUsedOverrides(t *testing.T) {
	list := Overrides{{"k", 1}, {"v", 2}, {`0\.q`, 3}, {"q", 4}}
	adapted := []Target{{Module: "m.1.q"}, {Module: "m.0.q"}, {Module: "o"}, {Module: "v"}}
	got, err := usedOverrides("rank_pattern", list, adapted)
	if err != nil || !slices.Equal(got, []int{3, 2, 1}) {
		t.Errorf("got %v, %v, want [3 2 1]", got, err)
	}
	_, err = usedOverrides("rank_pattern", Overrides{{"a", 1}, {"(", 1}}, nil)
	holdsError(t, "a bad expression", err, `rank_pattern: regular expression "("`)
}

// TestUnmatched: the excluded modules that the backbone does not have; PEFT compares whole names, or their ends after a
// dot, with every module (check_target_module_exists).
func TestUnmatched(t *testing.T) {
	modules := []Module{{Name: "model.visual"}, {Name: "model.visual.qkv", Linear: true}, {Name: "model.layers.0.q_proj"}}
	for _, test := range []struct {
		exclude Names
		want    []string
	}{
		{Names{}, nil},
		{Names{List: []string{"q_proj", "layers.0.q_proj", "visual", "model.visual.qkv", "lm_head"}}, nil},
		{Names{List: []string{"proj", "q_proj", "layers.1.q_proj"}}, []string{`["proj"]`, `["layers.1.q_proj"]`}},
		{Names{Regex: `.*\.q_proj`}, nil},
		{Names{Regex: `q_proj`}, []string{`"q_proj"`}},
		{Names{Regex: `lm_.*`}, nil},
	} {
		got, err := test.exclude.Unmatched(modules)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%v: got %q, %v, want %q", test.exclude, got, err, test.want)
		}
	}
	_, err := Names{Regex: "("}.Unmatched(modules)
	holdsError(t, "a bad expression", err, `exclude_modules: regular expression "("`)
}
