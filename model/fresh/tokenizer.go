package fresh

import (
	_ "embed"
	"fmt"
)

//go:embed chat_template.jinja
var chatTemplate string

// The special tokens, Llama 3's and two of LLaVA's; their ids follow those of the BPE.
const (
	beginOfText = "<|begin_of_text|>"
	endOfTurn   = "<|eot_id|>"
	picture     = "<image>"
	padding     = "<pad>"
)

var specialTokens = []string{beginOfText, "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", endOfTurn, picture, padding}

// object is a JSON object; its keys are written sorted.
type object = map[string]any

// id returns the id of a special token.
func (b *BPE) id(special string) int {
	for i, s := range specialTokens {
		if s == special {
			return len(b.Tokens) + i
		}
	}
	panic(fmt.Sprintf("fresh: %s is no special token", special))
}

// tokenizerJSON is the tokenizer as the tokenizers library saves it: no normaliser; Llama 3's words, then bytes; whole
// words that are tokens are not merged piece by piece; <|begin_of_text|> in front.
func (b *BPE) tokenizerJSON() object {
	vocab := make(map[string]int, len(b.Tokens))
	for id, token := range b.Tokens {
		vocab[token] = id
	}
	added := make([]object, len(specialTokens))
	for i, token := range specialTokens {
		added[i] = object{"id": b.id(token), "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
	}
	byteLevel := func(prefix, trim, regex bool) object {
		return object{"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex}
	}
	bos := func(kind int) object { return object{"SpecialToken": object{"id": beginOfText, "type_id": kind}} }
	text := func(name string, kind int) object { return object{"Sequence": object{"id": name, "type_id": kind}} }
	return object{
		"version":      "1.0",
		"truncation":   nil,
		"padding":      nil,
		"added_tokens": added,
		"normalizer":   nil,
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": Pattern}, "behavior": "Isolated", "invert": false},
			byteLevel(false, true, false),
		}},
		"post_processor": object{"type": "Sequence", "processors": []object{
			byteLevel(true, false, true),
			{
				"type":           "TemplateProcessing",
				"single":         []object{bos(0), text("A", 0)},
				"pair":           []object{bos(0), text("A", 0), bos(1), text("B", 1)},
				"special_tokens": object{beginOfText: object{"id": beginOfText, "ids": []int{b.id(beginOfText)}, "tokens": []string{beginOfText}}},
			},
		}},
		"decoder": byteLevel(true, true, true),
		"model": object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": true, "vocab": vocab, "merges": b.merges(),
		},
	}
}

// merges returns the merges, an empty list rather than null if there are none.
func (b *BPE) merges() [][2]string { return append([][2]string{}, b.Merges...) }

// tokenizerConfigJSON is what transformers wants to know besides.
func tokenizerConfigJSON(maxLength int) object {
	return object{
		"backend": "tokenizers", "tokenizer_class": "TokenizersBackend", "processor_class": "LlavaNextProcessor",
		"bos_token": beginOfText, "eos_token": endOfTurn, "pad_token": padding, "image_token": picture,
		"extra_special_tokens": []string{}, "clean_up_tokenization_spaces": false, "model_max_length": maxLength,
	}
}
