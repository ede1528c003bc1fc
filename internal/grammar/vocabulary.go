package grammar

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Vocabulary holds the tokens of a model as bytes, in a prefix tree. It is immutable.
type Vocabulary struct {
	bytes  [][]byte
	nodes  []node  // depth first
	tokens []int32 // ids, sorted by their bytes
}

// node is a prefix of tokens, one byte longer than its parent's.
type node struct {
	b        byte
	behind   int32 // the first node after this one's subtree
	from, to int32 // tokens that end here
}

// NewVocabulary takes the bytes of every token by id; nil: the token has no text (a special token), so no text
// contains it. Every byte that a text may contain must also be a token: otherwise an answer could get stuck.
func NewVocabulary(tokens [][]byte) (*Vocabulary, error) {
	v := &Vocabulary{bytes: tokens}
	var single [256]bool
	for id, t := range tokens {
		if len(t) > 0 {
			v.tokens = append(v.tokens, int32(id))
		}
		if len(t) == 1 {
			single[t[0]] = true
		}
	}
	for b, is := range single {
		if used := b == '\n' || b >= ' ' && b < 0xC0 || b >= 0xC2 && b <= 0xF4; used && !is {
			return nil, fmt.Errorf("the tokenizer has no token for the single byte 0x%02X, so an answer that follows a grammar "+
				"might get stuck", b)
		}
	}
	slices.SortFunc(v.tokens, func(a, b int32) int {
		return cmp.Or(bytes.Compare(tokens[a], tokens[b]), cmp.Compare(a, b))
	})
	v.grow(0, len(v.tokens), 0)
	return v, nil
}

// grow adds nodes for tokens that are equal up to a depth.
func (v *Vocabulary) grow(from, to, depth int) {
	for from < to && len(v.bytes[v.tokens[from]]) == depth {
		from++ // they end at the node above
	}
	for from < to {
		b, next := v.bytes[v.tokens[from]][depth], from
		for next < to && v.bytes[v.tokens[next]][depth] == b {
			next++
		}
		at, ends := len(v.nodes), from
		for ends < next && len(v.bytes[v.tokens[ends]]) == depth+1 {
			ends++
		}
		v.nodes = append(v.nodes, node{b: b, from: int32(from), to: int32(ends)})
		v.grow(from, next, depth+1)
		v.nodes[at].behind = int32(len(v.nodes))
		from = next
	}
}

// Size is the number of ids.
func (v *Vocabulary) Size() int { return len(v.bytes) }
