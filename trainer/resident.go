package trainer

import (
	"context"
	"strings"
)

// Accumulator is a model that may keep parameters and the sums of gradients on its device. Then Step and Compare give
// no gradients.
type Accumulator interface {
	// Accumulates tells whether it does.
	Accumulates() bool
	// Begin begins a step of the optimizer: parameters as they are now, no gradients.
	Begin(ctx context.Context) error
	// Sums gives the sums of the gradients since Begin, added up in the order of the calls, by the order of Params.
	Sums(ctx context.Context, into [][]float32) error
}

// resident tells whether parameters and the sums of gradients stay on the device between micro-batches: on a GPU that
// one process trains on. Several ranks add up their micro-batches' gradients in the order of the batch, or as the
// library likes; both are done on the host. A variable for tests.
var resident = func(c *Config) bool { return strings.HasPrefix(c.Device, "cuda") && c.Ranks <= 1 }

// accumulator is the model if it adds up gradients itself; nil: the loop does.
func (r *run) accumulator() Accumulator {
	if a, ok := r.model.(Accumulator); ok && a.Accumulates() {
		return a
	}
	return nil
}

// beginSums begins a step: no gradients.
func (r *run) beginSums(ctx context.Context) error {
	if a := r.accumulator(); a != nil {
		return a.Begin(ctx)
	}
	for i := range r.grads {
		clear(r.grads[i])
	}
	return nil
}

// endSums brings the sums of the gradients where the model has them.
func (r *run) endSums(ctx context.Context) error {
	if a := r.accumulator(); a != nil {
		return a.Sums(ctx, r.grads)
	}
	return nil
}
