package ort

import (
	"strings"
	"testing"
)

// TestCUDAEnvironment: the caller's options take precedence, the variable sets the rest, and invalid values are
// refused.
func TestCUDAEnvironment(t *testing.T) {
	t.Setenv(CUDAEnv, "memory_limit=20GB, cudnn_search=heuristic,kernels=plain")
	got, err := CUDAOptions{CudnnSearch: "default"}.orEnvironment()
	want := CUDAOptions{MemoryLimit: 20e9, CudnnSearch: "default", Kernels: "plain"}
	if err != nil || got != want {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
	for text, part := range map[string]string{"memory_limit=much": "much", "memory_limit=-1": "-1",
		"arena=requested": "arena", "tf32=1": "tf32", "kernels=fast": "fast", "cudnn_search=": ""} {
		t.Run(text, func(t *testing.T) {
			t.Setenv(CUDAEnv, text)
			_, err := CUDAOptions{}.orEnvironment()
			if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
				t.Errorf("%s: got error %v, want one with %q, or none", text, err, part)
			}
			for _, device := range []string{"", "cpu", "auto"} { // whether or not the options are used there
				if err := CheckDevice(device); part == "" && err != nil ||
					part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
					t.Errorf("%s on device %q: got error %v, want one with %q, or none", text, device, err, part)
				}
			}
		})
	}
}
