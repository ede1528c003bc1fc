package quantize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/long"
	"assay/onnx"
)

// TestNothingPacks: a checkpoint whose layers do not fill words is refused before anything is written.
func TestNothingPacks(t *testing.T) {
	dir := t.TempDir()
	info := checkpoints.TensorInfo{Name: "layers.0.weight", Type: onnx.Float, Shape: []int64{6, 6}}
	w, err := checkpoints.NewWriter(filepath.Join(dir, checkpoints.SingleFile), []checkpoints.TensorInfo{info}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(info.Name, make([]byte, 4*36)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	weights, err := checkpoints.OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	r := &run{Options: Options{Backbone: dir, Bits: 4}, w: weights, layers: map[string]bool{info.Name: true}}
	if err := r.checkPacks(); err == nil || !strings.Contains(err.Error(), "layers.0.weight: 6 x 6 values do not fill") {
		t.Error(err)
	}
}

// TestLock: the second of two runs for one folder reports the problem, and the first one's lock file is removed.
func TestLock(t *testing.T) {
	long.Test(t) // waits for a lock
	out := filepath.Join(t.TempDir(), "out")
	unlock, err := lock(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(out); err == nil || !strings.Contains(err.Error(), "another process is writing") {
		t.Error(err)
	}
	unlock()
	if again, err := lock(out); err != nil {
		t.Error(err)
	} else {
		again()
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
		t.Error(left)
	}
}
