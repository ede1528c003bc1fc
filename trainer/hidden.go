package trainer

import (
	"context"
	"encoding/json"
	"fmt"

	"assay/store"
)

// Hidden computes hidden states at the score token: one of the backbone's width for each example.
type Hidden interface {
	Hidden(ctx context.Context, batch []Example) ([][]float32, error)
	Close() error
}

// stateKind is what a store calls hidden states, with the version of their computation.
const stateKind = "states-1"

// hiddenStates are the hidden states that a run trains on, in a store. They stay readable to its end, whatever else the
// store has to make room for.
type hiddenStates struct {
	*store.Bucket
	width int
}

// openHidden opens the states that the backbone with that fingerprint computed.
func openHidden(s *store.Store, width int, fingerprint map[string]string) (*hiddenStates, error) {
	text, err := json.Marshal(fingerprint) // keys sorted
	if err != nil {
		return nil, err
	}
	b, err := s.Bucket(stateKind, string(text))
	if err != nil {
		return nil, err
	}
	b.Hold()
	return &hiddenStates{b, width}, nil
}

// get returns the state of an example; nil if it is not there.
func (h *hiddenStates) get(key store.Key) []float32 { return h.Floats(key, h.width) }

// put keeps the state of an example.
func (h *hiddenStates) put(key store.Key, state []float32) error {
	if len(state) != h.width {
		return fmt.Errorf("a hidden state has %d values, the head wants %d", len(state), h.width)
	}
	return h.Put(key, store.FloatBytes(state))
}

// hiddenKey identifies what a hidden state depends on besides the backbone: instruction, templates and the content of
// pictures.
func hiddenKey(e *Example) (store.Key, error) {
	c, err := e.contents()
	if err != nil {
		return store.Key{}, fmt.Errorf("%s: %w", e.Row.ID, err)
	}
	pair := e.pairKey(c)
	return store.KeyOf("example", string(pair[:]), e.Row.Instruction, e.Question, e.Answer), nil
}
