package generate

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"assay/chat"
	"assay/internal/grammar"
	"assay/model/language"
)

// request is an answer that is wanted, and what there is of it.
type request struct {
	ctx      context.Context
	prompt   *language.Prompt // grows with the answer
	sampler  *sampler
	end      map[int64]bool // ids that end the answer
	stop     []string       // texts that end it
	most     int            // tokens of the answer
	cut      bool           // they end where the model's context does: more were wanted
	logProbs bool
	walk     *grammar.Walk           // the answer's way through its grammar; nil: it has none
	piece    func(text string) error // nil: the text is not told
	answers  []Likelihood            // not nil: nothing is generated, these texts are measured

	done   chan error  // gets one error, or nil
	pieces chan string // of the text; never full, and closed in the end
	answer chat.Answer
	told   int // bytes of the text that were sent to pieces
}

// newRequest is a request of at most so many tokens.
func newRequest(ctx context.Context, p *language.Prompt, most int) *request {
	return &request{ctx: ctx, prompt: p, most: most, done: make(chan error, 1), pieces: make(chan string, most)}
}

// rows is how many rows of a cache the whole answer takes: all but the last token enter it.
func (r *request) rows() int { return r.prompt.Begin() + r.most - 1 }

// accept chooses the next token and reports whether the answer ends with it.
func (r *request) accept(logits []float32, decode func([]int64) (string, error)) (ended bool, err error) {
	a := &r.answer
	id, err := r.sampler.next(logits, r.prompt.IDs)
	if err != nil {
		return true, err
	}
	if r.walk != nil {
		if err := r.walk.Take(id); err != nil {
			return true, err
		}
	}
	if r.logProbs {
		a.LogProbs = append(a.LogProbs, logProb(logits, id))
	}
	r.prompt.Append(id)
	a.TokenIDs = append(a.TokenIDs, id)
	ended = r.end[id]
	if ended {
		a.Finish = chat.FinishStop
	} else if len(a.TokenIDs) >= r.most {
		if ended, a.Finish = true, chat.FinishLength; r.cut {
			a.Finish = chat.FinishContext
		}
	}
	if !ended && len(r.stop) == 0 && r.piece == nil {
		return false, nil
	}
	if a.Text, err = decode(a.TokenIDs); err != nil {
		return true, err
	}
	if at := firstOf(a.Text, r.stop); at >= 0 {
		a.Text, a.Finish, ended = a.Text[:at], chat.FinishStop, true
	}
	r.tell(ended)
	return ended, nil
}

// follow rules out all tokens that the grammar does not allow. Those that end the answer may come where it is complete.
func (r *request) follow(z []float32) error {
	mask, err := r.walk.Mask(r.most - len(r.answer.TokenIDs))
	if err != nil {
		return err
	}
	ends := map[int64]float32{}
	for id := range r.end {
		if ends[id] = never; r.walk.Ends(id) {
			ends[id] = z[id]
		}
	}
	mask.Forbid(z)
	for id, v := range ends {
		z[id] = v
	}
	if z[argmax(z)] == never {
		return errors.New("the grammar allows no token, nor that the answer ends")
	}
	return nil
}

// firstOf is where the first of some texts begins in s; -1: there is none.
func firstOf(s string, texts []string) int {
	first := -1
	for _, t := range texts {
		if i := strings.Index(s, t); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}

// tell passes on what is certain of the text: its end may still become another character, or a stop text.
func (r *request) tell(ended bool) {
	if r.piece == nil {
		return
	}
	s := r.answer.Text
	if !ended {
		s = strings.TrimRight(s, string(utf8.RuneError))
		s = s[:len(s)-pending(s, r.stop)]
	}
	if len(s) > r.told {
		r.pieces <- s[r.told:]
		r.told = len(s)
	}
}

// pending is the length of the longest end of s that one of some texts begins with.
func pending(s string, texts []string) int {
	longest := 0
	for _, t := range texts {
		for n := min(len(t)-1, len(s)); n > longest; n-- {
			if strings.HasSuffix(s, t[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// finish hands the answer over.
func (r *request) finish(err error) {
	r.answer.Usage.Prompt, r.answer.Usage.Completion = r.prompt.Begin(), len(r.answer.TokenIDs)
	r.done <- err
	close(r.pieces)
}

// measure fills in what the logits behind the prompt say of each text's first token, and returns the texts that have
// more.
func (r *request) measure(logits []float32) (more []*Likelihood) {
	for i := range r.answers {
		a := &r.answers[i]
		a.LogProbs = []float64{logProb(logits, a.TokenIDs[0])}
		if len(a.TokenIDs) > 1 {
			more = append(more, a)
		}
	}
	return more
}
