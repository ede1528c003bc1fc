// Package grammar constrains a model's answers to a grammar (constrained decoding). A Grammar is a regular language of
// bytes, built from a JSON schema (FromSchema), from fixed texts (Choice) or from words that must occur (Within). It is
// an automaton whose states are Brzozowski derivatives.
//
// Masks combines a grammar with the Vocabulary of a tokenizer: for each state the tokens that may come next. A Walk
// follows one answer through the grammar and returns the mask of every step. Special tokens are never allowed; end
// tokens are allowed where the answer is complete.
package grammar

import (
	"encoding/json"
	"errors"
	"slices"
)

// Grammar is a language that an answer must belong to. It is immutable.
type Grammar struct {
	start  expr
	schema json.RawMessage
}

var errNothing = errors.New("the grammar allows no text")

func grammarOf(e expr) (*Grammar, error) {
	if e == nil {
		return nil, errNothing
	}
	return &Grammar{start: e}, nil
}

// Key identifies the language: equal keys mean equal languages.
func (g *Grammar) Key() string { return g.start.key() }

// MarshalText implements encoding.TextMarshaler: the text is the key.
func (g *Grammar) MarshalText() ([]byte, error) { return []byte(g.Key()), nil }

// Schema returns the JSON schema that the grammar was built from; nil if it was built otherwise.
func (g *Grammar) Schema() json.RawMessage { return slices.Clone(g.schema) }

// Least returns the number of bytes of the shortest text.
func (g *Grammar) Least() int { return g.start.least() }

// Has reports whether a text belongs to the language.
func (g *Grammar) Has(text string) bool {
	e := g.start
	for i := range len(text) {
		if e = e.after(text[i]); e == nil {
			return false
		}
	}
	return e.done()
}
