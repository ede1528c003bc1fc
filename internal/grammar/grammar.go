// Package grammar makes a model's answers follow a grammar: languages of bytes as automata, and for each of their
// states the tokens of a vocabulary that may come next. Special tokens never may; the tokens that end an answer may
// where the answer is complete.
package grammar

import (
	"encoding/json"
	"errors"
	"slices"
)

// Grammar is a language that an answer has to be of. It is immutable.
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

// Key names the language: equal keys mean equal languages.
func (g *Grammar) Key() string { return g.start.key() }

// MarshalText implements encoding.TextMarshaler: the text is the key.
func (g *Grammar) MarshalText() ([]byte, error) { return []byte(g.Key()), nil }

// Schema is the JSON schema that the grammar was made of; nil if it was made otherwise.
func (g *Grammar) Schema() json.RawMessage { return slices.Clone(g.schema) }

// Least is the number of bytes of the shortest text.
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
