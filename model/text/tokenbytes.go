package text

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// TokenBytes returns the bytes that each id adds to a text, nil for special tokens and ids without a token. trims
// reports whether the decoder strips one leading blank from a text. It is an error if the decoder does more than
// concatenate bytes.
func (p *Processor) TokenBytes() (tokens [][]byte, trims bool, err error) {
	d, err := p.decoder()
	if err != nil {
		return nil, false, err
	}
	spell, trims, err := speller(d.raw)
	if err != nil {
		return nil, false, fmt.Errorf("tokenizer.json: decoder: %w", err)
	}
	tokens = make([][]byte, len(d.contents))
	for id, content := range d.contents {
		if d.known[id] && !d.special[int64(id)] {
			tokens[id] = spell(content)
		}
	}
	return tokens, trims, nil
}

// speller reads how a decoder turns a single token into bytes.
func speller(raw json.RawMessage) (spell func(token string) []byte, trims bool, err error) {
	var c struct {
		Type     string
		Decoders []json.RawMessage
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, false, err
	}
	parts := []json.RawMessage{raw}
	if c.Type == "Sequence" {
		parts = c.Decoders
	}
	type part struct {
		Type    string
		Pattern struct{ String string }
		Content string
		Start   int
		Stop    int
	}
	var all []part
	var types []string
	for _, raw := range parts {
		var p part
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, false, err
		}
		all, types = append(all, p), append(types, p.Type)
	}
	if slices.Equal(types, []string{"ByteLevel"}) {
		return bytesOf, false, nil
	}
	if len(types) == 4 {
		if types[3] == "Strip" {
			types, trims = types[:3], true
			strip := all[3]
			if strip.Content != " " || strip.Start != 1 || strip.Stop != 0 {
				return nil, false, fmt.Errorf("decoder Strip of %d and %d times %q: only one leading blank is supported",
					strip.Start, strip.Stop, strip.Content)
			}
		}
	}
	if !slices.Equal(types, []string{"Replace", "ByteFallback", "Fuse"}) {
		return nil, false, fmt.Errorf("%s: answers that follow a grammar need ByteLevel, or Replace, ByteFallback and Fuse",
			strings.Join(types, ", "))
	}
	from, to := all[0].Pattern.String, all[0].Content
	return func(token string) []byte {
		token = strings.ReplaceAll(token, from, to)
		if b, ok := fallback(token); ok {
			return []byte{b}
		}
		return []byte(token)
	}, trims, nil
}
