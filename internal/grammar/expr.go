package grammar

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// expr is a non-empty language of bytes. The texts that may follow a byte are its derivative (Brzozowski, 1964),
// again a language. Equal keys mean equal languages, so a language has finitely many derivatives.
type expr interface {
	// done reports whether the empty text belongs to it.
	done() bool
	// least returns the number of bytes of its shortest text.
	least() int
	// after returns the derivative: the texts that may follow b; nil: none.
	after(b byte) expr
	// key identifies the language.
	key() string
}

// short returns a key, hashed if it is longer than 64 bytes.
func short(key string) string {
	if len(key) <= 64 {
		return key
	}
	return fmt.Sprintf("#%x", sha256.Sum256([]byte(key)))
}

// literal is one text.
type literal string

func (l literal) done() bool { return l == "" }
func (l literal) least() int { return len(l) }

func (l literal) after(b byte) expr {
	if l == "" || l[0] != b {
		return nil
	}
	return l[1:]
}

func (l literal) key() string {
	if len(l) > 64 {
		return short("'" + string(l))
	}
	return short(strconv.Quote(string(l)))
}

// set is any one byte of a set.
type set [4]uint64

// bytesOf returns the set of some ranges, given as the first and last byte of each.
func bytesOf(ranges ...byte) set {
	var s set
	for i := 0; i < len(ranges); i += 2 {
		for b := int(ranges[i]); b <= int(ranges[i+1]); b++ {
			s[b/64] |= 1 << (b % 64)
		}
	}
	return s
}

func (s set) has(b byte) bool { return s[b/64]>>(b%64)&1 != 0 }
func (s set) done() bool      { return false }
func (s set) least() int      { return 1 }

func (s set) after(b byte) expr {
	if !s.has(b) {
		return nil
	}
	return literal("")
}

func (s set) key() string { return fmt.Sprintf("[%x]", [4]uint64(s)) }

// sequence is the concatenation of two languages.
type sequence struct {
	first, rest expr
	name        string
	length      int
}

// then concatenates languages; nil has no text, so the result is nil if one of them is.
func then(parts ...expr) expr {
	if len(parts) == 1 {
		return parts[0]
	}
	first, rest := parts[0], then(parts[1:]...)
	switch {
	case first == nil || rest == nil:
		return nil
	case first == literal(""):
		return rest
	case rest == literal(""):
		return first
	}
	if f, ok := first.(*sequence); ok { // canonical form: the first is not a sequence
		return then(f.first, then(f.rest, rest))
	}
	return &sequence{first, rest, short("(" + first.key() + rest.key() + ")"), first.least() + rest.least()}
}

func (s *sequence) done() bool  { return s.first.done() && s.rest.done() }
func (s *sequence) least() int  { return s.length }
func (s *sequence) key() string { return s.name }

func (s *sequence) after(b byte) expr {
	var next expr
	if first := s.first.after(b); first != nil {
		next = then(first, s.rest)
	}
	if s.first.done() {
		next = either(next, s.rest.after(b))
	}
	return next
}

// choice is the union of at least two languages.
type choice struct {
	of   []expr // sorted by key
	name string
}

// either returns the union of languages; nil is the empty language.
func either(of ...expr) expr {
	var all []expr
	for _, e := range of {
		switch e := e.(type) {
		case nil:
		case *choice:
			all = append(all, e.of...)
		default:
			all = append(all, e)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	type keyed struct {
		expr
		key string
	}
	sorted := make([]keyed, len(all))
	for i, e := range all {
		sorted[i] = keyed{e, e.key()}
	}
	slices.SortFunc(sorted, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	sorted = slices.CompactFunc(sorted, func(a, b keyed) bool { return a.key == b.key })
	if len(sorted) == 1 {
		return sorted[0].expr
	}
	var name strings.Builder
	all = all[:0]
	for _, e := range sorted {
		all = append(all, e.expr)
		name.WriteString("|" + e.key)
	}
	return &choice{all, short(name.String())}
}

func (c *choice) done() bool { return slices.ContainsFunc(c.of, expr.done) }

func (c *choice) least() int {
	least := c.of[0].least()
	for _, e := range c.of {
		least = min(least, e.least())
	}
	return least
}

func (c *choice) after(b byte) expr {
	var next []expr
	for _, e := range c.of {
		next = append(next, e.after(b))
	}
	return either(next...)
}

func (c *choice) key() string { return c.name }

// repeat is the repetition of a language that lacks the empty text.
type repeat struct {
	of       expr
	from, to int // number of repetitions; to -1: no upper limit
}

func several(of expr, from, to int) expr {
	switch {
	case to == 0:
		return literal("")
	case from == 1 && to == 1:
		return of
	}
	return &repeat{of, from, to}
}

func (r *repeat) done() bool { return r.from == 0 }
func (r *repeat) least() int { return r.from * r.of.least() }

func (r *repeat) after(b byte) expr {
	next := r.of.after(b)
	if next == nil {
		return nil
	}
	to := r.to
	if to > 0 {
		to--
	}
	return then(next, several(r.of, max(r.from-1, 0), to))
}

func (r *repeat) key() string { return short(fmt.Sprintf("{%d,%d:%s}", r.from, r.to, r.of.key())) }

// optional is a text of a language, or the empty text.
func optional(e expr) expr { return several(e, 0, 1) }
