package head

import (
	"context"
	"encoding/json"
	"fmt"

	"assay/internal/store"
	"assay/internal/trainer/dataset"
)

// Hidden computes hidden states at the score token: one vector of the backbone's width per example.
type Hidden interface {
	Hidden(ctx context.Context, batch []dataset.Example) ([][]float32, error)
	Close() error
}

// StateKind is the name of hidden states in a store, with the version of their computation.
const StateKind = "states-3"

// States are the hidden states that a run trains on, in a store. They are not evicted until the run ends.
type States struct {
	*store.Bucket
	width int
}

// OpenStates opens the states of the backbone with a fingerprint.
func OpenStates(s *store.Store, width int, fingerprint map[string]string) (*States, error) {
	text, err := json.Marshal(fingerprint) // keys sorted
	if err != nil {
		return nil, err
	}
	b, err := s.Bucket(StateKind, string(text))
	if err != nil {
		return nil, err
	}
	b.Hold()
	return &States{b, width}, nil
}

// Get returns the state of an example; nil if it is not stored.
func (h *States) Get(key store.Key) []float32 { return h.Floats(key, h.width) }

// Put stores the state of an example.
func (h *States) Put(key store.Key, state []float32) error {
	if len(state) != h.width {
		return fmt.Errorf("a hidden state has %d values, the head needs %d", len(state), h.width)
	}
	return h.Bucket.Put(key, store.FloatBytes(state))
}

// StateKey identifies what a hidden state depends on besides the backbone: instruction, templates and picture
// contents.
func StateKey(e *dataset.Example) (store.Key, error) {
	pair, err := e.PairKey()
	if err != nil {
		return store.Key{}, fmt.Errorf("%s: %w", e.Edit.ID, err)
	}
	return store.KeyOf("example", string(pair[:]), e.Edit.Instruction, e.Question, e.Answer), nil
}
