// Package chat asks vision-language models questions and takes answers in words. One interface, two implementations: a
// checkpoint on this machine, and a server that speaks OpenAI's chat protocol.
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
	// Chat returns the model's answer to the messages. An answer that was cut off is no error: see Answer.Finish.
	// Errors that wrap ErrRequest are the request's fault: asking again does not help.
	Chat(ctx context.Context, messages []Message, o Options) (*Answer, error)
	// Fingerprint is a digest of what decides the answers: the weights and the prompt's template of a local model, the
	// URL and the model's name of a remote one.
	Fingerprint() string
	Close() error
}

// ErrRequest is wrapped by errors that are the request's own fault: a picture that cannot be read, a prompt that is too
// long, an option out of range.
var ErrRequest = errors.New("bad request")

// Message is one turn of a conversation.
type Message struct {
	Role    string // system, user or assistant
	Content []Part // in order
}

// CheckRole refuses other roles: chat templates would write them, and models were not trained on them.
func (m *Message) CheckRole() error {
	switch m.Role {
	case "system", "user", "assistant":
		return nil
	}
	return fmt.Errorf("role %q: there are system, user and assistant", m.Role)
}

// Part is a text or a picture.
type Part struct {
	Text  string
	Image *data.Picture // nil: a text
}

// Options say how an answer is made. The zero value leaves everything to the model's generation_config.json. Their JSON
// is part of the keys of kept answers: what is not set is left out, so that options to come change no key.
type Options struct {
	MaxNewTokens      int      `json:"max_new_tokens,omitempty"`     // 0: the model's default
	Temperature       *float64 `json:"temperature,omitempty"`        // 0: greedy
	TopK              *int     `json:"top_k,omitempty"`              // 0: all
	TopP              *float64 `json:"top_p,omitempty"`              // 1: all
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"` // 1: none
	// Seed is of sampling: an answer is a function of it and of the request.
	Seed         uint64   `json:"seed,omitempty"`
	Stop         []string `json:"stop,omitempty"`           // texts that end the answer; they are not part of it
	StopTokenIDs []int64  `json:"stop_token_ids,omitempty"` // besides the model's own
	LogProbs     bool     `json:"logprobs,omitempty"`       // fill in Answer.LogProbs

	// Grammar is what the answer has to follow: only tokens that it allows are chosen, and the answer ends within its
	// limit of tokens. nil: anything.
	Grammar *grammar.Grammar `json:"grammar,omitempty"`
}

// Reasons why an answer ended.
const (
	FinishStop   = "stop"   // an end token or a stop text
	FinishLength = "length" // MaxNewTokens
	// FinishContext is the end of a local model's context, before MaxNewTokens. (Servers say length for both.)
	FinishContext = "context_length"
)

// Answer is what a model said.
type Answer struct {
	Text     string  `json:"text"`
	TokenIDs []int64 `json:"token_ids,omitempty"` // of local models: with the end token
	// LogProbs are by token: log softmax of the raw logits, before penalty and temperature; nil if not asked for.
	LogProbs []float64 `json:"token_logprobs,omitempty"`
	Finish   string    `json:"finish_reason"` // FinishStop, FinishLength or FinishContext; others as a server gives them
	Usage    Usage     `json:"-"`
}

// Usage counts tokens.
type Usage struct {
	Prompt     int // with those of the pictures
	Completion int
	Cached     int // of the prompt, not computed again
}

// Follower is a model that says beforehand whether its answers can follow a grammar.
type Follower interface {
	// Follows is an error that wraps ErrRequest if they cannot.
	Follows(g *grammar.Grammar) error
}

// Follows asks a model whether its answers can follow a grammar; one that does not say so cannot.
func Follows(m Model, g *grammar.Grammar) error {
	if f, ok := m.(Follower); ok {
		return f.Follows(g)
	}
	return fmt.Errorf("%w: the model's answers cannot be made to follow a grammar", ErrRequest)
}

// Follows implements [Follower]: what response_format can say, if it is wanted.
func (r *Remote) Follows(g *grammar.Grammar) error {
	if !r.server.ResponseFormat {
		return fmt.Errorf("%w: the answers of %s are made on a server, and only the server can hold them to a grammar; "+
			"if it can, write response_format: true in its file (--server)", ErrRequest, r.server.Model)
	}
	var root struct{ Type any }
	if s := g.Schema(); s == nil || json.Unmarshal(s, &root) != nil || root.Type != "object" {
		return fmt.Errorf("%w: an answer that is no JSON object cannot be asked for by response_format", ErrRequest)
	}
	return nil
}
