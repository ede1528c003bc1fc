package trainer

import (
	"fmt"
	"runtime"
	"sync"

	"assay/internal/workers"
)

// targeter is a model with a text loss.
type targeter interface {
	Targets(e *Example) (int, error) // tokens that an example's text loss is over; 0: it has none
}

// shareTextLoss makes the text loss of a batch the mean over the tokens of all its examples, as torch has it over a
// batch and transformers over the micro-batches of a step. Of several processes each counts the tokens of some.
func (t *Trainer) shareTextLoss(batch []Example) error {
	m, ok := t.model.(targeter)
	if !ok {
		return nil
	}
	var mu sync.Mutex
	tokens := map[int]int{}
	err := workers.Each(len(batch), runtime.NumCPU(), func(i int) error {
		if !t.strategy.mine(i) {
			return nil
		}
		n, err := m.Targets(&batch[i])
		if err != nil {
			return fmt.Errorf("%s: %w", batch[i].Row.ID, err)
		}
		mu.Lock()
		tokens[i] = n
		mu.Unlock()
		return nil
	})
	if err := t.strategy.union(fmt.Sprintf("tokens of step %d", t.state.Step+1), &tokens, err); err != nil {
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
