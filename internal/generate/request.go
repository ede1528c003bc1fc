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

// request is a requested answer and the part of it that is generated so far.
type request struct {
	ctx      context.Context
	prompt   *language.Prompt // grows with the answer
	sampler  *sampler
	end      map[int64]bool // ids that end the answer
	stop     []string       // texts that end it
	most     int            // maximum number of tokens of the answer
	cut      bool           // the model's context sets most: more tokens were requested
	logProbs bool
	walk     *grammar.Walk           // the answer's state in its grammar; nil: no grammar
	piece    func(text string) error // nil: the text is not streamed
	answers  []Likelihood            // not nil: nothing is generated; these texts are scored

	done   chan error  // gets one error, or nil
	pieces chan string // of the text; never full; closed at the end
	answer chat.Answer
	told   int // bytes of the text that were sent to pieces
}

// newRequest returns a request for an answer of at most that many tokens.
func newRequest(ctx context.Context, p *language.Prompt, most int) *request {
	return &request{ctx: ctx, prompt: p, most: most, done: make(chan error, 1), pieces: make(chan string, most)}
}

// rows returns the number of cache rows that prompt and answer take: every token except the last enters the cache.
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

// follow masks all tokens that the grammar does not allow. End tokens are allowed if the grammar may end there.
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
		return errors.New("the grammar allows neither another token nor the end of the answer")
	}
	return nil
}

// firstOf returns the index in s of the text that occurs first; -1 if none does.
func firstOf(s string, texts []string) int {
	first := -1
	for _, t := range texts {
		if i := strings.Index(s, t); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}

// tell sends the part of the text that is final: its end may still become another character, or a stop text.
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

// pending returns the length of the longest suffix of s that is a proper prefix of one of the texts.
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

// finish delivers the answer or err.
func (r *request) finish(err error) {
	r.answer.Usage.Prompt, r.answer.Usage.Completion = r.prompt.Begin(), len(r.answer.TokenIDs)
	r.done <- err
	close(r.pieces)
}

// measure fills in the log-probability of each text's first token, from the logits after the prompt, and returns the
// texts that have more tokens.
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
