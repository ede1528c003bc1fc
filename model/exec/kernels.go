package exec

import (
	"errors"
	"fmt"
	"slices"

	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Kernel choices of [Options].
const (
	KernelsAuto  = "auto"  // fused if there are kernels for the GPU, else plain
	KernelsPlain = "plain" // operators of ONNX and the runtime
	KernelsFused = "fused" // operators of libassay_ops.so; an error if they cannot be used
)

// chooseKernels selects the operators that layers are built from. The CPU kernels of fused operators are simple loops,
// for tests: auto means plain there, so that results keep their bits.
func (n *Network) chooseKernels(want string, planned bool) error {
	if want == "" && n.OnCUDA() {
		var err error
		if want, err = ort.KernelsOfEnvironment(); err != nil {
			return err
		}
	}
	switch want {
	case "", KernelsAuto:
		if !n.OnCUDA() {
			n.Plan.KernelsWhy = "results on the CPU keep their bits"
		} else if err := n.fusable(planned, false); err != nil {
			n.Plan.KernelsWhy, n.Plan.KernelsWrong = err.Error(), errors.Is(err, errWrongKernels)
		} else {
			n.Plan.Kernels, n.Plan.KernelsWhy = nn.Fused, "faster on a GPU"
		}
	case KernelsPlain:
		n.Plan.KernelsWhy = "as configured"
	case KernelsFused:
		if err := n.fusable(planned, planned); err != nil {
			if errors.Is(err, errWrongKernels) {
				err = fmt.Errorf("%w: set kernels: plain", err)
			}
			return fmt.Errorf("kernels: fused: %w", err)
		}
		n.Plan.Kernels, n.Plan.KernelsWhy = nn.Fused, "as configured"
	default:
		return fmt.Errorf("kernels %q: want %s, %s or %s", want, KernelsAuto, KernelsPlain, KernelsFused)
	}
	return nil
}

// fusable returns why layers cannot be built from the fused operators. planned: the device is not on this machine, and
// may have the library. anySize: head sizes without a kernel are accepted too.
func (n *Network) fusable(planned, anySize bool) error {
	computes := onnx.Float
	if n.OnCUDA() {
		computes = onnx.BFloat16
	}
	switch {
	case n.Plan.WithLMHead:
		return errors.New("the fused operators do not attend over a cache, which generation needs")
	case n.Computes() != computes:
		return fmt.Errorf("the fused operators compute in %s on %s, not in %s", computes, n.Plan.Device, n.DType)
	}
	sizes := n.Backbone.HeadSizes()
	for _, size := range sizes {
		if n.OnCUDA() && !anySize && !slices.Contains(nn.FusedHeads, size) {
			return fmt.Errorf("heads of size %d have no GPU kernels, only %v do", size, nn.FusedHeads)
		}
	}
	switch {
	case planned:
		return nil
	case n.OnCUDA():
		return checkFused(n.Plan.Device, sizes)
	}
	_, err := ort.FusedLibrary()
	return err
}

// Kernels returns the operators that layers are built from, and why.
func (n *Network) Kernels() Kernels { return Kernels{n.Plan.Kernels, n.Plan.KernelsWhy} }

// Kernels are the operators that layers are built from, and the reason for the choice.
type Kernels struct {
	Used nn.Kernels
	Why  string
}

// String returns, for example, "fused (faster on a GPU)".
func (k Kernels) String() string { return fmt.Sprintf("%s (%s)", k.Used, k.Why) }
