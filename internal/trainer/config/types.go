package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"

	"assay/internal/strictyaml"
	"assay/lora"
)

// Strings is a text or a list of texts.
type Strings []string

// UnmarshalValue reads a text or a list.
func (s *Strings) UnmarshalValue(v any) error {
	list, err := texts(v)
	*s = list
	return err
}

// MarshalYAML writes a single text as a plain scalar.
func (s Strings) MarshalYAML() (any, error) {
	if len(s) == 1 {
		return s[0], nil
	}
	return []string(s), nil
}

func texts(v any) ([]string, error) {
	switch x := v.(type) {
	case string:
		return []string{x}, nil
	case []any:
		out := make([]string, len(x))
		for i, e := range x {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("item %d: want a text, not %v", i+1, e)
			}
			out[i] = s
		}
		return out, nil
	}
	return nil, fmt.Errorf("want a text or a list of texts, not %v", v)
}

// Targets names linear layers as PEFT does: a list of name endings, or one regular expression that the whole module
// path must match, or all-linear.
type Targets struct {
	List    []string
	Pattern string // "all-linear" or a regular expression; used if List is empty
}

// UnmarshalValue reads a list or a text.
func (t *Targets) UnmarshalValue(v any) error {
	list, err := texts(v)
	if err != nil {
		return err
	}
	*t = Targets{List: list}
	if s, ok := v.(string); ok {
		*t = Targets{Pattern: s}
	}
	return nil
}

// MarshalYAML writes what UnmarshalValue reads.
func (t Targets) MarshalYAML() (any, error) {
	if t.Pattern != "" {
		return t.Pattern, nil
	}
	return t.List, nil
}

// Overrides are ranks or alphas by pattern. Their order counts: if several patterns match, the first one does.
type Overrides lora.Overrides

// UnmarshalEntry reads a pattern with its value.
func (o *Overrides) UnmarshalEntry(key string, v any) error {
	x, ok := strictyaml.Float(v)
	if !ok {
		return fmt.Errorf("want a number, not %v", v)
	}
	*o = append(*o, lora.Override{Key: key, Value: x})
	return nil
}

// MarshalYAML writes a mapping in this order; ranks are whole numbers.
func (o Overrides) MarshalYAML() (any, error) {
	out := yaml.MapSlice{}
	for _, x := range o {
		item := yaml.MapItem{Key: x.Key, Value: x.Value}
		if whole := int64(x.Value); float64(whole) == x.Value {
			item.Value = whole
		}
		out = append(out, item)
	}
	return out, nil
}

// Validation is where the validation rows come from: tables, or a fraction of the training groups, or nowhere.
type Validation struct {
	Tables   Strings
	Fraction float64
}

// Validates reports whether the file names validation rows.
func (c *DataConfig) Validates() bool {
	return len(c.Validation.Tables) > 0 || c.Validation.Fraction > 0 || c.ValidationSplit != ""
}

// UnmarshalValue reads a fraction, a text or a list.
func (d *Validation) UnmarshalValue(v any) error {
	*d = Validation{}
	if f, ok := strictyaml.Float(v); ok {
		if f < 0 || f >= 1 {
			return fmt.Errorf("a fraction is at least 0 and below 1, not %g", f)
		}
		d.Fraction = f
		return nil
	}
	list, err := texts(v)
	if err != nil {
		return errors.New("want a table, a list of tables or the fraction of training groups to hold out")
	}
	d.Tables = list
	return nil
}

// MarshalYAML writes what UnmarshalValue reads.
func (d Validation) MarshalYAML() (any, error) {
	if len(d.Tables) > 0 {
		return d.Tables.MarshalYAML()
	}
	return d.Fraction, nil
}

// RecomputeAuto recomputes as few layers as memory allows.
const RecomputeAuto = "auto"

// MicroBatch is a number of samples, or Auto.
type MicroBatch int

// Auto lets the model choose by the free memory.
const Auto MicroBatch = 0

// UnmarshalValue reads auto or a whole number of at least 1.
func (m *MicroBatch) UnmarshalValue(v any) error {
	if v == "auto" {
		*m = Auto
		return nil
	}
	n, ok := strictyaml.Int(v)
	if !ok || n < 1 {
		return fmt.Errorf("want auto or a whole number of at least 1, not %v", v)
	}
	*m = MicroBatch(n)
	return nil
}

// MarshalYAML writes auto or the number.
func (m MicroBatch) MarshalYAML() (any, error) {
	if m == Auto {
		return "auto", nil
	}
	return int(m), nil
}

// CacheSize is a number of bytes in memory, or Disk.
type CacheSize int64

// Disk keeps image features in the store of the run, cache.folder.
const Disk CacheSize = -1

// UnmarshalValue reads disk, a number of bytes, or a number with a unit (512MiB, 2 GB).
func (c *CacheSize) UnmarshalValue(v any) error {
	if v == "disk" {
		*c = Disk
		return nil
	}
	if (*strictyaml.Bytes)(c).UnmarshalValue(v) != nil {
		return fmt.Errorf("want disk or a size like 512MiB or 2GiB, not %v", v)
	}
	return nil
}

// MarshalYAML writes what UnmarshalValue reads.
func (c CacheSize) MarshalYAML() (any, error) {
	if c == Disk {
		return "disk", nil
	}
	return strictyaml.Bytes(c).MarshalYAML()
}

// elsewhere maps names in Hugging Face's TrainingArguments, PEFT's LoraConfig and TRL to the equivalent keys here.
var elsewhere = map[string]string{
	"adam_epsilon":                "optimizer.eps",
	"bf16":                        "dtype: bfloat16",
	"eval_steps":                  "validate.every",
	"gradient_accumulation_steps": "batch_size, which a step splits into runs of micro_batch",
	"gradient_checkpointing":      "recompute: layers",
	"learning_rate":               "optimizer.lr",
	"load_best_model_at_end":      "validate.by",
	"lora_alpha":                  "lora.alpha",
	"lora_dropout":                "lora.dropout",
	"lora_r":                      "lora.r",
	"lora_target_modules":         "lora.targets",
	"lr":                          "optimizer.lr",
	"lr_scheduler_type":           "schedule.kind",
	"max_grad_norm":               "clip_norm",
	"max_steps":                   "steps",
	"model_name_or_path":          "backbone",
	"num_train_epochs":            "epochs",
	"optim":                       "optimizer.name",
	"output_dir":                  "out",
	"per_device_train_batch_size": "micro_batch",
	"save_steps":                  "checkpoint.steps",
	"save_total_limit":            "checkpoint.keep",
	"target_modules":              "lora.targets",
	"train_file":                  "data.train",
	"validation_file":             "data.validation",
	"warmup_ratio":                "schedule.warmup",
	"warmup_steps":                "schedule.warmup",
	"weight_decay":                "optimizer.weight_decay",
}

// KeyElsewhere returns the key here for a name that other programs use; "": none.
func (c *Config) KeyElsewhere(name string) string { return elsewhere[name] }
