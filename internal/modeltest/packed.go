package modeltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/model"
	"assay/model/batch"
)

// PackedFolders returns the folders of packed backbones in the fixtures quantized/ or quantized.zip, by name.
func PackedFolders(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, folder := range oracle.Folders(t) {
		root := filepath.Join(folder, "quantized")
		if _, err := os.Stat(root); err != nil {
			root = unpackQuantized(t, folder)
		}
		files, err := filepath.Glob(filepath.Join(root, "*", "scorer"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s holds no packed backbones: %v", root, err)
		}
		for _, f := range files {
			dir := filepath.Dir(f)
			out[filepath.Base(folder)+"/"+filepath.Base(dir)] = dir
		}
	}
	return out
}

// unpackQuantized restores the folder layout of quantized.zip: next to the pictures and backbones that it refers to,
// with the shared weights linked into each of its backbones.
func unpackQuantized(t *testing.T, folder string) string {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "quantized")
	if err := os.Rename(packed.Unpack(t, filepath.Join(folder, "quantized.zip")), root); err != nil {
		t.Fatal(err)
	}
	link := func(from, to string) {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, beside := range []string{"images", "qwen2_5_vl"} {
		link(filepath.Join(folder, beside), filepath.Join(top, beside))
	}
	indices, _ := filepath.Glob(filepath.Join(root, "*", "backbone", "*.index.json"))
	for _, index := range indices {
		link(filepath.Join(root, "shared.safetensors"), filepath.Join(filepath.Dir(index), "shared.safetensors"))
	}
	return root
}

// Packed compares scores, losses and the gradients of all trained tensors on a packed backbone with the results of
// PyTorch on the dequantised weights.
func Packed(t *testing.T, dir string) {
	expect := oracle.Tensors(t, filepath.Join(dir, "expect.safetensors"))
	for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(dir, "cases.json")) {
		r := &reference{c, dir, expect}
		s := openScorer(t, r.scorer())
		sample := r.sample(t, s)
		scores, err := s.Score01(context.Background(), []*batch.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		checkScore(t, s, scores[0], r)
		r.export(t, openExport(t, r.scorer()))
		for _, o := range []model.TuneOptions{{}, {Recompute: true}} {
			t.Run(fmt.Sprintf("case %d, recompute=%v", c.ID, o.Recompute), func(t *testing.T) {
				r.step(t, openTuner(t, r.scorer(), o))
			})
		}
	}
}
