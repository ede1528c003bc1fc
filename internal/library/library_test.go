package library

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWheels(t *testing.T) {
	root := t.TempDir()
	packages := []string{"assay_reward_runtime", "onnxruntime/capi"}
	var want []string
	for _, name := range packages {
		dir := filepath.Join(root, "lib", "python3.9", "site-packages", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		want = append(want, dir)
	}
	if got := wheels(filepath.Join(root, "bin"), packages); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
