package exec

import (
	"context"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// TestCompareFused: a device whose kernels round to bfloat16 passes. One that is wrong by a little in one value does
// not, and the value is named.
func TestCompareFused(t *testing.T) {
	runs := func(change func(out map[string]*tensor.Dense)) runFused {
		return func(m *onnx.Model, half bool, in map[string]*tensor.Dense) (map[string]*tensor.Dense, error) {
			if half { // the CPU has no kernels of bfloat16
				m, _ = fusedTrial(in["qkv"].Shape()[1]/8, onnx.Float)
			}
			s, err := ort.Open(m, ort.Options{Device: "cpu"})
			if err != nil {
				return nil, err
			}
			defer s.Close()
			out, err := s.Run(context.Background(), in)
			if half && err == nil {
				change(out)
			}
			return out, err
		}
	}
	rounds := func(out map[string]*tensor.Dense) {
		for _, v := range out {
			for i, x := range v.Float32s() {
				v.Float32s()[i] = x * (1 + float32(i%5-2)/512)
			}
		}
	}
	for _, size := range nn.FusedHeads {
		if err := compareFused(size, runs(rounds)); err != nil {
			t.Errorf("heads of %d: got %v of values that are rounded, want no error", size, err)
		}
	}
	for _, name := range []string{"FlashAttention.o", "FlashAttention.lse", "FlashAttentionGrad.dk", "RopeSplitGrad.dqkv",
		"AddRMSNorm.rstd", "RMSNormGrad.dy", "SwiGLUGrad.dx"} {
		t.Run(name, func(t *testing.T) {
			err := compareFused(64, runs(func(out map[string]*tensor.Dense) {
				for i, x := range out[name].Float32s() {
					out[name].Float32s()[i] = 1.03 * x
				}
			}))
			op, value, _ := strings.Cut(name, ".")
			if want := op + " of heads of 64: " + value + " is 0.03 of its norm away"; err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
		})
	}
}
