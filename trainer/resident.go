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
