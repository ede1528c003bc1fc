package trainer

import (
	"testing"

	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
)

// TestKernelsOfResumed: a run on a GPU keeps the kernels that auto chose at its start; earlier versions used plain
// kernels.
func TestKernelsOfResumed(t *testing.T) {
	with := func(kernels string) *checkpoint.State {
		return &checkpoint.State{Identity: checkpoint.Identity{Kernels: kernels}}
	}
	for _, c := range []struct {
		device, want string
		old          *checkpoint.State
		kernels      string
	}{
		{"cuda:0", "", nil, ""},
		{"cuda:0", "auto", nil, "auto"},
		{"cuda:0", "auto", with("fused"), "fused"},
		{"cuda:1", "", with("plain"), "plain"},
		{"cuda:0", "", with(""), "plain"},
		{"cuda:0", "fused", with("plain"), "fused"},
		{"cpu", "", with("fused"), ""},
	} {
		run := &config.Config{Device: c.device, DeviceOptions: config.DeviceOptions{Kernels: c.want}}
		if got := kernels(run, c.old); got != c.kernels {
			t.Errorf("%s, configured %q, begun with %+v: got %q, want %q", c.device, c.want, c.old, got, c.kernels)
		}
	}
}
