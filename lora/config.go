// Package lora reads, makes, applies, writes and merges low-rank adapters in the files of Hugging Face's PEFT.
//
// A linear layer y = W x becomes y = W x + s B (A x) with A [r, in], B [out, r] and s = alpha/r, or alpha/sqrt(r) with
// use_rslora (Hu et al. 2021, Kalajdzievski 2023). W stays as it is; A and B are trained.
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

// Names selects modules: List holds names or ends of names ("q_proj", "self_attn.q_proj"); Regex, in Python's syntax, must
// match a whole name. As target modules, Regex "all-linear" stands for every linear layer but the output layer.
type Names struct {
	List  []string
	Regex string
}

func (n Names) empty() bool { return len(n.List) == 0 && n.Regex == "" }

// Override gives modules another rank or alpha: Key is a regular expression for a name, or for its end after a dot.
type Override struct {
	Key   string
	Value float64
}

// Config is adapter_config.json. Fields of PEFT that are not here are kept when the file is rewritten.
type Config struct {
	Base      string // base_model_name_or_path; "" is null
	TaskType  string // "CAUSAL_LM"; "" is null
	Inference bool   // inference_mode: PEFT loads the adapter frozen; true in files
	Rank      int
	Alpha     float64
	Dropout   float64 // probability of dropping an input element in training
	RSLoRA    bool

	Targets, Exclude  Names
	Ranks, Alphas     []Override // rank_pattern, alpha_pattern: the first that matches counts
	LayersToTransform []int      // layer numbers; nil: all
	LayersPattern     []string   // names of the lists of layers that LayersToTransform counts in; nil: any

	loaded *Config        // the fields as they were read
	fields map[string]any // the file's object
}

// NewConfig returns a configuration with PEFT's defaults for the rest.
func NewConfig(rank int, alpha float64, targets Names) *Config {
	return &Config{Rank: rank, Alpha: alpha, Targets: targets, TaskType: "CAUSAL_LM", Inference: true}
}

// newFields are the fields that PEFT 0.21.2 writes and Config has no member for.
func newFields() map[string]any {
	return map[string]any{
		"alora_invocation_tokens": nil, "arrow_config": nil, "auto_mapping": nil, "bias": "none", "corda_config": nil,
		"ensure_weight_tying": false, "eva_config": nil, "fan_in_fan_out": false, "init_lora_weights": true,
		"kasa_config": nil, "layer_replication": nil, "loftq_config": map[string]any{}, "lora_bias": false,
		"lora_ga_config": nil, "megatron_config": nil, "megatron_core": "megatron.core", "modules_to_save": nil,
		"monteclora_config": nil, "peft_type": "LORA", "peft_version": "0.21.2", "qalora_group_size": 16, "revision": nil,
		"target_parameters": nil, "trainable_token_indices": nil, "use_bdlora": nil, "use_dora": false,
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
	c, err := ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads the text of an adapter_config.json. All problems are reported together.
func ParseConfig(text []byte) (*Config, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	fields := map[string]any{}
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON object")
	}
	c := &Config{fields: fields, Rank: 8, Alpha: 8} // PEFT's defaults
	r := reader{fields: fields}
	r.str("base_model_name_or_path", &c.Base)
	r.str("task_type", &c.TaskType)
	r.boolean("inference_mode", &c.Inference)
	r.boolean("use_rslora", &c.RSLoRA)
	r.integer("r", &c.Rank)
	r.number("lora_alpha", &c.Alpha)
	r.number("lora_dropout", &c.Dropout)
	r.names("target_modules", &c.Targets)
	r.names("exclude_modules", &c.Exclude)
	r.integers("layers_to_transform", &c.LayersToTransform)
	var patterns Names
	r.names("layers_pattern", &patterns)
	if c.LayersPattern = patterns.List; patterns.Regex != "" {
		c.LayersPattern = []string{patterns.Regex}
	}
	c.Ranks = r.overrides("rank_pattern", text)
	c.Alphas = r.overrides("alpha_pattern", text)
	for _, err := range []error{c.unsupported(), c.Validate()} {
		if err != nil {
			r.problems = append(r.problems, err)
		}
	}
	if err := errors.Join(r.problems...); err != nil {
		return nil, err
	}
	loaded := *c
	c.loaded = &loaded
	return c, nil
}

// changesTheModel lists the fields that make an adapter something else than W + s B A when they are set.
var changesTheModel = []string{"alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "lora_bias",
	"megatron_config", "modules_to_save", "monteclora_config", "target_parameters", "trainable_token_indices",
	"use_bdlora", "use_dora", "use_qalora", "velora_config"}

// unsupported refuses adapters that would give other numbers here than in PEFT.
func (c *Config) unsupported() error {
	var errs []error
	if t, _ := c.fields["peft_type"].(string); t != "" && t != "LORA" {
		return fmt.Errorf("peft_type is %s; only LORA adapters are read", t)
	}
	for _, name := range changesTheModel {
		if truthy(c.fields[name]) {
			errs = append(errs, fmt.Errorf("%s is set; adapters with it are not supported: train without it, or merge the adapter with PEFT and use the merged checkpoint", name))
		}
	}
	if bias, _ := c.fields["bias"].(string); bias != "" && bias != "none" {
		errs = append(errs, fmt.Errorf("bias is %q; only \"none\" is supported", bias))
	}
	// These initialisations subtract the adapter's first value from W, which the checkpoint does not show.
	if init, _ := c.fields["init_lora_weights"].(string); init != "" {
		for _, p := range []string{"pissa", "corda", "olora", "loftq", "lora_ga"} {
			if strings.HasPrefix(strings.ToLower(init), p) {
				errs = append(errs, fmt.Errorf("init_lora_weights is %q, which changes the base weights; save the adapter with PEFT's path_initial_model_for_weight_conversion", init))
			}
		}
	}
	return errors.Join(errs...)
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

// Validate checks the values, and names every problem.
func (c *Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Rank <= 0 {
		add("r is %d; it must be positive", c.Rank)
	}
	if math.IsNaN(c.Alpha) || math.IsInf(c.Alpha, 0) {
		add("lora_alpha is %v", c.Alpha)
	}
	if !(c.Dropout >= 0 && c.Dropout < 1) {
		add("lora_dropout is %v; it must be in [0, 1)", c.Dropout)
	}
	if c.Targets.empty() {
		add("target_modules is empty; name modules, give a regular expression, or \"all-linear\"")
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

// Encode returns the file's text: all fields that PEFT 0.21.2 writes and those that were read, sorted, as Python writes JSON.
func (c *Config) Encode() ([]byte, error) {
	out := newFields()
	maps.Copy(out, c.fields)
	set := func(name string, value any, now, read any) {
		if _, known := c.fields[name]; !known || c.loaded == nil || !reflect.DeepEqual(now, read) {
			out[name] = value
		}
	}
	was := c.loaded
	if was == nil {
		was = &Config{}
	}
	set("base_model_name_or_path", orNull(c.Base), c.Base, was.Base)
	set("task_type", orNull(c.TaskType), c.TaskType, was.TaskType)
	set("inference_mode", c.Inference, c.Inference, was.Inference)
	set("use_rslora", c.RSLoRA, c.RSLoRA, was.RSLoRA)
	set("r", c.Rank, c.Rank, was.Rank)
	set("lora_alpha", wholeOrFloat(c.Alpha), c.Alpha, was.Alpha)
	set("lora_dropout", c.Dropout, c.Dropout, was.Dropout)
	set("target_modules", c.Targets.field(), c.Targets, was.Targets)
	set("exclude_modules", c.Exclude.field(), c.Exclude, was.Exclude)
	set("layers_to_transform", fieldList(c.LayersToTransform), c.LayersToTransform, was.LayersToTransform)
	set("layers_pattern", fieldList(c.LayersPattern), c.LayersPattern, was.LayersPattern)
	set("rank_pattern", overridesField(c.Ranks), c.Ranks, was.Ranks)
	set("alpha_pattern", overridesField(c.Alphas), c.Alphas, was.Alphas)
	return pythonJSON(out)
}

// Save writes dir/adapter_config.json.
func (c *Config) Save(dir string) error {
	text, err := c.Encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, ConfigFile), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Clone returns a copy that may be changed.
func (c *Config) Clone() *Config {
	d := *c
	d.fields = maps.Clone(c.fields)
	d.Targets.List, d.Exclude.List = slices.Clone(c.Targets.List), slices.Clone(c.Exclude.List)
	d.Ranks, d.Alphas = slices.Clone(c.Ranks), slices.Clone(c.Alphas)
	d.LayersToTransform, d.LayersPattern = slices.Clone(c.LayersToTransform), slices.Clone(c.LayersPattern)
	return &d
}
