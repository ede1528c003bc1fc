package fresh

import "slices"

// tokenizerJSON is the tokenizer as the tokenizers library saves it: the family's words, then bytes.
func (v *vocabulary) tokenizerJSON() object {
	vocab := make(map[string]int, len(v.Tokens))
	for id, token := range v.Tokens {
		vocab[token] = id
	}
	added := make([]object, len(v.special)+len(v.added))
	for i, token := range slices.Concat(v.special, v.added) {
		added[i] = object{
			"id":          len(v.Tokens) + i,
			"content":     token,
			"single_word": false,
			"lstrip":      false,
			"rstrip":      false,
			"normalized":  false,
			"special":     i < len(v.special),
		}
	}
	var normalizer object
	if v.nfc {
		normalizer = object{"type": "NFC"}
	}
	return object{
		"version":      "1.0",
		"truncation":   nil,
		"padding":      nil,
		"added_tokens": added,
		"normalizer":   normalizer,
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": v.words}, "behavior": "Isolated", "invert": false},
			byteLevel(false, true, false),
		}},
		"post_processor": v.postProcessor(),
		"decoder":        byteLevel(true, true, true),
		"model": object{
			"type":                      "BPE",
			"dropout":                   nil,
			"unk_token":                 nil,
			"continuing_subword_prefix": nil,
			"end_of_word_suffix":        nil,
			"fuse_unk":                  false,
			"byte_fallback":             false,
			"ignore_merges":             v.whole,
			"vocab":                     vocab,
			"merges":                    v.merges(),
		},
	}
}

// byteLevel is the step that converts text to bytes, or bytes to text.
func byteLevel(prefix, trim, regex bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex}
}

// postProcessor puts the family's beginning-of-text token, if it has one, before a text and before each text of a pair.
func (v *vocabulary) postProcessor() object {
	post := byteLevel(true, false, true)
	if v.begin == "" {
		return post
	}
	bos := func(kind int) object { return object{"SpecialToken": object{"id": v.begin, "type_id": kind}} }
	text := func(name string, kind int) object { return object{"Sequence": object{"id": name, "type_id": kind}} }
	return object{"type": "Sequence", "processors": []object{post, {
		"type":           "TemplateProcessing",
		"single":         []object{bos(0), text("A", 0)},
		"pair":           []object{bos(0), text("A", 0), bos(1), text("B", 1)},
		"special_tokens": object{v.begin: object{"id": v.begin, "ids": []int{v.id(v.begin)}, "tokens": []string{v.begin}}},
	}}}
}

// merges returns the merges, an empty list rather than null if there are none.
func (b *bpe) merges() [][2]string { return append([][2]string{}, b.Merges...) }

// tokenizerConfigJSON is tokenizer_config.json, which transformers also reads.
func (v *vocabulary) tokenizerConfigJSON(maxLength int) object {
	o := object{
		"backend":                      "tokenizers",
		"tokenizer_class":              "TokenizersBackend",
		"processor_class":              v.processor,
		"eos_token":                    v.end,
		"pad_token":                    v.padding,
		"clean_up_tokenization_spaces": false,
		"model_max_length":             maxLength,
	}
	if v.begin != "" {
		o["bos_token"] = v.begin
	}
	if v.image != "" {
		o["image_token"], o["extra_special_tokens"] = v.image, []string{}
	}
	return o
}
