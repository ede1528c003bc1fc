package quant

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/oracle"
	"assay/internal/packed"

	"github.com/google/go-cmp/cmp"
)

// TestRenamed: packed layers are found under the aliases of tensors.
func TestRenamed(t *testing.T) {
	root := packed.Unpack(t, filepath.Join("testdata", "libraries.zip"))
	for _, name := range []string{"nf4_double", "int4_zeros", "fp8_channel"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name)
			raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			c, _, err := Split(raw)
			if err != nil {
				t.Fatal(err)
			}
			w, err := checkpoints.OpenWeights(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			err = w.Rename(func(stored string) (string, bool) {
				return strings.Replace(stored, "layer.", "model.layer.", 1), true
			})
			if err == nil {
				err = c.Find(w)
			}
			if err != nil {
				t.Fatalf("%s: Find: got error %v, want none", name, err)
			}
			got, err := w.Dense("model.layer.weight")
			if err != nil {
				t.Fatal(err)
			}
			want := oracle.Floats(t, oracle.Tensors(t, filepath.Join(dir, "dequantized.safetensors")), "layer.weight")
			if !slices.Equal(got.Data().([]float32), want) {
				t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(any(want), got.Data()))
			}
			if bad, what, err := w.NonFinite(); bad != "" || err != nil {
				t.Errorf("%s: NonFinite: got %q in %q, %v, want nothing", name, what, bad, err)
			}
		})
	}
}
