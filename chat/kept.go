package chat

import (
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

// Kept is a model whose answers are kept: what was asked before is not asked again, and what several ask at the same
// time is asked once.
type Kept struct {
	Model
	answers *store.Bucket
	asking  singleflight.Group
	broken  atomic.Pointer[error] // why answers cannot be kept any more

	found, asked atomic.Int64
}

// Keep keeps the answers of a model in a store, by the digest of messages, pictures and options, and by the model's
// fingerprint.
func Keep(m Model, s *store.Store) (*Kept, error) {
	fingerprint := m.Fingerprint()
	if fingerprint == "" {
		return nil, errors.New("the model has no fingerprint, so its answers cannot be told from those of others")
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

// Found is how many answers came from the store, or from another caller who asked the same at the same time.
func (k *Kept) Found() int64 { return k.found.Load() }

// Asked is how many answers the model gave.
func (k *Kept) Asked() int64 { return k.asked.Load() }

// Chat returns the answer that is kept, or asks. An answer that cannot be kept is returned all the same, but nothing
// more is asked then: the error wraps ErrUnavailable and names the folder.
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
			continue // the other caller, who asked for both, has left
		}
		return nil, err
	}
}

// ask looks the answer up or asks for it.
func (k *Kept) ask(ctx context.Context, key store.Key, messages []Message, o Options) (
	a Answer, asked bool, err error) {
	if raw := k.answers.Get(key); raw != nil {
		if a, err := decode(raw); err == nil {
			return a, false, nil
		}
	}
	if why := k.broken.Load(); why != nil {
		return a, false, fmt.Errorf("%w: answers cannot be kept: %w", ErrUnavailable, *why)
	}
	if err := ctx.Err(); err != nil {
		return a, false, err
	}
	answer, err := k.Model.Chat(ctx, messages, o)
	if err != nil {
		return a, false, err
	}
	k.asked.Add(1)
	raw, err := encode(*answer)
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
	key := keyOptions{o.MaxNewTokens, o.Temperature, o.TopK, o.TopP, o.RepetitionPenalty, o.Seed, o.Stop, o.StopTokenIDs,
		o.LogProbs, ""}
	if o.Grammar != nil {
		key.Grammar = o.Grammar.Key()
	}
	options, err := json.Marshal(key)
	return store.KeyOf(append(parts, string(options))...), err
}

// keyOptions are Options as keys have them: what is not set is left out, so that options to come change no key.
type keyOptions struct {
	MaxNewTokens      int      `json:"max_new_tokens,omitempty"`
	Temperature       *float64 `json:"temperature,omitempty"`
	TopK              *int     `json:"top_k,omitempty"`
	TopP              *float64 `json:"top_p,omitempty"`
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"`
	Seed              uint64   `json:"seed,omitempty"`
	Stop              []string `json:"stop,omitempty"`
	StopTokenIDs      []int64  `json:"stop_token_ids,omitempty"`
	LogProbs          bool     `json:"logprobs,omitempty"`
	Grammar           string   `json:"grammar,omitempty"`
}

// record is an answer as the store holds it. Texts of local models need not be UTF-8, so they are bytes.
type record struct {
	Text     []byte    `json:"text"`
	TokenIDs []int64   `json:"token_ids,omitempty"`
	LogProbs []float64 `json:"logprobs,omitempty"`
	Finish   string    `json:"finish"`
	Usage    Usage     `json:"usage"`
}

func encode(a Answer) ([]byte, error) {
	return json.Marshal(record{[]byte(a.Text), a.TokenIDs, a.LogProbs, a.Finish, a.Usage})
}

func decode(raw []byte) (Answer, error) {
	var r record
	err := json.Unmarshal(raw, &r)
	return Answer{string(r.Text), r.TokenIDs, r.LogProbs, r.Finish, r.Usage}, err
}
