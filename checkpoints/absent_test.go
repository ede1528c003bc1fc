package checkpoints

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/onnx"
)

// TestAbsent declares tensors for a checkpoint without weights, or with shards missing.
func TestAbsent(t *testing.T) {
	bare, partial, broken := t.TempDir(), t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(partial, IndexFile): `{"weight_map": {"x": "model-00001-of-00002.safetensors"}}`,
		filepath.Join(broken, SingleFile): "version https://git-lfs.github.com/spec/v1",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenOrAbsent(broken); err == nil {
		t.Errorf("OpenOrAbsent of a broken file: got error %v, want one", err)
	}
	for _, dir := range []string{bare, partial} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if _, err := OpenWeights(dir); err == nil {
				t.Errorf("OpenWeights of %s: got error %v, want one", dir, err)
			}
			w, err := OpenOrAbsent(dir)
			if err != nil {
				t.Fatal(err)
			}
			w.Declare("a", onnx.BFloat16, []int64{2, 3})
			w.Declare("b", onnx.Float, []int64{4})
			w.Alias("c", "b")
			info, ok := w.Info("c")
			if !w.Absent() || !ok || info.Type != onnx.Float || !slices.Equal(info.Shape, []int64{4}) || info.Offset != 12 ||
				!slices.Equal(w.Names(), []string{"a", "b"}) {
				t.Errorf("Info: got %+v of %v, want the float32 tensor b at byte 12, of a and b", info, w.Names())
			}
			if x, err := w.Tensor("a"); err != nil || x.External.Length != 12 {
				t.Errorf("Tensor(a): got %+v, %v, want 12 bytes", x, err)
			}
			_, err1 := w.Dense("a")
			_, err2 := w.Bytes("c")
			if err1 == nil || err2 == nil || w.Present() == nil {
				t.Errorf("absent weights: got errors %v, %v, want one each", err1, err2)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
