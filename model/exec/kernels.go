package exec

import (
	"fmt"
	"slices"

	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Kernel choices of [Options].
const (
	KernelsAuto  = "auto"  // fused where a GPU has kernels of them, else plain
	KernelsPlain = "plain" // operators of ONNX and of the runtime
	KernelsFused = "fused" // those of libassay_ops.so; an error where they cannot be used
)

// chooseKernels decides what layers are built of. The CPU's kernels of fused operators are plain loops, for tests: auto
// is plain there, so that results keep their bits.
func (n *Network) chooseKernels(want string, planned bool) error {
	switch want {
	case "", KernelsAuto:
		if n.Plan.KernelsWhy = "results on the CPU keep their bits"; n.OnCUDA() {
			n.Plan.KernelsWhy = "fused ones were not measured on a GPU yet: set kernels: fused to try them"
		}
		return nil
	case KernelsPlain:
		n.Plan.KernelsWhy = "as configured"
		return nil
	case KernelsFused:
	default:
		return fmt.Errorf("kernels %q: want %s, %s or %s", want, KernelsAuto, KernelsPlain, KernelsFused)
	}
	computes := onnx.Float
	if n.OnCUDA() {
		computes = onnx.BFloat16
	}
	switch {
	case n.Plan.WithLMHead:
		return fmt.Errorf("kernels: fused: the fused operators do not attend over a cache, which generation needs")
	case n.Computes() != computes:
		return fmt.Errorf("kernels: fused: the fused operators compute in %s on %s, not in %s", computes, n.Plan.Device,
			n.DType)
	case planned:
	case n.OnCUDA() && !slices.Contains(nn.FusedHeads, n.Backbone.Decoder().HeadDim):
		return fmt.Errorf("kernels: fused: heads have %d numbers, and the kernels for GPUs are for %v",
			n.Backbone.Decoder().HeadDim, nn.FusedHeads)
	case n.OnCUDA():
		if err := checkFused(n.Plan.Device); err != nil {
			return fmt.Errorf("kernels: fused: %w", err)
		}
	default:
		if _, err := ort.FusedLibrary(); err != nil {
			return fmt.Errorf("kernels: fused: %w", err)
		}
	}
	n.Plan.Kernels, n.Plan.KernelsWhy = nn.Fused, "as configured"
	return nil
}

// Kernels says what layers are built of, and why.
func (n *Network) Kernels() string { return fmt.Sprintf("%s (%s)", n.Plan.Kernels, n.Plan.KernelsWhy) }
