package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"assay/internal/grammar"
	"assay/internal/store"
)

// Kept is a model whose answers are stored: a question asked before is not asked again, and a question that several
// callers ask at the same time is asked once.
type Kept struct {
	Model
	answers *store.Bucket
	asking  singleflight.Group
	broken  atomic.Pointer[error] // why answers can no longer be stored
	store   *store.Store          // of OpenKept

	found, asked atomic.Int64
}

// OpenKept stores the answers of a model in the store of a folder. "" is a store next to the user's default store,
// with its own limit, so that results that can be recomputed do not evict answers that were paid for. Closing it
// closes the model, which is also closed if the folder cannot be opened. warn may be nil.
func OpenKept(m Model, folder string, warn func(string)) (k *Kept, err error) {
	if folder == "" {
		folder, err = store.DefaultFolder()
		folder += "-answers"
	}
	var answers *store.Store
	if err == nil {
		answers, err = store.Open(folder, store.Options{Warn: warn})
	}
	if err == nil {
		k, err = Keep(m, answers)
	}
	if err != nil {
		m.Close() // the first error is returned
		return nil, err
	}
	k.store = answers
	return k, nil
}

// Close closes the model and the store.
func (k *Kept) Close() error {
	err := k.Model.Close()
	if k.store != nil {
		err = cmp.Or(err, k.store.Close())
	}
	return err
}

// Keep stores the answers of a model in a store, keyed by the digest of messages, pictures and options, and by the
// model's fingerprint.
func Keep(m Model, s *store.Store) (*Kept, error) {
	fingerprint := m.Fingerprint()
	if fingerprint == "" {
		return nil, errors.New("the model has no fingerprint, so its answers cannot be stored")
	}
	answers, err := s.Bucket("answers-1", fingerprint)
	if err != nil {
		return nil, err
	}
	answers.Hold()
	return &Kept{Model: m, answers: answers}, nil
}

// Follows implements [Follower].
func (k *Kept) Follows(g *grammar.Grammar) error { return Follows(k.Model, g) }

// Frames implements [Framer].
func (k *Kept) Frames() bool { return Frames(k.Model) }

// Asked counts the answers that a model was asked for and those that were found in the store.
type Asked struct {
	Answers int64  `json:"answers"`         // from the model
	Found   int64  `json:"found"`           // from the store, or from a concurrent caller with the same question
	Spent   *Spent `json:"spent,omitempty"` // on a server
}

// Asked returns the counts so far.
func (k *Kept) Asked() Asked {
	a := Asked{Answers: k.asked.Load(), Found: k.found.Load()}
	if r, ok := k.Model.(*Remote); ok {
		spent := r.Spent()
		a.Spent = &spent
	}
	return a
}

// String formats the counts for people.
func (a Asked) String() string {
	text := fmt.Sprintf("%d answers asked for, %d found", a.Answers, a.Found)
	s := a.Spent
	if s == nil {
		return text
	}
	text += fmt.Sprintf("; %d requests, %d tokens of prompts, %d of answers", s.Requests, s.Prompt, s.Completion)
	if s.Cost > 0 {
		text += fmt.Sprintf(", cost %.4g", s.Cost)
	}
	if s.Uncounted > 0 {
		text += fmt.Sprintf(" (%d answers without a count)", s.Uncounted)
	}
	return text
}

// Concurrency is the number of questions to ask at a time: a server's concurrency, or batch for a local model.
func (k *Kept) Concurrency(batch int) int {
	if r, ok := k.Model.(*Remote); ok {
		return r.server.Concurrency
	}
	return batch
}

// Chat returns the stored answer, or asks the model. An answer that cannot be stored is still returned, but from then
// on nothing more is asked: the error wraps ErrUnavailable and names the folder.
func (k *Kept) Chat(ctx context.Context, messages []Message, o Options) (*Answer, error) {
	key, err := keyOf(messages, o)
	if err != nil {
		return nil, err
	}
	for {
		own := false
		v, err, _ := k.asking.Do(string(key[:]), func() (any, error) {
			a, asked, err := k.ask(ctx, key, messages, o)
			own = asked
			return a, err
		})
		if err == nil {
			if !own {
				k.found.Add(1)
			}
			a := v.(Answer)
			return &a, nil
		}
		if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			continue // the other caller, who asked on behalf of both, has left
		}
		return nil, err
	}
}

// ask looks the answer up or asks the model.
func (k *Kept) ask(ctx context.Context, key store.Key, messages []Message, o Options) (
	a Answer, asked bool, err error) {
	if raw := k.answers.Get(key); raw != nil {
		var r record
		if json.Unmarshal(raw, &r) == nil {
			return Answer{string(r.Text), r.TokenIDs, r.LogProbs, r.Finish, r.Usage}, false, nil
		}
	}
	if why := k.broken.Load(); why != nil {
		return a, false, fmt.Errorf("%w: answers cannot be stored: %w", ErrUnavailable, *why)
	}
	if err := ctx.Err(); err != nil {
		return a, false, err
	}
	answer, err := k.Model.Chat(ctx, messages, o)
	if err != nil {
		return a, false, err
	}
	k.asked.Add(1)
	raw, err := json.Marshal(record{[]byte(answer.Text), answer.TokenIDs, answer.LogProbs, answer.Finish, answer.Usage})
	if err != nil {
		return a, true, err
	}
	if err := k.answers.Put(key, raw); err != nil {
		k.broken.CompareAndSwap(nil, &err)
	}
	return *answer, true, nil
}

// keyOf is the digest of a request.
func keyOf(messages []Message, o Options) (store.Key, error) {
	parts := []string{strconv.Itoa(len(messages))}
	for _, m := range messages {
		parts = append(parts, m.Role, strconv.Itoa(len(m.Content)))
		for _, p := range m.Content {
			if p.Image == nil {
				parts = append(parts, "text", p.Text)
				continue
			}
			if err := p.Image.Check(); err != nil {
				return store.Key{}, fmt.Errorf("%w: %w", ErrRequest, err)
			}
			digest := store.Key(p.Image.Digest())
			parts = append(parts, "picture", digest.String())
		}
	}
	for _, v := range []*float64{o.Temperature, o.TopP, o.RepetitionPenalty} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
			return store.Key{}, fmt.Errorf("%w: an option is %v", ErrRequest, *v)
		}
	}
	options, err := json.Marshal(o)
	return store.KeyOf(append(parts, string(options))...), err
}

// record is an answer in the store. Texts of local models need not be UTF-8, so they are bytes.
type record struct {
	Text     []byte    `json:"text"`
	TokenIDs []int64   `json:"token_ids,omitempty"`
	LogProbs []float64 `json:"logprobs,omitempty"`
	Finish   string    `json:"finish"`
	Usage    Usage     `json:"usage"`
}
