package optimizer

import (
	"context"
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
