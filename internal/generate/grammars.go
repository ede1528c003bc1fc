package generate

import (
	"errors"
	"fmt"
	"sync"

	"assay/chat"
	"assay/internal/grammar"
	"assay/model/language"
)

// grammars caches the masks of recent grammars over the model's vocabulary.
type grammars struct {
	vocabulary func() (*vocabulary, error) // read when the first grammar is used

	mu    sync.Mutex
	known map[string]*grammar.Masks
}

type vocabulary struct {
	*grammar.Vocabulary
	trims bool
}

// maxGrammars is the maximum number of cached grammars.
const maxGrammars = 16

func newGrammars(lm *language.Model) *grammars {
	read := func() (*vocabulary, error) {
		tokens, trims, err := lm.TokenBytes()
		if err != nil {
			return nil, err
		}
		v, err := grammar.NewVocabulary(tokens)
		return &vocabulary{v, trims}, err
	}
	return &grammars{vocabulary: sync.OnceValues(read), known: map[string]*grammar.Masks{}}
}

// masks returns the masks of a grammar.
func (g *grammars) masks(of *grammar.Grammar) (*grammar.Masks, error) {
	v, err := g.vocabulary()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	key := of.Key()
	if m := g.known[key]; m != nil {
		return m, nil
	}
	if len(g.known) >= maxGrammars { // running answers keep their masks
		clear(g.known)
	}
	g.known[key] = grammar.NewMasks(of, v.Vocabulary, v.trims)
	return g.known[key], nil
}

// Follows implements [chat.Follower].
func (m *Model) Follows(g *grammar.Grammar) error {
	if _, err := m.grammars.masks(g); err != nil {
		return fmt.Errorf("%w: %w", chat.ErrRequest, err)
	}
	return nil
}

// constrain makes the answer to a request follow a grammar.
func (g *grammars) constrain(r *request, to *grammar.Grammar) error {
	switch least := to.Least() + 1; {
	case len(r.stop) > 0:
		return errors.New("stop: an answer that follows a grammar ends where the grammar ends: leave stop out")
	case len(r.end) == 0:
		return errors.New("the checkpoint has no end token (eos_token_id), so no answer can follow a grammar")
	case r.most < least:
		return fmt.Errorf("an answer of at most %d tokens may be too short for its grammar: allow at least %d", r.most, least)
	}
	masks, err := g.masks(to)
	if err != nil {
		return err
	}
	r.walk, r.sampler.rule = masks.Begin(), r.follow
	return nil
}
