package generate

import (
	"context"
	"errors"

	"assay/model/language"
)

// slot is a slot of the KV cache. After an answer its keys and values stay, for prompts that share the prefix.
type slot struct {
	prompt  *language.Prompt // whose rows it holds; nil: none
	rows    int              // rows of prompt and answer in the cache
	request *request         // nil: the slot is idle
	used    int              // when a request last entered, by slots.clock
	ended   bool             // the answer is complete
	err     error            // the answer failed
}

// slots manages the slots of a cache. The first active of them have requests, and the graph runs only over these.
type slots struct {
	lm     *language.Model
	o      Options
	cache  *language.Cache // nil: not allocated yet
	all    []slot
	active int
	clock  int
	broken error // why the contents of the cache are invalid; nil: they are valid
}

func (s *slots) close() error {
	if s.cache == nil {
		return nil
	}
	return s.cache.Close()
}

// rounded rounds a number of rows up to the granularity of the cache, so that similar requests can share a cache and
// there is room for padding.
func rounded(rows int) int { return rows/64*64 + 64 }

// room reports whether a request can enter, and resizes the cache if that makes room for it or for more requests.
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

// resize changes the shape of the cache. Slots that fit keep their contents; active slots always fit.
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

// reset ends all answers and discards an invalid cache. The next request gets a new one.
func (s *slots) reset() error {
	s.fail(0, s.broken)
	err := s.close()
	s.cache, s.all, s.broken = nil, nil, nil
	return err
}

// check records that rows could not be moved: nothing may be computed from them.
func (s *slots) check(err error) {
	if err != nil {
		s.broken = err
	}
}

// minShared is the length in tokens from which a shared prefix is reused even if it is less than half of the prompt.
const minShared = 32

// source finds the slot with the longest prefix of a prompt in the cache. The prompt's last token is always computed,
// because its logits are needed. Answers are not shared: rows computed one at a time are not bit-identical to rows
// computed together.
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

// sharesWith reports whether a prompt shares a prefix with a prompt in the slots starting at from, which are not in
// the cache yet, and a longer one than with any prompt in the cache.
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

// enter gives a request the next slot, with the cached prefix of its prompt.
func (s *slots) enter(r *request) {
	source, shared := s.source(r.prompt)
	n := s.active
	switch {
	case source >= n: // idle: the request continues in that slot
		s.swap(source, n)
	default:
		if old := s.oldest(n); old != n { // keep the next slot's contents in the oldest slot
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

// oldest returns the idle slot that was entered longest ago.
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

// sweep delivers the answers that are complete or failed. Their slots become idle.
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

// drop ends the answers whose context has ended.
func (s *slots) drop() {
	for i := range s.active {
		if at := &s.all[i]; at.request.ctx.Err() != nil {
			at.err = context.Cause(at.request.ctx)
		}
	}
	s.sweep()
}

// fail ends all answers in the slots starting at from, and discards the contents of these slots, which are undefined.
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
