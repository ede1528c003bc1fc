package trainer

import (
	"fmt"
	"runtime"
	"sync"

	"assay/internal/workers"
	"assay/trainer/dataset"
	"assay/trainer/models"
)

// shareTextLoss makes the text loss of a batch the mean over the tokens of all its examples, as torch has it over a
// batch and transformers over the micro-batches of a step. Of several processes each counts the tokens of some.
func (t *Trainer) shareTextLoss(batch []dataset.Example) error {
	m, ok := t.model.(models.Targeter)
	if !ok {
		return nil
	}
	var mu sync.Mutex
	tokens := map[int]int{}
	err := workers.Each(len(batch), runtime.NumCPU(), func(i int) error {
		if !t.strategy.Mine(i) {
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
	if err := t.strategy.Union(fmt.Sprintf("tokens of step %d", t.state.Step+1), &tokens, err); err != nil {
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
