// Package chat asks vision-language models questions about pictures and reads their text answers. Messages of texts and
// pictures go into a Model with Options (sampling, limits, a grammar); an Answer comes out.
//
// The interface Model has two implementations: a checkpoint on this machine (internal/generate), and Remote, a server
// that speaks OpenAI's chat protocol, with retries, token counts and caps on tokens and cost. Kept wraps either of them
// with a store of answers, so that no question is paid for twice. Choices asks for several answers to one question.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"assay/data"
	"assay/internal/grammar"
)

// Model answers messages. Its methods are safe for concurrent use.
type Model interface {
	// Chat returns the model's answer to the messages. An answer that was cut off is not an error: see Answer.Finish.
	// Errors that wrap ErrRequest are the request's fault: retrying does not help.
	Chat(ctx context.Context, messages []Message, o Options) (*Answer, error)
	// Fingerprint is a digest of what decides the answers: the weights and the prompt's template of a local model, the
	// URL and the model's name of a remote one.
	Fingerprint() string
	Close() error
}

// ErrRequest is wrapped by errors that are the request's own fault: an unreadable picture, a prompt that is too long,
// an option out of range.
var ErrRequest = errors.New("bad request")

// Message is one turn of a conversation.
type Message struct {
	Role    string // system, user or assistant
	Content []Part // in order
}

// CheckRole refuses other roles: chat templates would render them, but models were not trained on them.
func (m *Message) CheckRole() error {
	switch m.Role {
	case "system", "user", "assistant":
		return nil
	}
	return fmt.Errorf("role %q: want system, user or assistant", m.Role)
}

// Part is a text or a picture.
type Part struct {
	Text  string
	Image *data.Picture // nil: a text
}

// Options control how an answer is generated. The zero value leaves everything to the model's generation_config.json.
// Their JSON is part of the keys of stored answers; unset options are left out, so that adding an option changes no
// key.
type Options struct {
	MaxNewTokens      int      `json:"max_new_tokens,omitempty"`     // 0: the model's default
	Temperature       *float64 `json:"temperature,omitempty"`        // 0: greedy
	TopK              *int     `json:"top_k,omitempty"`              // 0: all
	TopP              *float64 `json:"top_p,omitempty"`              // 1: all
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"` // 1: none
	// Seed seeds sampling: an answer is a function of it and the request.
	Seed         uint64   `json:"seed,omitempty"`
	Stop         []string `json:"stop,omitempty"`           // texts that end the answer, which does not include them
	StopTokenIDs []int64  `json:"stop_token_ids,omitempty"` // in addition to the model's own
	LogProbs     bool     `json:"logprobs,omitempty"`       // fill in Answer.LogProbs

	// Grammar constrains the answer: only tokens that it allows are chosen, and the answer ends within its token
	// limit. nil: unconstrained.
	Grammar *grammar.Grammar `json:"grammar,omitempty"`
}

// Reasons why an answer ended.
const (
	FinishStop   = "stop"   // an end token or a stop text
	FinishLength = "length" // MaxNewTokens
	// FinishContext is the end of a local model's context, before MaxNewTokens. (Servers report length for both.)
	FinishContext = "context_length"
)

// Answer is a model's answer.
type Answer struct {
	Text     string  `json:"text"`
	TokenIDs []int64 `json:"token_ids,omitempty"` // local models only; includes the end token
	// LogProbs holds one value per token: log softmax of the raw logits, before penalty and temperature; nil if not
	// requested.
	LogProbs []float64 `json:"token_logprobs,omitempty"`
	Finish   string    `json:"finish_reason"` // FinishStop, FinishLength or FinishContext; servers may send others
	Usage    Usage     `json:"-"`
}

// Usage counts tokens.
type Usage struct {
	Prompt     int // including picture tokens
	Completion int
	Cached     int // prompt tokens taken from a cache
}

// Follower is a model that reports in advance whether its answers can follow a grammar.
type Follower interface {
	// Follows returns an error that wraps ErrRequest if they cannot.
	Follows(g *grammar.Grammar) error
}

// Follows returns an error if a model's answers cannot follow a grammar. A model that is not a Follower cannot.
func Follows(m Model, g *grammar.Grammar) error {
	if f, ok := m.(Follower); ok {
		return f.Follows(g)
	}
	return fmt.Errorf("%w: this model does not support grammar-constrained answers", ErrRequest)
}

// Framer is a model that may show every two pictures of a message as the frames of one.
type Framer interface{ Frames() bool }

// Frames reports whether a model does so.
func Frames(m Model) bool {
	f, ok := m.(Framer)
	return ok && f.Frames()
}

// Follows implements [Follower]: it accepts grammars that response_format can express, if the settings enable it.
func (r *Remote) Follows(g *grammar.Grammar) error {
	if !r.server.ResponseFormat {
		return fmt.Errorf("%w: the answers of %s come from a server, and only the server can constrain them by a grammar; "+
			"if it can, set response_format: true in its file (--server)", ErrRequest, r.server.Model)
	}
	var root struct{ Type any }
	if s := g.Schema(); s == nil || json.Unmarshal(s, &root) != nil || root.Type != "object" {
		return fmt.Errorf("%w: response_format cannot request an answer that is not a JSON object", ErrRequest)
	}
	return nil
}
