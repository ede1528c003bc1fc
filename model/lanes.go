package model

import "runtime"

// mostSmall is the number of parameters up to which a model counts as small: a few milliseconds a pair on one core.
const mostSmall = 16 << 20

// small reports whether every run of this engine has a core to itself, as those of small scorers on the CPU have: that is faster
// than to share each matrix product among cores, and a score does not depend on what is scored beside it. (ONNX Runtime cuts a
// product for its threads by the number of rows, and sums in another order if a part is narrower than 128 columns.) Training,
// large models and GPUs have one run at a time.
func (e *engine) small() bool { return e.few && !e.tuned }

// lanes is how many runs go on side by side.
func (e *engine) lanes() int {
	switch {
	case !e.small():
		return 1
	case e.options.Threads > 0:
		return e.options.Threads
	}
	return runtime.NumCPU()
}
