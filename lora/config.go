// Package lora reads, creates, applies, writes and merges low-rank adapters in the file format of Hugging Face's
// PEFT.
//
// A linear layer y = W x becomes y = W x + s B (A x) with A [r, in] and B [out, r]. s is alpha/r, or alpha/sqrt(r)
// with use_rslora (Hu et al. 2021, Kalajdzievski 2023). W is frozen; A and B are trained.
//
// With use_dora (Liu et al. 2024) the rows of W + s B A are scaled to a trained magnitude m: y = m/|W + s B A| (W x +
// s B A x). In the gradient, the norm |W + s B A| of each row is treated as a constant. PiSSA (Meng et al. 2024) and
// OLoRA (Buyukakyuz 2024) initialize A and B from W, as A0 and B0, and subtract them: y = (W - s B0 A0) x + s B A x.
// Full parameters of the backbone in an adapter (modules_to_save, bias) replace the backbone's.
package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"assay/internal/atomicfile"
)

// Names of an adapter's files.
const (
	ConfigFile  = "adapter_config.json"
	WeightsFile = "adapter_model.safetensors"
)

// Config is adapter_config.json. PEFT fields that are not listed here are preserved when the file is rewritten.
type Config struct {
	Base      string  `json:"base_model_name_or_path,omitempty"` // "" is null
	TaskType  string  `json:"task_type,omitempty"`               // "CAUSAL_LM"; "" is null
	Inference bool    `json:"inference_mode"`                    // PEFT loads the adapter frozen; true in files
	Rank      int     `json:"r"`
	Alpha     float64 `json:"lora_alpha"`
	Dropout   float64 `json:"lora_dropout"` // probability of dropping an input element in training
	RSLoRA    bool    `json:"use_rslora"`
	DoRA      bool    `json:"use_dora"`
	Bias      string  `json:"bias"`              // whose biases are trained: none, all, lora_only
	Start     Start   `json:"init_lora_weights"` // initialization of A and B

	ModulesToSave oneOrMore[string] `json:"modules_to_save"` // modules that are trained and saved in full: name suffixes

	Targets           Names             `json:"target_modules"`
	Exclude           Names             `json:"exclude_modules"`
	Ranks             Overrides         `json:"rank_pattern"`        // the first match counts
	Alphas            Overrides         `json:"alpha_pattern"`       // the first match counts
	LayersToTransform oneOrMore[int]    `json:"layers_to_transform"` // layer indices; nil: all
	LayersPattern     oneOrMore[string] `json:"layers_pattern"`      // names of the lists that these index; nil: any

	fields map[string]any             // the file's JSON object
	read   map[string]json.RawMessage // the members as they were read
}

// NewConfig returns a configuration with PEFT's defaults for the rest.
func NewConfig(rank int, alpha float64, targets Names) *Config {
	return &Config{
		Rank:      rank,
		Alpha:     alpha,
		Targets:   targets,
		TaskType:  "CAUSAL_LM",
		Inference: true,
		Bias:      BiasNone,
	}
}

// newFields returns the fields that PEFT 0.21.2 writes and that Config has no member for.
func newFields() map[string]any {
	return map[string]any{
		"alora_invocation_tokens": nil, "arrow_config": nil, "auto_mapping": nil, "corda_config": nil,
		"ensure_weight_tying": false, "eva_config": nil, "fan_in_fan_out": false,
		"kasa_config": nil, "layer_replication": nil, "loftq_config": map[string]any{}, "lora_bias": false,
		"lora_ga_config": nil, "megatron_config": nil, "megatron_core": "megatron.core",
		"monteclora_config": nil, "peft_type": "LORA", "peft_version": "0.21.2", "qalora_group_size": 16, "revision": nil,
		"target_parameters": nil, "trainable_token_indices": nil, "use_bdlora": nil,
		"use_qalora": false, "velora_config": nil,
	}
}

// LoadConfig reads and checks dir/adapter_config.json, as written by any version of PEFT.
func LoadConfig(dir string) (*Config, error) {
	path := filepath.Join(dir, ConfigFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// parseConfig reads the text of an adapter_config.json. All problems are reported together.
func parseConfig(text []byte) (*Config, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	fields := map[string]any{}
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON object")
	}
	c := &Config{fields: fields, Rank: 8, Alpha: 8, Bias: BiasNone} // PEFT's defaults
	problems := c.readMembers(text)
	for _, err := range []error{c.unsupported(), c.Validate()} {
		if err != nil {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	err := json.Unmarshal(text, &raw)
	for _, name := range []string{"rank_pattern", "alpha_pattern"} {
		if _, ok := raw[name]; ok {
			fields[name] = raw[name] // a map of Go would lose its order, which counts
		}
	}
	if err == nil {
		c.read, err = c.members()
	}
	return c, err
}

// changesTheModel lists the fields that make an adapter something other than W + s B A if they are set.
var changesTheModel = []string{
	"alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "lora_bias", "megatron_config",
	"monteclora_config", "target_parameters", "trainable_token_indices", "use_bdlora", "use_qalora", "velora_config",
}

// changesNothing lists further fields, about how an adapter was trained or stored, which do not change its result;
// older versions of PEFT wrote some of them.
var changesNothing = []string{
	"auto_mapping", "corda_config", "enable_lora", "ensure_weight_tying", "eva_config", "fan_in_fan_out", "loftq_config",
	"lora_ga_config", "megatron_core", "merge_weights", "peft_type", "peft_version", "qalora_group_size", "revision",
	"runtime_config",
}

// unknown returns the names of unknown fields that are set.
func (c *Config) unknown() (names []string) {
	own := map[string]bool{}
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		own[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.fields)) {
		if !own[name] && truthy(c.fields[name]) && !slices.Contains(changesTheModel, name) &&
			!slices.Contains(changesNothing, name) {
			names = append(names, name)
		}
	}
	return names
}

// unsupported refuses adapters that would compute something different here than in PEFT.
func (c *Config) unsupported() error {
	var errs []error
	if t, _ := c.fields["peft_type"].(string); t != "" && t != "LORA" {
		return fmt.Errorf("peft_type is %s; only LORA adapters are supported", t)
	}
	for _, name := range changesTheModel {
		if truthy(c.fields[name]) {
			errs = append(
				errs,
				fmt.Errorf("%s is set; adapters with it are not supported: train without it, or merge the adapter with PEFT and "+
					"use the merged checkpoint",
					name),
			)
		}
	}
	for _, name := range c.unknown() {
		errs = append(errs, fmt.Errorf("unknown field %q (%v): it may change what the adapter computes; remove it "+
			"if you are sure that it does not", name, c.fields[name]))
	}
	return errors.Join(append(errs, c.checkStart())...)
}

// truthy is Python's bool().
func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		f, err := v.Float64()
		return err != nil || f != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// Validate checks the values, and reports every problem.
func (c *Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Rank <= 0 {
		add("r is %d; it must be positive", c.Rank)
	} else if c.Rank > math.MaxInt32 {
		add("r is %d; no layer is that wide", c.Rank)
	}
	if math.IsNaN(c.Alpha) || math.IsInf(c.Alpha, 0) {
		add("lora_alpha is %v", c.Alpha)
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		add("lora_dropout is %v; it must be in [0, 1)", c.Dropout)
	}
	c.validateBesides(add)
	if c.Targets.empty() {
		add("target_modules is empty; want module names, a regular expression, or \"all-linear\"")
	}
	for _, o := range c.Ranks {
		if o.Value <= 0 || o.Value != math.Trunc(o.Value) {
			add("rank_pattern %q is %v; ranks are positive whole numbers", o.Key, o.Value)
		}
	}
	if c.Targets.Regex != "" && (c.LayersToTransform != nil || c.LayersPattern != nil) {
		add("layers_to_transform and layers_pattern need a list of target_modules, not a regular expression")
	}
	if len(c.LayersPattern) > 0 && c.LayersToTransform == nil {
		add("layers_pattern needs layers_to_transform")
	}
	if _, err := newMatcher(c); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// validateBesides is Validate for what an adapter trains besides its two matrices, and for its initialization.
func (c *Config) validateBesides(add func(format string, args ...any)) {
	if c.Bias != "" && c.Bias != BiasNone && c.Bias != BiasAll && c.Bias != BiasLora {
		add("bias is %q; it must be none, all or lora_only", c.Bias)
	}
	if c.Bias != "" && c.Bias != BiasNone && len(c.ModulesToSave) > 0 {
		add("bias is %q and there are modules_to_save: PEFT saves such biases twice; set only one of the two", c.Bias)
	}
	if c.DoRA && c.Start.changesBase() {
		add("use_dora with init_lora_weights %q is not supported: set only one of the two", c.Start)
	}
	if slices.Contains(c.ModulesToSave, "") {
		add("modules_to_save has an empty name, which would match every module")
	}
}

// Encode returns the file's text: all fields that PEFT 0.21.2 writes and those that were read, sorted. Values that
// were not changed since they were read keep their spelling.
func (c *Config) Encode() ([]byte, error) {
	members, err := c.members()
	if err != nil {
		return nil, err
	}
	out := newFields()
	maps.Copy(out, c.fields)
	for _, name := range []string{"base_model_name_or_path", "task_type"} { // omitted by JSON if they are empty
		if members[name] == nil {
			members[name] = json.RawMessage("null")
		}
	}
	for name, value := range members {
		was := c.read[name]
		if _, known := c.fields[name]; !known || !bytes.Equal(value, was) {
			out[name] = value
		}
	}
	return encode(out, "  ")
}

// Save writes dir/adapter_config.json.
func (c *Config) Save(dir string) error {
	text, err := c.Encode()
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, ConfigFile), text)
}

// Clone returns a copy that may be changed.
func (c *Config) Clone() *Config {
	d := *c
	d.fields = maps.Clone(c.fields)
	d.Targets.List, d.Exclude.List = slices.Clone(c.Targets.List), slices.Clone(c.Exclude.List)
	d.Ranks, d.Alphas = slices.Clone(c.Ranks), slices.Clone(c.Alphas)
	d.ModulesToSave = slices.Clone(c.ModulesToSave)
	d.LayersToTransform, d.LayersPattern = slices.Clone(c.LayersToTransform), slices.Clone(c.LayersPattern)
	return &d
}
