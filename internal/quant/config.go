package quant

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/strictjson"
)

// Methods of quantisation, as quant_method names them.
const (
	gptq         = "gptq"
	awq          = "awq"
	bitsandbytes = "bitsandbytes"
	compressed   = "compressed-tensors"
)

// Config is the quantization_config of a config.json: how linear layers are stored.
type Config struct {
	Method    string
	Bits      int    // per value
	Group     int    // columns that share a scale; 0: the full row
	DescAct   bool   // GPTQ: act order, g_idx assigns columns to groups
	Offset    int    // GPTQ: added to a stored zero
	Kind      string // bitsandbytes: nf4, fp4
	Double    bool   // bitsandbytes: the scales are quantised too
	Float     bool   // compressed-tensors: values are float8
	Symmetric bool   // no zeros are stored

	skipped []string         // modules that are not converted: names, or parts of them
	ignored []*regexp.Regexp // the same, as regular expressions
}

// key is the key of config.json that this package reads.
const key = "quantization_config"

// Split removes quantization_config from a config.json and parses it; nil if there is none. Every key in it is used,
// known to be harmless, or an error.
func Split(raw json.RawMessage) (*Config, json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, raw, nil // reported when it is parsed strictly
	}
	own := fields[key]
	if own == nil {
		return nil, raw, nil
	}
	delete(fields, key)
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, err
	}
	if string(own) == "null" {
		return nil, rest, nil
	}
	c, err := parse(own)
	return c, rest, err
}

func parse(raw json.RawMessage) (*Config, error) {
	o, err := strictjson.Parse("config.json: "+key, raw)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	o.Get("quant_method", &c.Method)
	switch c.Method {
	case gptq:
		c.readGPTQ(o)
	case awq:
		c.readAWQ(o)
	case bitsandbytes:
		c.readBnb(o)
	case compressed:
		c.readCompressed(o)
	default:
		o.Failf("quant_method", "%q is not supported; %s, %s, %s and %s are", c.Method, gptq, awq, bitsandbytes, compressed)
		return nil, o.Err()
	}
	return c, o.Err()
}

// The tables list the arguments of transformers' GPTQConfig, AwqConfig, BitsAndBytesConfig and
// CompressedTensorsConfig, and other keys written by AutoGPTQ, GPTQModel and AutoAWQ. They describe how the
// quantisation was done, and which kernels may be used.
var gptqHarmless = strictjson.Harmless{
	"is_marlin_format": {false},
	"dynamic":          {nil, map[string]any{}},
	"pack_dtype":       {"int32"},
	"adapter":          {nil},
	"rotation":         {nil},
}.AnyValue(
	// zeros are stored whatever the value of sym
	"sym",
	// how the quantisation was done
	"damp_percent", "damp_auto_increment", "static_groups", "true_sequential", "act_group_aware", "mse", "tokenizer",
	"dataset", "batch_size", "pad_token_id", "model_seqlen", "cache_block_outputs",
	// the tensors show which layers are packed
	"block_name_to_quantize", "module_name_preceding_first_block", "modules_in_block_to_quantize", "lm_head",
	// their kernels and files
	"use_cuda_fp16", "use_exllama", "disable_exllama", "exllama_config", "max_input_length", "backend", "meta",
	"model_name_or_path", "model_file_base_name",
)

func (c *Config) readGPTQ(o *strictjson.Object) {
	c.readInts(o, 4, 8)
	o.Opt("desc_act", &c.DescAct)
	format := "gptq"
	o.Opt("format", &format)
	o.Opt("checkpoint_format", &format)
	switch format {
	case "gptq":
		c.Offset = 1
	case "gptq_v2":
	default:
		o.Failf("checkpoint_format", "%q is not supported; gptq and gptq_v2 are", format)
	}
	o.Close(gptqHarmless)
}

// readInts reads bits and group_size.
func (c *Config) readInts(o *strictjson.Object, bits ...int) {
	c.Group = 128
	o.Get("bits", &c.Bits)
	if !slices.Contains(bits, c.Bits) {
		o.Failf("bits", "%d is not supported; %v are", c.Bits, bits)
		c.Bits = 4
	}
	o.Get("group_size", &c.Group)
	if c.Group == -1 {
		c.Group = 0
	} else if c.Group < 1 {
		o.Failf("group_size", "%d is not a number of columns; -1 means all of them", c.Group)
		c.Group = 0
	}
}

func (c *Config) readAWQ(o *strictjson.Object) {
	c.readInts(o, 4)
	version := "gemm"
	o.Opt("version", &version)
	o.Opt("format", &version)
	if strings.ToLower(version) != "gemm" {
		o.Failf("version", "%q is not supported; gemm is", version)
	}
	zeroPoint := true
	if o.Opt("zero_point", &zeroPoint); !zeroPoint {
		o.Failf("zero_point", "false is not supported; true is")
	}
	o.Opt("modules_to_not_convert", &c.skipped)
	o.Close(strictjson.Harmless{}.AnyValue("backend", "do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config"))
}

func (c *Config) readBnb(o *strictjson.Object) {
	c.Kind = "fp4"
	four := false
	o.Opt("load_in_4bit", &four)
	if !four {
		o.Failf("load_in_4bit", "only 4-bit weights are supported: bitsandbytes' int8 also quantises activations")
	}
	o.Opt("bnb_4bit_quant_type", &c.Kind)
	if c.Kind != "nf4" && c.Kind != "fp4" {
		o.Failf("bnb_4bit_quant_type", "%q is not supported; nf4 and fp4 are", c.Kind)
	}
	o.Opt("bnb_4bit_use_double_quant", &c.Double)
	o.Opt("llm_int8_skip_modules", &c.skipped)
	o.Close(strictjson.Harmless{"load_in_8bit": {false}, "bnb_4bit_quant_storage": {"uint8"}}.AnyValue(
		// repeat load_in_4bit and load_in_8bit
		"_load_in_4bit", "_load_in_8bit",
		// for their kernels; ours compute in float32
		"bnb_4bit_compute_dtype", "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "llm_int8_threshold",
	))
}

// readCompressed reads compressed-tensors' config_groups, which must all use the same scheme.
func (c *Config) readCompressed(o *strictjson.Object) {
	groups := o.Sub("config_groups")
	format := ""
	o.Opt("format", &format)
	o.Opt("ignore", &c.skipped)
	for i, name := range slices.Clone(c.skipped) {
		if expression, ok := strings.CutPrefix(name, "re:"); ok {
			r, err := regexp.Compile(`^(?:` + expression + `)`) // Python's match
			if err != nil {
				o.Failf("ignore", "%w", err)
				continue
			}
			c.ignored, c.skipped[i] = append(c.ignored, r), ""
		}
	}
	c.skipped = slices.DeleteFunc(c.skipped, func(s string) bool { return s == "" })
	if groups == nil || groups.Empty() {
		o.Failf("config_groups", "missing or empty: it defines how weights are stored")
		return
	}
	first := true
	for _, name := range groups.Keys() {
		g := groups.Sub(name)
		if g == nil {
			continue
		}
		was := *c
		c.readScheme(g, format)
		if !first && (was.Bits != c.Bits || was.Group != c.Group || was.Float != c.Float || was.Symmetric != c.Symmetric) {
			groups.Failf(name, "layers stored in different ways are not supported")
		}
		first = false
	}
	groups.Close()
	o.Close(strictjson.Harmless{
		"quantization_status": {"compressed"},
		"kv_cache_scheme":     {nil},
		"sparsity_config":     {nil, map[string]any{}},
		"moe_sparsity_config": {nil},
		"transform_config":    {nil, map[string]any{}},
	}.AnyValue("global_compression_ratio", "version", "run_compressed"))
}

// readScheme reads one of config_groups.
func (c *Config) readScheme(o *strictjson.Object, format string) {
	o.Opt("format", &format)
	var targets []string
	o.Opt("targets", &targets)
	w := o.Sub("weights")
	if w == nil {
		o.Failf("weights", "missing or empty: it defines how weights are stored")
		return
	}
	kind, strategy := "int", "tensor"
	c.Symmetric, c.Group = true, 0
	w.Get("num_bits", &c.Bits)
	w.Get("type", &kind)
	w.Get("strategy", &strategy)
	w.Opt("symmetric", &c.Symmetric)
	w.Opt("group_size", &c.Group)
	if c.Group < 0 {
		c.Group = 0
	}
	c.Float = kind == "float"
	switch {
	case c.Float && c.Bits == 8 && c.Symmetric && (strategy == "tensor" || strategy == "channel") &&
		(format == "float-quantized" || format == "naive-quantized"):
	case !c.Float && (c.Bits == 4 || c.Bits == 8) && (strategy == "group" && c.Group > 0 || strategy == "channel") &&
		format == "pack-quantized":
	default:
		w.Failf("", "%d bits of type %s, strategy %s, format %q are not supported, only pack-quantized integers of 4 "+
			"or 8 bits by group or channel, and float-quantized floats of 8 bits by channel or tensor",
			c.Bits, kind, strategy, format)
	}
	// weight_g_idx gives the order of columns, and the tensors the types of scales and zeros
	w.Close(strictjson.Harmless{"dynamic": {false}, "block_structure": {nil}}.
		AnyValue("actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"))
	if a := o.Sub("input_activations"); a != nil { // quantised dynamically by their kernels, for each token
		a.Close(strictjson.Harmless{"dynamic": {true}, "actorder": {nil}, "block_structure": {nil}}.AnyValue(
			"num_bits", "type", "strategy", "symmetric", "group_size", "observer", "observer_kwargs", "scale_dtype",
			"zp_dtype"))
	}
	o.Close(strictjson.Harmless{"output_activations": {nil}})
}

// Everywhere reports whether all linear layers that [Config.Skips] does not exclude are converted, not only those of
// the language model.
func (c *Config) Everywhere() bool { return c.Method == bitsandbytes || c.Method == compressed }

// Skips reports whether the linear layer with that name (with or without .weight) is excluded from conversion.
func (c *Config) Skips(name string) bool {
	name = strings.TrimSuffix(name, ".weight")
	for _, s := range c.skipped {
		if name == s || strings.HasPrefix(name, s+".") || strings.HasSuffix(name, "."+s) ||
			strings.Contains(name, "."+s+".") || c.Method == awq && strings.Contains(name, s) {
			return true
		}
	}
	return slices.ContainsFunc(c.ignored, func(r *regexp.Regexp) bool { return r.MatchString(name) }) ||
		path.Ext(name) == ".lm_head" || name == "lm_head"
}
