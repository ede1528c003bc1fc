package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"assay/chat"
	"assay/internal/strictjson"
)

// Config holds the defaults of requests: generation_config.json, with transformers' defaults.
type Config struct {
	Sample            bool // do_sample; if false, temperature, top_k and top_p are ignored
	Temperature       float64
	TopK              int
	TopP              float64
	RepetitionPenalty float64
	MaxNewTokens      int     // 0: none
	MaxLength         int     // of prompt and answer; 0: none
	End               []int64 // ids that end an answer
}

// DefaultMaxNewTokens limits an answer if neither the request nor the checkpoint does. (transformers' own default is
// 20 tokens, prompt included.)
const DefaultMaxNewTokens = 512

// configHarmless are keys of generation_config.json that do not change greedy or sampled answers, at any value or at
// the values listed.
var configHarmless = strictjson.Harmless{
	// of the file, and of outputs other than the answer
	"_from_model_config": nil, "transformers_version": nil, "_commit_hash": nil, "chat_format": nil,
	"output_attentions": nil, "output_hidden_states": nil, "output_scores": nil, "output_logits": nil,
	"return_dict_in_generate": nil, "return_legacy_cache": nil, "generation_kwargs": {map[string]any{}},
	// of the cache, of compilers and of other ways to compute the same tokens
	"use_cache": nil, "cache_implementation": {nil, "dynamic", "static", "hybrid", "offloaded", "sliding_window"},
	"cache_config": {nil}, "max_cache_len": nil, "compile_config": nil, "disable_compile": nil, "low_memory": nil,
	"prefill_chunk_size": nil, "continuous_batching_config": nil, "is_assistant": nil, "num_assistant_tokens": nil,
	"num_assistant_tokens_schedule": nil, "assistant_confidence_threshold": nil, "prompt_lookup_num_tokens": {nil},
	"max_matching_ngram_size": nil, "assistant_early_exit": {nil}, "assistant_lookbehind": nil, "target_lookbehind": nil,
	// tokens that are never used: there is always a prompt, and nothing is padded
	"bos_token_id": nil, "pad_token_id": nil, "decoder_start_token_id": nil,
	// of beam search, which num_beams 1 turns off
	"num_beams": {nil, 1}, "num_beam_groups": {nil, 1}, "early_stopping": nil, "length_penalty": nil,
	"diversity_penalty": {nil, 0}, "constraints": {nil}, "force_words_ids": {nil}, "num_return_sequences": {nil, 1},
	// logits processors that do nothing at these values
	"min_length": {nil, 0}, "min_new_tokens": {nil, 0}, "max_time": {nil}, "stop_strings": {nil},
	"min_p": {nil, 0}, "top_h": {nil}, "typical_p": {nil, 1}, "epsilon_cutoff": {nil, 0}, "eta_cutoff": {nil, 0},
	"encoder_repetition_penalty": {nil, 1}, "no_repeat_ngram_size": {nil, 0}, "encoder_no_repeat_ngram_size": {nil, 0},
	"bad_words_ids": {nil}, "renormalize_logits": {nil, false}, "forced_bos_token_id": {nil},
	"forced_eos_token_id": {nil}, "remove_invalid_values": {nil, false}, "exponential_decay_length_penalty": {nil},
	"suppress_tokens": {nil}, "begin_suppress_tokens": {nil}, "forced_decoder_ids": {nil}, "sequence_bias": {nil},
	"token_healing": {nil, false}, "guidance_scale": {nil, 1}, "watermarking_config": {nil}, "penalty_alpha": {nil, 0},
	"dola_layers": {nil}, "use_mtp": {nil, false}, "assistant_ensemble_weight": {nil}, "speculation_type": {nil},
}

// readConfig reads generation_config.json of a checkpoint directory. Without that file, transformers' defaults and
// the end token of config.json apply. An unknown key that may change answers is an error that names it.
func readConfig(dir string) (*Config, error) {
	c := &Config{Temperature: 1, TopK: 50, TopP: 1, RepetitionPenalty: 1}
	path := filepath.Join(dir, "generation_config.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, c.readEnd(dir)
	} else if err != nil {
		return nil, err
	}
	o, err := strictjson.Parse(path, raw)
	if err != nil {
		return nil, err
	}
	o.Opt("do_sample", &c.Sample)
	o.Opt("temperature", &c.Temperature)
	o.Opt("top_k", &c.TopK)
	o.Opt("top_p", &c.TopP)
	o.Opt("repetition_penalty", &c.RepetitionPenalty)
	o.Opt("max_new_tokens", &c.MaxNewTokens)
	o.Opt("max_length", &c.MaxLength)
	c.End = endTokens(o)
	o.Close(configHarmless)
	if c.MaxNewTokens < 0 || c.MaxLength < 0 {
		o.Failf("max_new_tokens", "%d and max_length %d must be positive", c.MaxNewTokens, c.MaxLength)
	}
	if err := c.check(); err != nil {
		o.Failf("", "%w", err)
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// readEnd reads the end tokens from config.json, as transformers does for checkpoints without a
// generation_config.json.
func (c *Config) readEnd(dir string) error {
	path := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	o, err := strictjson.Parse(path, raw)
	if err != nil {
		return err
	}
	if c.End = endTokens(o); c.End == nil {
		if t := o.Sub("text_config"); t != nil {
			c.End = endTokens(t)
		}
	}
	return o.Err()
}

// endTokens reads eos_token_id, a number or a list.
func endTokens(o *strictjson.Object) (ids []int64) {
	var one int64
	switch raw := o.Raw("eos_token_id"); {
	case !o.Has("eos_token_id"):
	case json.Unmarshal(raw, &one) == nil:
		ids = []int64{one}
	default:
		o.Get("eos_token_id", &ids)
	}
	return ids
}

// with returns the configuration of one request, whose options override the checkpoint's. Temperature 0 is greedy,
// any other samples.
func (c *Config) with(o chat.Options) (*Config, error) {
	r := *c
	if o.Temperature != nil {
		if r.Sample = *o.Temperature != 0; r.Sample {
			r.Temperature = *o.Temperature
		}
	}
	if o.TopK != nil {
		r.TopK = *o.TopK
	}
	if o.TopP != nil {
		r.TopP = *o.TopP
	}
	if o.RepetitionPenalty != nil {
		r.RepetitionPenalty = *o.RepetitionPenalty
	}
	if o.MaxNewTokens < 0 {
		return nil, fmt.Errorf("max_new_tokens %d must be positive", o.MaxNewTokens)
	}
	if o.MaxNewTokens > 0 {
		r.MaxNewTokens, r.MaxLength = o.MaxNewTokens, 0
	}
	if slices.Contains(o.Stop, "") {
		return nil, errors.New("stop: an empty text would end every answer before it begins")
	}
	return &r, r.check()
}

// minDivisor is the smallest number that logits are divided by: a smaller one would make them infinite in float32.
const minDivisor = 1e-30

func (c *Config) check() error {
	divides := func(v float64) bool { return v >= minDivisor && v <= 1/minDivisor }
	switch {
	case !divides(c.Temperature):
		return fmt.Errorf("temperature %g must be between %g and %g, or 0 (greedy) in a request", c.Temperature, minDivisor,
			1/minDivisor)
	case c.TopK < 0:
		return fmt.Errorf("top_k %d must be positive, or 0 for all tokens", c.TopK)
	case !(c.TopP >= 0 && c.TopP <= 1):
		return fmt.Errorf("top_p %g must be between 0 and 1", c.TopP)
	case !divides(c.RepetitionPenalty):
		return fmt.Errorf("repetition_penalty %g must be between %g and %g; 1 turns it off", c.RepetitionPenalty, minDivisor,
			1/minDivisor)
	}
	return nil
}

// most returns the maximum number of tokens after a prompt of that length, in a context with that much room.
func (c *Config) most(prompt, room int) int { return min(c.wanted(prompt), room) }

// wanted is most without the limit of the context.
func (c *Config) wanted(prompt int) int {
	switch {
	case c.MaxNewTokens > 0:
		return c.MaxNewTokens
	case c.MaxLength > 0:
		return max(c.MaxLength-prompt, 1)
	}
	return DefaultMaxNewTokens
}
