package lora

import (
	"fmt"
	"testing"

	"gorgonia.org/tensor"
)

// TestTensorNames parses the names of an adapter's tensors, in the spellings of PEFT and other tools.
func TestTensorNames(t *testing.T) {
	const p = "base_model.model."
	for name, test := range map[string]struct {
		module string
		is     kind
	}{
		p + "a.q_proj.lora_A.weight":                              {"a.q_proj", kindA},
		p + "a.q_proj.lora_A.default.weight":                      {"a.q_proj", kindA},
		p + "a.q_proj.lora_B.weight":                              {"a.q_proj", kindB},
		p + "a.q_proj.lora_B.default.weight":                      {"a.q_proj", kindB},
		p + "a.q_proj.lora_magnitude_vector":                      {"a.q_proj", kindM},
		p + "a.q_proj.lora_magnitude_vector.weight":               {"a.q_proj", kindM},
		p + "a.q_proj.lora_magnitude_vector.default.weight":       {"a.q_proj", kindM},
		"a.q_proj.lora_A.weight":                                  {},
		p + "a.q_proj.lora_A":                                     {},
		p + "a.q_proj.weight":                                     {},
		p + "a.q_proj.lora_E.weight":                              {},
		p + "visual.blocks.0.attn.qkv.lora_A.weight":              {"visual.blocks.0.attn.qkv", kindA},
		p + "language_model.model.layers.0.mlp.fc.lora_B.weight":  {"language_model.model.layers.0.mlp.fc", kindB},
		p + "language_model.lm_head.lora_magnitude_vector":        {"language_model.lm_head", kindM},
		"base_model.language_model.lm_head.lora_magnitude_vector": {},
	} {
		t.Run(name, func(t *testing.T) {
			module, is, err := parseName(name)
			if module != test.module || is != test.is || (err == nil) != (test.is != "") {
				t.Errorf("got %q, %q, %v, want %q, %q", module, is, err, test.module, test.is)
			}
			if test.is == "" {
				holdsError(t, "parseName", err, fmt.Sprintf("unexpected tensor %q", name))
			}
			path, ok := ModuleOf(name)
			if ok != (test.is != "") || ok && path != Canonical(test.module) {
				t.Errorf("ModuleOf: got %q, %t, want %q", path, ok, Canonical(test.module))
			}
			if got, want := IsB(name), test.is == kindB; got != want {
				t.Errorf("IsB: got %t, want %t", got, want)
			}
		})
	}
}

// TestKindsOfTensors: the name of each kind, and which types and shapes it may have.
func TestKindsOfTensors(t *testing.T) {
	float := func(shape ...int) *tensor.Dense {
		return tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
	}
	double := func(shape ...int) *tensor.Dense {
		return tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float64))
	}
	const notMatrix, notVector = "want a matrix of floating-point numbers", "want a magnitude vector"
	for is, test := range map[kind]struct {
		name                         string
		vector, matrix, cube, double string // what is wrong with them
	}{
		kindA:     {"base_model.model.m.lora_A.weight", notMatrix, "", notMatrix, notMatrix},
		kindB:     {"base_model.model.m.lora_B.weight", notMatrix, "", notMatrix, notMatrix},
		kindM:     {"base_model.model.m.lora_magnitude_vector", "", notVector, notVector, notMatrix},
		kindWhole: {"base_model.model.m", "", "", "", notMatrix},
	} {
		t.Run(string(is), func(t *testing.T) {
			if got := is.name("m"); got != test.name {
				t.Errorf("name: got %q, want %q", got, test.name)
			}
			holdsError(t, "a vector", is.check("x", float(3)), test.vector)
			holdsError(t, "a matrix", is.check("x", float(3, 2)), test.matrix)
			holdsError(t, "three dimensions", is.check("x", float(3, 2, 4)), test.cube)
			holdsError(t, "a matrix of doubles", is.check("x", double(3, 2)), test.double)
			holdsError(t, "a vector of doubles", is.check("x", double(3)), test.double)
		})
	}
}

// TestParse: a tensor of no module is a parameter if the configuration has any, and magnitude vectors need DoRA.
func TestParse(t *testing.T) {
	const p = "base_model.model."
	unexpected := func(name string) string { return fmt.Sprintf("unexpected tensor %q", name) }
	plain := func(*Config) {}
	save := func(c *Config) { c.ModulesToSave = []string{"norm"} }
	bias := func(c *Config) { c.Bias = BiasLora }
	dora := func(c *Config) { c.DoRA = true }
	for name, test := range map[string]struct {
		name   string
		change func(c *Config)
		want   tensorName
		err    string
	}{
		"A":                   {p + "q.lora_A.weight", plain, tensorName{kindA, "q"}, ""},
		"A of one that saves": {p + "q.lora_A.weight", save, tensorName{kindA, "q"}, ""},
		"B":                   {p + "q.lora_B.weight", plain, tensorName{kindB, "q"}, ""},
		"B with DoRA":         {p + "q.lora_B.weight", dora, tensorName{kindB, "q"}, ""},
		"m":                   {p + "q.lora_magnitude_vector", dora, tensorName{kindM, "q"}, ""},
		"m without DoRA": {p + "q.lora_magnitude_vector", save, tensorName{},
			"adapter_config.json does not have use_dora"},
		"parameter":            {p + "norm.weight", save, tensorName{kindWhole, "norm.weight"}, ""},
		"bias":                 {p + "q.base_layer.bias", bias, tensorName{kindWhole, "q.bias"}, ""},
		"no parameters":        {p + "norm.weight", plain, tensorName{}, unexpected(p + "norm.weight")},
		"no prefix":            {"norm.weight", save, tensorName{}, unexpected("norm.weight")},
		"other matrices":       {p + "q.lora_E.weight", save, tensorName{}, unexpected(p + "q.lora_E.weight")},
		"PEFT's own name":      {p + "n.modules_to_save.default.weight", save, tensorName{}, "save_pretrained"},
		"PEFT's original":      {p + "n.original_module.weight", save, tensorName{}, "save_pretrained"},
		"PEFT's without saves": {p + "n.original_module.weight", plain, tensorName{}, "an adapter only has"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(1, 1, Names{})
			test.change(c)
			got, err := (&Adapter{Config: c}).parse(test.name)
			holdsError(t, "parse", err, test.err)
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestBringsParameters: modules_to_save and trained biases do.
func TestBringsParameters(t *testing.T) {
	for name, test := range map[string]struct {
		c    Config
		want bool
	}{
		"nothing": {Config{}, false}, "none": {Config{Bias: BiasNone}, false}, "all": {Config{Bias: BiasAll}, true},
		"lora_only": {Config{Bias: BiasLora}, true}, "modules": {Config{ModulesToSave: []string{"a"}}, true},
		"modules and none": {Config{ModulesToSave: []string{"a"}, Bias: BiasNone}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.c.bringsParameters(); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// TestParameterOf: the parameter that a tensor replaces, by its path in transformers 5.
func TestParameterOf(t *testing.T) {
	for name, want := range map[string]string{
		"base_model.model.model.norm.weight":                    "model.language_model.norm.weight",
		"base_model.model.model.layers.0.mlp.base_layer.bias":   "model.language_model.layers.0.mlp.bias",
		"base_model.model.visual.merger.mlp.0.bias":             "model.visual.merger.mlp.0.bias",
		"base_model.model.model.layers.0.q_proj.lora_A.weight":  "",
		"base_model.model.model.layers.0.lora_magnitude_vector": "",
		"model.norm.weight":                                         "",
		"model.layers.0.self_attn.q_proj.lora_B.weight":             "",
		"base_model.model.lm_head.weight":                           "lm_head.weight",
		"base_model.model.language_model.model.embed_tokens.weight": "model.language_model.embed_tokens.weight",
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := ParameterOf(name); got != want || ok != (want != "") {
				t.Errorf("got %q, %t, want %q", got, ok, want)
			}
		})
	}
}
