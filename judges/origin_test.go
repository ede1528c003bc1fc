package judges_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/oracle"
	"assay/judges"
	"assay/model"
)

// TestOrigin: a scorer whose weights or base were changed since it was imported is refused by the file's name.
func TestOrigin(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		o := judges.Options{
			Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"), Prompts: filepath.Join(dir, "prompts"),
			Config: filepath.Join(dir, all.Cases[0].Config), Out: filepath.Join(t.TempDir(), "scorer"), Copy: true,
		}
		if _, err := judges.Import("editreward", o); err != nil {
			t.Fatal(err)
		}
		refused := func(path string, change func(raw []byte) []byte) {
			t.Helper()
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(append([]byte{}, raw...)), 0o666); err != nil {
				t.Fatal(err)
			}
			s, err := model.OpenScorer(o.Out, model.Options{})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), filepath.Base(path)) || !strings.Contains(err.Error(), "import") {
				t.Errorf("%s: error %v", path, err)
			}
			if err := os.WriteFile(path, raw, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		weights, err := filepath.Glob(filepath.Join(o.Out, "weights", "*.safetensors"))
		if err != nil || len(weights) == 0 {
			t.Fatal(weights, err)
		}
		last := func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw }
		blank := func(raw []byte) []byte { return append(raw, '\n') }
		refused(weights[0], last)
		base := filepath.Join(o.Out, "backbone")
		refused(filepath.Join(base, "config.json"), blank)
		refused(filepath.Join(base, "tokenizer.json"), blank)
		openDir(t, o.Out, "")
		added := filepath.Join(base, "special_tokens_map.json")
		if err := os.WriteFile(added, []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := model.OpenScorer(o.Out, model.Options{}); err == nil || !strings.Contains(err.Error(), added) {
			t.Errorf("a new file: error %v", err)
		}
	})
}
