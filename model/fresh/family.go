package fresh

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Families of checkpoints by their model_type.
const (
	LlavaNext = "llava_next"
	Qwen2VL   = "qwen2_vl"
	Qwen25VL  = "qwen2_5_vl"
	Qwen3VL   = "qwen3_vl"
)

// family is the tokenizer, the configuration and the sizes of one architecture's checkpoints; their tensors are defined
// in package model.
type family struct {
	words     string   // regular expression that cuts text into words
	special   []string // tokens after those of the BPE
	added     []string // tokens after the special ones, which are kept when ids are decoded
	begin     string   // token in front of every text; "": none
	end       string   // of a turn
	padding   string
	nfc       bool   // text is normalised first
	whole     bool   // words that are tokens are not merged piece by piece
	processor string // class that joins tokenizer and image processor
	template  string // of chats, Jinja
	image     string // name of the token of a picture in tokenizer_config.json; "": none

	defaults func(s *Sizes)                                 // sets the sizes that only this family has
	check    func(s Sizes, want wanted)                     // checks them
	files    func(s Sizes, v *vocabulary) map[string]object // config.json and the processors' files
	generate object                                         // sampling settings of published checkpoints; nil: none
}

// wanted records a problem with the size named key unless ok.
type wanted func(ok bool, key, format string, args ...any)

var families = map[string]*family{
	LlavaNext: &llavaNext,
	Qwen2VL:   &qwen2VL,
	Qwen25VL:  &qwen25VL,
	Qwen3VL:   &qwen3VL,
}

// Families returns the names of all families, sorted.
func Families() []string { return slices.Sorted(maps.Keys(families)) }

func familyOf(name string) (*family, error) {
	f := families[name]
	if f == nil {
		return nil, SizeError{"family", fmt.Sprintf("%q is not known; %s are", name, strings.Join(Families(), ", "))}
	}
	return f, nil
}

// vocabulary is a BPE with a family's special tokens, and the number of rows of the embedding table.
type vocabulary struct {
	*bpe
	*family
	rows int
}

// rowMultiple is what the rows of the embedding table are rounded up to, so that matrix products have even sizes.
const rowMultiple = 64

// train learns a vocabulary of at most size tokens, special ones included, from documents.
func (f *family) train(documents []string, size int) (*vocabulary, error) {
	if f.nfc {
		documents = slices.Clone(documents)
		for i := range documents {
			documents[i] = norm.NFC.String(documents[i])
		}
	}
	b, err := trainBPE(documents, f.words, "", size-len(f.special)-len(f.added))
	if err != nil {
		return nil, err
	}
	v := &vocabulary{bpe: b, family: f}
	v.rows = (v.size() + rowMultiple - 1) / rowMultiple * rowMultiple
	return v, nil
}

// id returns the id of a special token.
func (v *vocabulary) id(special string) int { return len(v.Tokens) + slices.Index(v.special, special) }

// size is the number of all tokens.
func (v *vocabulary) size() int { return len(v.Tokens) + len(v.special) + len(v.added) }

// object is a JSON object; its keys are written sorted.
type object = map[string]any

// CLIP's colours, which the older families use.
var (
	colourMean = []float64{0.48145466, 0.4578275, 0.40821073}
	colourStd  = []float64{0.26862954, 0.26130258, 0.27577711}
)

// initializerRange is the config value for weights that a library adds later; Init does not use it.
const initializerRange = decimal(0.02)

// textConfig is the part of text_config that the families have in common.
func (s Sizes) textConfig(v *vocabulary, kind string, eps float64) object {
	return object{
		"model_type":              kind,
		"hidden_act":              "silu",
		"hidden_size":             s.Hidden,
		"intermediate_size":       s.Intermediate,
		"num_hidden_layers":       s.Layers,
		"num_attention_heads":     s.Heads,
		"num_key_value_heads":     s.KVHeads,
		"vocab_size":              v.rows,
		"max_position_embeddings": s.Context,
		"rms_norm_eps":            decimal(eps),
		"use_cache":               true,
		"attention_dropout":       decimal(0),
		"tie_word_embeddings":     false,
		"initializer_range":       initializerRange,
	}
}
