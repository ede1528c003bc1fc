package quant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/packed"
	"assay/onnx"
)

// TestWeightBesidePacked: a layer stored both packed and plain is refused by name.
func TestWeightBesidePacked(t *testing.T) {
	dir := filepath.Join(packed.Unpack(t, filepath.Join("testdata", "libraries.zip")), "int4_zeros")
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := Split(raw)
	if err != nil {
		t.Fatal(err)
	}
	had, err := checkpoints.OpenFile(filepath.Join(dir, checkpoints.SingleFile))
	if err != nil {
		t.Fatal(err)
	}
	defer had.Close()
	plain := checkpoints.TensorInfo{Name: "layer.weight", Type: onnx.Float, Shape: []int64{1, 1}}
	infos := []checkpoints.TensorInfo{plain}
	for _, name := range had.Names() {
		info, _ := had.Info(name)
		infos = append(infos, info)
	}
	both := t.TempDir()
	out, err := checkpoints.NewWriter(filepath.Join(both, checkpoints.SingleFile), infos, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		data := make([]byte, 4)
		if info.Name != plain.Name {
			if data, err = had.Bytes(info.Name); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Write(info.Name, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := checkpoints.OpenWeights(both)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const want = "both layer.weight and layer.weight_packed are stored"
	if err := c.Find(w); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}
