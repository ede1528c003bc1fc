package qwen25vl_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/long"
	"assay/internal/modeltest"
	_ "assay/model/families" // ASSAY_ORACLE may name packed backbones of other families
)

// TestPacked: packed checkpoints as published. Outputs of train quantize, which have a quantization.json, have their
// own test.
func TestPacked(t *testing.T) {
	long.Test(t)
	for name, dir := range modeltest.PackedFolders(t) {
		if _, err := os.Stat(filepath.Join(dir, "quantization.json")); errors.Is(err, fs.ErrNotExist) {
			t.Run(name, func(t *testing.T) { modeltest.Packed(t, dir) })
		}
	}
}
