package captions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelKeys: device, dtype and cache of a local model.
func TestModelKeys(t *testing.T) {
	load := func(model string) (*Config, error) {
		path := filepath.Join(t.TempDir(), "captions.yaml")
		text := "in: a.jsonl\nout: b.jsonl\nmodel: {backbone: c" + model + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := Load(path)
		return c, err
	}
	c, err := load("")
	if err != nil || c.Model.Device != "auto" || c.Model.DType != "auto" || c.Model.Cache != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = load(", device: 'cuda:1', dtype: bfloat16, cache: 1000")
	if err != nil || c.Model.Device != "cuda:1" || c.Model.DType != "bfloat16" || c.Model.Cache != 1000 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = load(", cache: 4GiB"); err != nil || c.Model.Cache != 4<<30 {
		t.Errorf("%+v, %v", c, err)
	}
	for model, want := range map[string]string{
		", cache: much": "model.cache",
		", device: tpu": "model.device", ", dtype: int4": "model.dtype", ", cache: -1": "model.cache",
	} {
		if _, err := load(model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", model, err)
		}
	}
}
