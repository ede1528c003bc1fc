package chat

import (
	"encoding/json"
	"fmt"

	"assay/internal/grammar"
)

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
