package qwen25vl_test

import (
	"path"
	"testing"

	"assay/internal/long"
	"assay/internal/modeltest"
)

// TestPacked: GPTQ's and AWQ's checkpoints as published. int4 is what train quantize makes: see its own test.
func TestPacked(t *testing.T) {
	long.Test(t)
	for name, dir := range modeltest.PackedFolders(t) {
		if path.Base(name) != "int4" {
			t.Run(name, func(t *testing.T) { modeltest.Packed(t, dir) })
		}
	}
}
