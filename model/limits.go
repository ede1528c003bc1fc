package model

import "runtime"

// smallParameters is the number of parameters up to which a model is small: a few milliseconds a pair on one core.
const smallParameters = 16 << 20

// limits bound what is run at once. A single sample or picture may exceed them.
type limits struct {
	rows     int // tokens of one forward pass of the language model
	shared   int // the same where samples share prefixes: the more of them in a pass, the less is computed twice
	pixels   int // values of pixel_values of one run of the vision tower
	near     int // lengths run together that are the same when rounded up to a multiple of it; they are filled up
	parallel int // runs side by side
	threads  int // of each run; 0: all cores
}

// Large models and training have one run at a time. 24 tiles of 336 x 336 pixels go through the tower together.
var largeLimits = limits{rows: 4096, shared: 8192, pixels: 24 * 3 * 336 * 336, near: 1, parallel: 1}

// A GPU is idle while the processor starts small products. There the last bits of a score may depend on the batch.
var cudaLimits = limits{rows: 16384, shared: 16384, pixels: 96 * 3 * 336 * 336, near: 64, parallel: 1}

// newLimits returns the limits. Each run of a small scorer has a core to itself: that is faster than to share each
// matrix product among cores, and its values stay in the core's cache. It also makes a score independent of the batch.
// ONNX Runtime cuts a product for its threads by the number of rows, and sums in another order if a part is narrower
// than 128 columns.
func newLimits(smallScorer, cuda bool, threads int) limits {
	l := largeLimits
	if cuda {
		l = cudaLimits
	}
	l.threads = threads
	if smallScorer {
		l = limits{
			rows:     1024,
			shared:   1024,
			pixels:   1 << 18,
			near:     1,
			parallel: threads,
			threads:  1,
		}
		if threads <= 0 {
			l.parallel = runtime.NumCPU()
		}
	}
	return l
}

// rounded is a length rounded up: see limits.near.
func (l limits) rounded(length int) int { return (length + l.near - 1) / l.near * l.near }
