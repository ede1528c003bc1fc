package released_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/oracle"
	"assay/model"
	"assay/released"
)

// TestOrigin: a scorer whose weights or base changed since it was imported is refused with the file's name, whether
// this version or an earlier one wrote its digests.
func TestOrigin(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		o := released.Options{
			Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"), Prompts: filepath.Join(dir, "prompts"),
			Config: filepath.Join(dir, all.Cases[0].Config), Out: filepath.Join(t.TempDir(), "scorer"), Copy: true,
		}
		if _, err := released.Import("editreward", o); err != nil {
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
			if err == nil || !strings.Contains(err.Error(), filepath.Base(path)) ||
				!strings.Contains(err.Error(), "scores would be another scorer's") {
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
		base := filepath.Join(o.Out, "backbone")
		refusedAll := func() {
			t.Helper()
			refused(weights[0], last)
			refused(filepath.Join(base, "config.json"), blank)
			refused(filepath.Join(base, "tokenizer.json"), blank)
		}
		refusedAll()
		refused(filepath.Join(o.Out, model.HeadFile), last)
		c := openDir(t, o.Out, "").Config()
		origin := *c.Origin
		origin.Weights, origin.Base = c.Digests.Weights, c.Digests.Backbone
		c.Origin, c.Digests = &origin, nil
		if err := model.WriteConfig(filepath.Join(o.Out, model.ConfigFile), &c); err != nil {
			t.Fatal(err)
		}
		warned := ""
		old, err := model.OpenScorer(o.Out, model.Options{Warn: func(text string) { warned += text }})
		if err != nil || !strings.Contains(warned, "has no digests of head and adapter,") {
			t.Fatalf("error %v, warned %q, want a warning about the head", err, warned)
		}
		if got := old.Config(); len(got.Origin.Weights)+len(got.Origin.Base) > 0 || len(got.Digests.Weights) == 0 {
			t.Errorf("origin %+v and digests %+v, want the digests of files in one place", got.Origin, got.Digests)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		refusedAll()
		added := filepath.Join(base, "special_tokens_map.json")
		if err := os.WriteFile(added, []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := model.OpenScorer(o.Out, model.Options{}); err == nil || !strings.Contains(err.Error(), added) {
			t.Errorf("a new file: error %v", err)
		}
	})
}
