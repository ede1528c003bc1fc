package grammar

import (
	"errors"
	"math"
	"sync"
)

// Masks holds the states of a grammar seen so far, each with the tokens that may come next. A state's mask is
// computed when it is first needed, which takes milliseconds over a large vocabulary, and cached. It is safe for
// concurrent use.
type Masks struct {
	vocabulary *Vocabulary
	start      expr

	mu    sync.Mutex
	known map[string]*state
	bytes int // of the cached masks
}

// state is a state of the grammar.
type state struct {
	expr
	need   int         // bytes of the shortest end
	next   [256]*state // nil: not computed yet
	tokens *Mask       // nil: not computed yet
}

// nowhere is the state that disallowed bytes lead to.
var nowhere = &state{}

// Mask is the set of tokens that may come next.
type Mask struct {
	bits []uint64
	most int // the largest number of bytes needed to complete an answer after one of the tokens
	any  bool
}

// Has reports whether a token may come.
func (m *Mask) Has(id int) bool { return m.bits[id/64]>>(id%64)&1 != 0 }

// Forbid sets the scores of all tokens that may not come to -inf.
func (m *Mask) Forbid(scores []float32) {
	never := float32(math.Inf(-1))
	for i, word := range m.bits {
		if word == ^uint64(0) {
			continue
		}
		for id := 64 * i; id < min(64*i+64, len(scores)); id++ {
			if word>>(id%64)&1 == 0 {
				scores[id] = never
			}
		}
	}
}

// maxMaskBytes and maxStates limit the cache: beyond them it is emptied and refilled as needed.
const (
	maxMaskBytes = 64 << 20
	maxStates    = 1 << 14
)

// NewMasks returns the masks of a grammar over a vocabulary. If the decoder strips a leading space (trims), a text
// may start with one.
func NewMasks(g *Grammar, v *Vocabulary, trims bool) *Masks {
	m := &Masks{vocabulary: v, start: g.start, known: map[string]*state{}}
	if trims {
		m.start = either(g.start, then(literal(" "), g.start))
	}
	return m
}

// Walk is the state of one answer in a grammar.
type Walk struct {
	masks *Masks
	at    *state
}

// Begin returns the walk of an answer without tokens.
func (m *Masks) Begin() *Walk {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Walk{m, m.state(m.start)}
}

// state returns the state of a language. m.mu is held.
func (m *Masks) state(e expr) *state {
	key := e.key()
	if s, ok := m.known[key]; ok {
		return s
	}
	if len(m.known) >= maxStates { // running answers keep their own states
		m.known, m.bytes = map[string]*state{}, 0
	}
	s := &state{expr: e, need: e.least()}
	m.known[key] = s
	return s
}

// step returns the state that a byte leads to. m.mu is held.
func (m *Masks) step(s *state, b byte) *state {
	if s == nowhere {
		return s
	}
	if s.next[b] == nil {
		s.next[b] = nowhere
		if e := s.after(b); e != nil {
			s.next[b] = m.state(e)
		}
	}
	return s.next[b]
}

// Mask returns the tokens that may come next if at most room tokens are left, including the end token. The answer can
// always be completed within that many.
func (w *Walk) Mask(room int) (*Mask, error) {
	m := w.masks
	m.mu.Lock()
	defer m.mu.Unlock()
	mask := w.at.tokens
	if mask == nil {
		mask = m.fill(w.at, -1)
		w.at.tokens = mask
		if m.bytes += 8 * len(mask.bits); m.bytes > maxMaskBytes {
			m.known, m.bytes = map[string]*state{}, 0
		}
	}
	if mask.most+2 > room { // some tokens might leave too little room to complete the answer
		mask = m.fill(w.at, room)
	}
	if !mask.any && !w.at.done() {
		return nil, errors.New("no token of the vocabulary can continue the grammar")
	}
	return mask, nil
}

// fill computes the mask of a state; room -1: no limit.
func (m *Masks) fill(s *state, room int) *Mask {
	mask := &Mask{bits: make([]uint64, (m.vocabulary.Size()+63)/64)}
	m.descend(mask, 0, int32(len(m.vocabulary.nodes)), s, room)
	return mask
}

// descend walks the prefix tree of the vocabulary as far as the grammar allows.
func (m *Masks) descend(mask *Mask, from, to int32, s *state, room int) {
	v := m.vocabulary
	for i := from; i < to; i = v.nodes[i].behind {
		n := &v.nodes[i]
		next := m.step(s, n.b)
		if next == nowhere {
			continue
		}
		if n.from < n.to && (room < 0 || next.need+2 <= room) {
			for _, id := range v.tokens[n.from:n.to] {
				mask.bits[id/64] |= 1 << (id % 64)
			}
			mask.most, mask.any = max(mask.most, next.need), true
		}
		m.descend(mask, i+1, n.behind, next, room)
	}
}

// Ends reports whether the answer is complete after a token, which may have no text.
func (w *Walk) Ends(id int64) bool {
	next := w.after(id)
	return next != nowhere && next.done()
}

// Take adds a token that the mask allows or that has no text.
func (w *Walk) Take(id int64) error {
	next := w.after(id)
	if next == nowhere {
		return errors.New("a token was chosen that does not follow the grammar")
	}
	w.at = next
	return nil
}

func (w *Walk) after(id int64) *state {
	m := w.masks
	m.mu.Lock()
	defer m.mu.Unlock()
	s := w.at
	for _, b := range m.vocabulary.bytes[id] {
		s = m.step(s, b)
	}
	return s
}
