package batch

import "runtime"

// SmallParameters is the maximum number of parameters of a small model: a few milliseconds per pair on one core.
const SmallParameters = 16 << 20

// Limits bound what is run at once. A single sample or picture may exceed them, and then so may two samples that share
// a prefix.
type Limits struct {
	Rows     int // tokens of one forward pass of the language model
	Shared   int // the same if samples share prefixes: the more of them in a pass, the less is computed twice
	Pixels   int // values of pixel_values in one run of the vision tower
	Near     int // lengths that are equal when rounded up to a multiple of Near run together, padded
	Parallel int // concurrent runs
	Threads  int // of each run; 0: all cores
}

// Large models and training have one run at a time. 24 tiles of 336 x 336 pixels go through the tower together.
var largeLimits = Limits{Rows: 4096, Shared: 8192, Pixels: 24 * 3 * 336 * 336, Near: 1, Parallel: 1}

// A GPU is idle while the CPU launches small products. There the last bits of a score may depend on the batch.
var CUDALimits = Limits{Rows: 16384, Shared: 16384, Pixels: 96 * 3 * 336 * 336, Near: 64, Parallel: 1}

// NewLimits returns the limits. Each run of a small scorer has a core to itself: that is faster than to share each
// matrix product among cores, and its values stay in the core's cache. It also makes a score independent of the batch.
// ONNX Runtime cuts a product for its threads by the number of rows, and sums in another order if a part is narrower
// than 128 columns.
func NewLimits(smallScorer, cuda bool, threads int) Limits {
	l := largeLimits
	if cuda {
		l = CUDALimits
	}
	l.Threads = threads
	if smallScorer {
		l = Limits{
			Rows:     1024,
			Shared:   1024,
			Pixels:   1 << 18,
			Near:     1,
			Parallel: threads,
			Threads:  1,
		}
		if threads <= 0 {
			l.Parallel = runtime.NumCPU()
		}
	}
	return l
}

// rounded rounds a length up: see Limits.Near.
func (l Limits) rounded(length int) int { return (length + l.Near - 1) / l.Near * l.Near }
