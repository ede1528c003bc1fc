package generate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"assay/chat"
	"assay/internal/workers"
	"assay/model/exec"
	"assay/model/language"
)

// engine generates many answers at a time: one run of the graph computes the next token of every answer. A finished
// answer leaves the batch, and the next request enters (continuous batching).
type engine struct {
	lm *language.Model
	o  Options

	mu     sync.Mutex
	queue  []*request
	closed bool
	wake   chan struct{} // non-empty if there is a request
	ended  chan struct{} // closed when the loop has ended

	ctx    context.Context // ends with the engine
	cancel context.CancelFunc
	slots  *slots // used only by the loop
}

var errClosed = errors.New("the model is closed")

func newEngine(lm *language.Model, o Options) *engine {
	e := &engine{lm: lm, o: o, wake: make(chan struct{}, 1), ended: make(chan struct{}), slots: &slots{lm: lm, o: o}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.loop()
	return e
}

// close ends the loop. Pending requests get an error.
func (e *engine) close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	<-e.ended
	if !first {
		return nil
	}
	return e.slots.close()
}

// fits refuses a request that is larger than the full cache.
func (e *engine) fits(r *request) error {
	if need := int64(rounded(r.rows())) * e.lm.RowBytes(); need > e.o.Cache {
		return fmt.Errorf("a prompt of %d tokens and an answer of up to %d need %.3g MB of keys and values, the cache has "+
			"%.3g: shorten them, or allow a larger cache", r.prompt.Begin(), r.most, float64(need)/(1<<20),
			float64(e.o.Cache)/(1<<20))
	}
	return nil
}

// do queues a request and waits for its answer. Pieces are delivered on the caller's goroutine, so that a slow
// consumer does not delay other requests.
func (e *engine) do(r *request) (*chat.Answer, error) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	r.ctx = ctx
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, errClosed
	}
	e.queue = append(e.queue, r)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
	for text := range r.pieces { // closed at the end
		if ctx.Err() == nil {
			if err := r.piece(text); err != nil {
				cancel(err)
			}
		}
	}
	if err := <-r.done; err != nil {
		if unopened := new(exec.OpenError); errors.As(err, &unopened) { // so would every other request
			err = fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
		}
		return nil, err
	}
	return &r.answer, context.Cause(ctx)
}

func (e *engine) loop() {
	defer close(e.ended)
	for e.ctx.Err() == nil {
		if e.slots.active == 0 && e.peek() == nil {
			select {
			case <-e.wake:
			case <-e.ctx.Done():
			}
			continue
		}
		e.slots.drop()
		e.admit()
		e.step()
		if e.slots.broken != nil {
			e.slots.reset() // the error that matters was already reported
		}
	}
	e.slots.fail(0, errClosed)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.queue {
		r.finish(errClosed)
	}
	e.queue = nil
}

// peek returns the first request that is not cancelled; cancelled ones get their context's error.
func (e *engine) peek() *request {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) > 0 && e.queue[0].ctx.Err() != nil {
		e.queue[0].finish(context.Cause(e.queue[0].ctx))
		e.queue = e.queue[1:]
	}
	if len(e.queue) == 0 {
		return nil
	}
	return e.queue[0]
}

func (e *engine) pop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = e.queue[1:]
}

// admit admits requests in their order while there is room. Prompts without a cached prefix are run together; a
// prompt that shares a prefix with one of them waits for it and continues from its rows.
func (e *engine) admit() {
	s := e.slots
	fresh := s.active // slots starting here are not run yet
	flush := func() {
		if err := e.prefill(fresh); err != nil {
			s.fail(fresh, err)
		}
		s.sweep()
		fresh = s.active
	}
	for r := e.peek(); r != nil; r = e.peek() {
		room, err := s.room(r)
		if err != nil {
			e.pop()
			r.finish(err)
			fresh = min(fresh, s.active) // without a cache every answer has ended
			continue
		}
		if !room {
			break
		}
		e.pop()
		if err := e.lm.ImageFeatures(r.ctx, r.prompt); err != nil {
			r.finish(err)
			continue
		}
		if s.active > fresh && s.sharesWith(r.prompt, fresh) {
			flush()
		}
		if s.enter(r); e.rows(fresh, s.active) >= e.prefillRows() {
			flush()
		}
	}
	flush()
}

// prefillRows is the maximum number of rows of prompts that run together; a longer prompt runs in chunks of that
// size.
func (e *engine) prefillRows() int { return e.lm.PromptRows(e.slots.cache) }

// rows returns the number of rows, padding included, that the prompts of some slots take when run together.
func (e *engine) rows(from, to int) int {
	longest := 0
	for i := from; i < to; i++ {
		longest = max(longest, len(e.slots.all[i].request.prompt.IDs))
	}
	return longest * (to - from)
}

// prefill runs the prompts of the slots starting at from, and chooses the first token of each answer.
func (e *engine) prefill(from int) error {
	s := e.slots
	for i := from; i < s.active; {
		n := i + 1
		for n < s.active && s.all[i].rows == 0 && s.all[n].rows == 0 && e.rows(i, n+1) <= e.prefillRows() {
			n++
		}
		logits, err := e.fill(i, n)
		if err != nil {
			return err
		}
		for k := i; k < n; k++ {
			s.all[k].request.prompt.Forget()
			if err := e.begin(k, logits[k-i]); err != nil {
				return err
			}
		}
		i = n
	}
	return nil
}

// fill runs the rest of the prompts of some slots and returns the logits after them. A long prompt is run in chunks.
func (e *engine) fill(from, to int) ([][]float32, error) {
	s, most := e.slots, e.prefillRows()
	for to == from+1 && len(s.all[from].request.prompt.IDs)-s.all[from].rows > most {
		at, p := s.all[from].rows, s.all[from].request.prompt
		next := min(at+most, len(p.IDs)-1)
		part := language.Stretch{Prompt: p, From: at, To: next, Logits: 1}
		if _, err := e.run(from, part); err != nil {
			return nil, err
		}
		s.all[from].rows = next
	}
	return e.forward(from, to)
}

// forward runs the tokens of some slots that are not cached yet, and returns the logits after the last token.
func (e *engine) forward(from, to int) ([][]float32, error) {
	s := e.slots
	parts := make([]language.Stretch, to-from)
	for i := range parts {
		at, p := &s.all[from+i], s.all[from+i].request.prompt
		parts[i] = language.Stretch{Prompt: p, From: at.rows, To: len(p.IDs), Logits: 1}
		at.rows = len(p.IDs)
	}
	return e.run(from, parts...)
}

// run appends stretches to the slots starting at first.
func (e *engine) run(first int, parts ...language.Stretch) ([][]float32, error) {
	if err := e.slots.broken; err != nil {
		return nil, err
	}
	return e.lm.Forward(e.ctx, e.slots.cache, first, parts...)
}

// begin uses the logits after a prompt: it chooses the first token of an answer, or computes the likelihoods of given
// texts.
func (e *engine) begin(slot int, logits []float32) error {
	at := &e.slots.all[slot]
	r := at.request
	if r.answers == nil {
		at.ended, at.err = r.accept(logits, e.lm.Decode)
		return nil
	}
	for _, a := range r.measure(logits) {
		p := r.prompt.Fork()
		from := len(p.IDs)
		for _, id := range a.TokenIDs[:len(a.TokenIDs)-1] {
			p.Append(id)
		}
		n := len(p.IDs) - from
		all, err := e.run(slot, language.Stretch{Prompt: p, From: from, To: from + n, Logits: n})
		if err != nil {
			return err
		}
		for k, id := range a.TokenIDs[1:] {
			a.LogProbs = append(a.LogProbs, logProb(all[0][k*e.lm.Vocab():(k+1)*e.lm.Vocab()], id))
		}
	}
	at.ended = true
	return nil
}

// step generates the next token of every answer.
func (e *engine) step() {
	s := e.slots
	if s.active == 0 {
		return
	}
	logits, err := e.forward(0, s.active)
	if err != nil {
		s.fail(0, err)
		return
	}
	workers.Do(s.active, func(i int) {
		at := &s.all[i]
		at.ended, at.err = at.request.accept(logits[i], e.lm.Decode)
	})
	s.sweep()
}
