package exec

import (
	"testing"

	"assay/model/backbone"
)

// heads is a backbone whose heads have those sizes.
type heads struct {
	backbone.Architecture
	sizes []int
}

func (h heads) HeadSizes() []int { return h.sizes }

// TestAutoHeads: auto uses the fused operators if decoder and tower both have heads that kernels are compiled for.
func TestAutoHeads(t *testing.T) {
	for _, c := range []struct {
		name            string
		decoder, vision int
		want            string
	}{
		{"Qwen2.5-VL", 128, 80, "fused (faster on a GPU)"},
		{"Qwen3-VL", 128, 72, "fused (faster on a GPU)"},
		{"decoder", 96, 80, "plain (heads of size 96 have no GPU kernels, only [64 72 80 128] do)"},
		{"tower", 128, 88, "plain (heads of size 88 have no GPU kernels, only [64 72 80 128] do)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &Network{
				Backbone: &backbone.Backbone{Architecture: heads{sizes: []int{c.decoder, c.vision}}},
				DType:    "bfloat16",
				Plan:     Plan{Device: "cuda:0"},
			}
			if err := n.chooseKernels(KernelsAuto, true); err != nil {
				t.Fatal(err)
			}
			if got := n.Kernels().String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
