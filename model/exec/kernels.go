package exec

import (
	"fmt"

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
			n.Plan.KernelsWhy = "the fused operators have no CUDA kernels yet"
		}
		return nil
	case KernelsPlain:
		n.Plan.KernelsWhy = "as configured"
		return nil
	case KernelsFused:
	default:
		return fmt.Errorf("kernels %q: want %s, %s or %s", want, KernelsAuto, KernelsPlain, KernelsFused)
	}
	switch {
	case n.OnCUDA():
		return fmt.Errorf("kernels: fused: the fused operators have no kernels for %s yet, only for the CPU",
			n.Plan.Device)
	case n.Plan.WithLMHead:
		return fmt.Errorf("kernels: fused: the fused operators do not attend over a cache, which generation needs")
	case n.Computes() != onnx.Float:
		return fmt.Errorf("kernels: fused: the fused operators compute in float32, not in %s", n.DType)
	}
	if _, err := ort.FusedLibrary(); err != nil && !planned {
		return fmt.Errorf("kernels: fused: %w", err)
	}
	n.Plan.Kernels, n.Plan.KernelsWhy = nn.Fused, "as configured"
	return nil
}

// Kernels says what layers are built of, and why.
func (n *Network) Kernels() string { return fmt.Sprintf("%s (%s)", n.Plan.Kernels, n.Plan.KernelsWhy) }
