package lora

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDefaults: fields that a file leaves out have PEFT's defaults.
func TestDefaults(t *testing.T) {
	c, err := parseConfig([]byte(`{"target_modules": ["q"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Rank != 8 || c.Alpha != 8 || c.Bias != BiasNone || c.Dropout != 0 || c.RSLoRA || c.DoRA || c.Inference ||
		c.Start != StartUsual {
		t.Errorf("got %+v, want rank 8, alpha 8, no bias, no dropout, none of the ways", c)
	}
}

// TestPythonsBool: which field values count as set, as with Python's bool().
func TestPythonsBool(t *testing.T) {
	for text, want := range map[string]bool{
		`null`: false, `false`: false, `true`: true, `""`: false, `"a"`: true, `0`: false, `0.0`: false, `-1`: true,
		`1e-300`: true, `1e999`: true, `[]`: false, `[null]`: true, `{}`: false, `{"a": null}`: true,
	} {
		t.Run(text, func(t *testing.T) {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			if got := truthy(v); got != want {
				t.Errorf("got %t, want %t", got, want)
			}
		})
	}
	if !truthy(3) { // no value of JSON
		t.Error("an int: got false, want true")
	}
}

// TestFieldsOfOthers: which fields without a member of Config are refused if they are set.
func TestFieldsOfOthers(t *testing.T) {
	for field, want := range map[string]string{
		`"peft_type": "LORA"`:               "",
		`"peft_type": ""`:                   "",
		`"peft_type": null`:                 "",
		`"peft_type": "ADALORA"`:            "peft_type is ADALORA; only LORA adapters are supported",
		`"lora_bias": true`:                 "lora_bias is set; adapters with it are not supported",
		`"lora_bias": false`:                "",
		`"layer_replication": [[0, 1]]`:     "layer_replication is set",
		`"velora_config": {}`:               "",
		`"runtime_config": {"a": 1}`:        "",
		`"megatron_core": "megatron.core"`:  "",
		`"later": 1`:                        `unknown field "later" (1)`,
		`"later": 0`:                        "",
		`"zz": [1], "later": "x"`:           "unknown field \"later\" (x): it may change what the adapter computes",
		`"init_lora_weights": "corda"`:      `init_lora_weights is "corda"`,
		`"use_qalora": true, "zz": [1]`:     `unknown field "zz" ([1])`,
		`"zz": [1], "use_qalora": true`:     "use_qalora is set",
		`"lora_bias": true, "r": 0`:         "r is 0; it must be positive",
		`"r": 0, "lora_bias": true, "a": 1`: "lora_bias is set",
	} {
		t.Run(field, func(t *testing.T) {
			_, err := parseConfig([]byte(`{"target_modules": ["q"], ` + field + `}`))
			holdsError(t, "parseConfig", err, want)
		})
	}
	c := &Config{fields: map[string]any{"b": 1, "a": true, "r": 3, "lora_bias": true, "revision": "x", "c": nil}}
	if diff := cmp.Diff([]string{"a", "b"}, c.unknown()); diff != "" {
		t.Errorf("unknown fields (-want +got):\n%s", diff)
	}
}

// TestValidate: the limits of each value, and that every problem is reported.
func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *Config)
		want   string
	}{
		"usual":            {func(*Config) {}, ""},
		"rank 1":           {func(c *Config) { c.Rank = 1 }, ""},
		"rank 0":           {func(c *Config) { c.Rank = 0 }, "r is 0; it must be positive"},
		"rank -1":          {func(c *Config) { c.Rank = -1 }, "r is -1; it must be positive"},
		"largest rank":     {func(c *Config) { c.Rank = math.MaxInt32 }, ""},
		"above it":         {func(c *Config) { c.Rank = math.MaxInt32 + 1 }, "r is 2147483648; no layer is that wide"},
		"alpha NaN":        {func(c *Config) { c.Alpha = math.NaN() }, "lora_alpha is NaN"},
		"alpha +Inf":       {func(c *Config) { c.Alpha = math.Inf(1) }, "lora_alpha is +Inf"},
		"alpha -Inf":       {func(c *Config) { c.Alpha = math.Inf(-1) }, "lora_alpha is -Inf"},
		"alpha 0":          {func(c *Config) { c.Alpha = 0 }, ""},
		"dropout 0":        {func(c *Config) { c.Dropout = 0 }, ""},
		"dropout .999":     {func(c *Config) { c.Dropout = .999 }, ""},
		"dropout 1":        {func(c *Config) { c.Dropout = 1 }, "lora_dropout is 1; it must be in [0, 1)"},
		"dropout below 0":  {func(c *Config) { c.Dropout = -.001 }, "lora_dropout is -0.001; it must be in [0, 1)"},
		"dropout NaN":      {func(c *Config) { c.Dropout = math.NaN() }, "lora_dropout is NaN"},
		"no bias":          {func(c *Config) { c.Bias = "" }, ""},
		"all biases":       {func(c *Config) { c.Bias = BiasAll }, ""},
		"biases of LoRA":   {func(c *Config) { c.Bias = BiasLora }, ""},
		"another bias":     {func(c *Config) { c.Bias = "some" }, `bias is "some"; it must be none, all or lora_only`},
		"no word, modules": {func(c *Config) { c.Bias, c.ModulesToSave = "", []string{"norm"} }, ""},
		"no bias, modules": {func(c *Config) { c.ModulesToSave = []string{"norm"} }, ""},
		"biases, modules": {func(c *Config) { c.Bias, c.ModulesToSave = BiasLora, []string{"norm"} },
			`bias is "lora_only" and there are modules_to_save`},
		"an empty module": {func(c *Config) { c.ModulesToSave = []string{"norm", ""} },
			"modules_to_save has an empty name"},
		"DoRA":    {func(c *Config) { c.DoRA = true }, ""},
		"a start": {func(c *Config) { c.Start = StartOLoRA }, ""},
		"DoRA, a start": {func(c *Config) { c.DoRA, c.Start = true, StartOLoRA },
			`use_dora with init_lora_weights "olora"`},
		"no targets":     {func(c *Config) { c.Targets = Names{List: []string{}} }, "target_modules is empty"},
		"an expression":  {func(c *Config) { c.Targets = Names{Regex: "q"} }, ""},
		"rank pattern 1": {func(c *Config) { c.Ranks = Overrides{{"q", 1}} }, ""},
		"rank pattern 0": {func(c *Config) { c.Ranks = Overrides{{"v", 2}, {"q", 0}} },
			`rank_pattern "q" is 0; ranks are positive`},
		"rank pattern -1": {func(c *Config) { c.Ranks = Overrides{{"q", -1}} },
			`rank_pattern "q" is -1; ranks are positive`},
		"rank pattern 1.5": {func(c *Config) { c.Ranks = Overrides{{"q", 1.5}} },
			`rank_pattern "q" is 1.5; ranks are positive`},
		"alpha pattern":   {func(c *Config) { c.Alphas = Overrides{{"q", 1.5}} }, ""},
		"layers":          {func(c *Config) { c.LayersToTransform = []int{1} }, ""},
		"layers, pattern": {func(c *Config) { c.LayersToTransform, c.LayersPattern = []int{1}, []string{"h"} }, ""},
		"pattern alone":   {func(c *Config) { c.LayersPattern = []string{"h"} }, "layers_pattern needs layers_to_transform"},
		"empty pattern":   {func(c *Config) { c.LayersPattern = []string{} }, ""},
		"expression, layers": {func(c *Config) { c.Targets, c.LayersToTransform = Names{Regex: "q"}, []int{1} },
			"layers_to_transform and layers_pattern need a list of target_modules"},
		"expression, pattern": {func(c *Config) { c.Targets, c.LayersPattern = Names{Regex: "q"}, []string{} },
			"layers_to_transform and layers_pattern need a list of target_modules"},
		"bad expression": {func(c *Config) { c.Targets = Names{Regex: "(("} }, `target_modules: regular expression "(("`},
		"bad exclusion":  {func(c *Config) { c.Exclude = Names{Regex: "(("} }, `exclude_modules: regular expression "(("`},
		"bad module":     {func(c *Config) { c.ModulesToSave = []string{"(("} }, `modules_to_save: regular expression "(("`},
		"bad rank":       {func(c *Config) { c.Ranks = Overrides{{"((", 1}} }, `rank_pattern: regular expression "(("`},
		"bad alpha":      {func(c *Config) { c.Alphas = Overrides{{"((", 1}} }, `alpha_pattern: regular expression "(("`},
		"bad pattern": {func(c *Config) { c.LayersToTransform, c.LayersPattern = []int{1}, []string{"(("} },
			`layers_pattern: regular expression "(("`},
		"the first of two":  {func(c *Config) { c.Rank, c.Dropout = 0, 2 }, "r is 0"},
		"the second of two": {func(c *Config) { c.Rank, c.Dropout = 0, 2 }, "lora_dropout is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 3, Names{List: []string{"q_proj"}})
			test.change(c)
			holdsError(t, "Validate", c.Validate(), test.want)
		})
	}
}
