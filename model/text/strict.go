package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/strictjson"
)

// configHarmless are keys of tokenizer_config.json that change no token, or not at the values listed.
var configHarmless = strictjson.Harmless{
	"auto_map":             {nil},
	"add_prefix_space":     {nil, false},
	"split_special_tokens": {false},
}.AnyValue(
	// names
	"tokenizer_class", "tokenizer_type", "processor_class", "backend", "name_or_path", "is_local", "local_files_only",
	"special_tokens_map_file", "trust_remote_code", "tokenizer_file", "vocab_file", "model_input_names", "from_slow",
	"use_fast",
	// how SentencePiece files are converted to a tokenizer.json, which already exists
	"legacy", "sp_model_kwargs",
	// decoding
	"clean_up_tokenization_spaces", "errors", "spaces_between_special_tokens",
	// batching and callers
	"padding_side", "truncation_side", "padding", "truncation", "max_length", "model_max_length", "stride",
	"truncation_strategy", "pad_to_multiple_of", "pad_token_type_id", "return_token_type_ids",
	// templates (read by findTemplate): the default of old Llama versions, the schema of answers
	"chat_template", "use_default_system_prompt", "response_schema",
)

// checkConfig checks tokenizer_config.json against tokenizer.json, which defines all tokens here: transformers would
// add tokens that only tokenizer_config.json names, and change the flags of others.
func (t *tokenizer) checkConfig(dir string) error {
	path := filepath.Join(dir, "tokenizer_config.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	o, err := strictjson.Parse(path, raw)
	if err != nil {
		return err
	}
	byID := map[string]addedToken{}
	o.Opt("added_tokens_decoder", &byID)
	for id, want := range byID {
		if got, ok := t.added[want.Content]; !ok || fmt.Sprint(got.ID) != id || got.flags() != want.flags() {
			o.Failf("added_tokens_decoder", "token %s, %q, differs from tokenizer.json's added_tokens", id, want.Content)
		}
	}
	known := func(key, content string) {
		if _, ok := t.added[content]; !ok && content != "" {
			o.Failf(key, "%q is not among tokenizer.json's added_tokens", content)
		}
	}
	for _, key := range []string{"additional_special_tokens", "extra_special_tokens"} {
		for _, content := range contents(o.Raw(key)) {
			known(key, content)
		}
	}
	for _, key := range []string{
		"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
		"image_token", "boi_token", "eoi_token", "video_token", "vision_bos_token", "vision_eos_token",
	} {
		for _, content := range contents(o.Raw(key)) {
			known(key, content)
		}
	}
	t.checkEnds(o)
	o.Close(configHarmless)
	return o.Err()
}

// flags are the fields that decide how a token is matched.
func (a addedToken) flags() [5]bool {
	return [5]bool{a.SingleWord, a.LStrip, a.RStrip, a.Normalized, a.Special}
}

// contents returns the tokens of a string, an object with "content", or a list or an object of these; none for null.
func contents(raw json.RawMessage) []string {
	var one string
	var object struct{ Content *string }
	var list []json.RawMessage
	var named map[string]json.RawMessage
	switch {
	case raw == nil:
		return nil
	case json.Unmarshal(raw, &one) == nil:
		return []string{one}
	case json.Unmarshal(raw, &object) == nil && object.Content != nil:
		return []string{*object.Content}
	case json.Unmarshal(raw, &list) != nil && json.Unmarshal(raw, &named) == nil:
		for _, entry := range named {
			list = append(list, entry)
		}
	}
	var all []string
	for _, entry := range list {
		all = append(all, contents(entry)...)
	}
	return all
}

// checkEnds compares add_bos_token and add_eos_token with what tokenizer.json puts around a text.
func (t *tokenizer) checkEnds(o *strictjson.Object) {
	const text = "x"
	around, err := t.handle.Encode(text, true)
	plain, second := t.handle.Encode(text, false)
	if err != nil || second != nil {
		return // Encode will report it
	}
	for key, token := range map[string]string{"add_bos_token": "bos_token", "add_eos_token": "eos_token"} {
		var add *bool
		if o.Opt(key, &add); add == nil {
			continue
		}
		id, err := t.ID(t.variables[token])
		at := 0
		if key == "add_eos_token" {
			at = len(around) - 1
		}
		has := t.variables[token] != "" && err == nil && len(around) > len(plain) && around[at] == id
		if has != *add {
			o.Failf(key, "%v, but tokenizer.json's post_processor does %s the %s", *add,
				map[bool]string{true: "add", false: "not add"}[has], strings.TrimSuffix(token, "_token"))
		}
	}
}
