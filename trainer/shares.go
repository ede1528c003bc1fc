package trainer

import (
	"errors"
	"fmt"
	"runtime"

	"assay/internal/workers"
)

// targeter is a model with a text loss.
type targeter interface {
	Targets(e *Example) (int, error) // tokens that an example's text loss is over; 0: it has none
}

// share makes the text loss of a batch the mean over the tokens of all its examples, as torch has it over a batch and
// transformers over the micro-batches of a step.
func (r *run) share(batch []Example) error {
	m, ok := r.model.(targeter)
	if !ok {
		return nil
	}
	tokens, err := r.targets(m, batch)
	if err != nil {
		return err
	}
	total := 0
	for _, n := range tokens {
		total += n
	}
	for i, n := range tokens {
		if total > 0 {
			batch[i].Share = float64(n*len(batch)) / float64(total)
		}
	}
	return nil
}

// tokensOf is what a rank tells of the tokens that it counted.
type tokensOf struct {
	Failed verdict
	Tokens []int // of each example of the batch; 0: another rank's
}

// targets counts the tokens of every example of a batch. Of several ranks each counts some, and tells the others.
func (r *run) targets(m targeter, batch []Example) ([]int, error) {
	k, tokens := r.ranks, make([]int, len(batch))
	err := workers.Each(len(batch), runtime.NumCPU(), func(i int) (err error) {
		if !k.mine(i) {
			return nil
		}
		if tokens[i], err = m.Targets(&batch[i]); err != nil {
			err = fmt.Errorf("%s: %w", batch[i].Row.ID, err)
		}
		return err
	})
	if k == nil {
		return tokens, err
	}
	all, err := gather(k, fmt.Sprintf("tokens of step %d", r.state.Step+1), tokensOf{verdictOf(err), tokens})
	if err != nil {
		return nil, err
	}
	for rank, one := range all {
		if one.Failed.Text != "" {
			return nil, &agreedError{k.of(rank, errors.New(one.Failed.Text))}
		}
		for i, n := range one.Tokens {
			tokens[i] = max(tokens[i], n)
		}
	}
	return tokens, nil
}
