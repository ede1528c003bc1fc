package generate

import (
	"context"
	"errors"

	"assay/model/language"
)

// slot is a place of the cache. Behind an answer its keys and values stay, for prompts that begin likewise.
type slot struct {
	prompt  *language.Prompt // whose rows are there; nil: none
	rows    int              // rows of the prompt and its answer that are in the cache
	request *request         // nil: the slot is idle
	used    int              // when it was entered last
	ended   bool             // the answer is complete
	err     error            // or failed
}

// slots share out a cache: the first ones, active of them, have requests, and the graph runs over these alone.
type slots struct {
	lm     *language.Model
	o      Options
	cache  *language.Cache // nil: not made yet
	all    []slot
	active int
	clock  int
	broken error // why the cache does not hold what it should; nil: it does
}

func (s *slots) close() error {
	if s.cache == nil {
		return nil
	}
	return s.cache.Close()
}

// rounded is a number of rows as the cache is cut: similar requests need no other cache, and an odd stretch is filled
// up.
func rounded(rows int) int { return rows/64*64 + 64 }

// room reports whether a request can enter, and makes another cache where that lets it in, or lets more in.
func (s *slots) room(r *request) (bool, error) {
	need := rounded(r.rows())
	if s.cache != nil && need <= s.cache.Capacity() && s.active < s.cache.Slots() {
		return true, nil
	}
	for i := range s.active {
		need = max(need, rounded(s.all[i].request.rows()))
	}
	n := min(s.o.Batch, int(s.o.Cache/(int64(need)*s.lm.RowBytes())))
	if n <= s.active {
		return false, nil
	}
	return true, s.resize(n, need)
}

// resize gives the cache another shape. What fits stays: all that is active does.
func (s *slots) resize(n, capacity int) (err error) {
	all := make([]slot, n)
	var kept []language.Kept
	for i, old := range s.all {
		if len(kept) < n && old.prompt != nil && old.rows <= capacity {
			all[len(kept)] = old
			kept = append(kept, language.Kept{Slot: i, Rows: old.rows})
		}
	}
	if s.cache == nil {
		s.cache, err = s.lm.NewCache(n, capacity)
	} else {
		err = s.cache.Resize(n, capacity, kept)
	}
	if err != nil {
		s.broken = err
		return errors.Join(err, s.reset())
	}
	s.all = all
	return nil
}

// reset ends all answers and gives up a cache that cannot be relied on any more. The next request gets another one.
func (s *slots) reset() error {
	s.fail(0, s.broken)
	err := s.close()
	s.cache, s.all, s.broken = nil, nil, nil
	return err
}

// check remembers that rows could not be moved: nothing may be computed from them.
func (s *slots) check(err error) {
	if err != nil {
		s.broken = err
	}
}

// minShared is the number of tokens from which a shared beginning is not computed again.
const minShared = 32

// source finds the slot that has most of a prompt's beginning in the cache. The prompt's last token is always
// computed: its logits are wanted. Answers are not shared: rows that came one at a time are not, to the last bit, those
// that come together.
func (s *slots) source(p *language.Prompt) (best, shared int) {
	best = -1
	for i, at := range s.all {
		if at.prompt == nil {
			continue
		}
		if n := min(at.prompt.Shared(p), at.prompt.Begin(), at.rows, len(p.IDs)-1); n > shared {
			best, shared = i, n
		}
	}
	if shared < minShared && 2*shared < len(p.IDs) {
		return -1, 0
	}
	return best, shared
}

// sharesWith reports whether a prompt begins like one of those from a slot on that are not in the cache yet, and with
// more than is there already.
func (s *slots) sharesWith(p *language.Prompt, from int) bool {
	_, known := s.source(p)
	for i := from; i < s.active; i++ {
		n := s.all[i].prompt.Shared(p)
		if n > known && (n >= minShared || 2*n >= len(p.IDs)) {
			return true
		}
	}
	return false
}

// enter gives a request the next slot, with what is known of the beginning of its prompt.
func (s *slots) enter(r *request) {
	source, shared := s.source(r.prompt)
	n := s.active
	switch {
	case source >= n: // idle: the request goes on in its place
		s.swap(source, n)
	default:
		if old := s.oldest(n); old != n { // what is in the next slot stays in its place
			s.check(s.cache.Copy(old, n, s.all[n].rows))
			s.all[old] = s.all[n]
		}
		if source >= 0 {
			s.check(s.cache.Copy(n, source, shared))
		}
	}
	s.clock++
	s.all[n] = slot{prompt: r.prompt, rows: shared, request: r, used: s.clock}
	s.active++
	r.answer.Usage.Cached = shared
}

// oldest is the idle slot that was entered longest ago.
func (s *slots) oldest(from int) int {
	best := from
	for i := from; i < len(s.all); i++ {
		if s.all[i].used < s.all[best].used {
			best = i
		}
	}
	return best
}

// swap exchanges two slots.
func (s *slots) swap(a, b int) {
	s.check(s.cache.Swap(a, b, max(s.all[a].rows, s.all[b].rows)))
	s.all[a], s.all[b] = s.all[b], s.all[a]
}

// sweep hands over the answers that are complete or failed. Their slots become idle.
func (s *slots) sweep() {
	for i := s.active - 1; i >= 0; i-- {
		at := &s.all[i]
		if !at.ended && at.err == nil {
			continue
		}
		at.request.finish(at.err)
		at.request, at.ended, at.err = nil, false, nil
		s.active--
		s.swap(i, s.active)
	}
}

// drop ends the answers that nobody waits for any more.
func (s *slots) drop() {
	for i := range s.active {
		if at := &s.all[i]; at.request.ctx.Err() != nil {
			at.err = context.Cause(at.request.ctx)
		}
	}
	s.sweep()
}

// fail ends all answers from a slot on, and discards the contents of their slots, which are undefined.
func (s *slots) fail(from int, err error) {
	for i := from; i < s.active; i++ {
		s.all[i].err = err
	}
	s.sweep()
	for i := s.active; i < len(s.all); i++ {
		if s.all[i].request == nil && i >= from {
			s.all[i].prompt, s.all[i].rows = nil, 0
		}
	}
}
