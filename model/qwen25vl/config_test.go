package qwen25vl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/checkpoints"
)

// TestRefused changes one thing in a good checkpoint and expects an error that names it.
func TestRefused(t *testing.T) {
	const good = "../../testdata/oracle/qwen2_5_vl/backbone"
	w, err := checkpoints.OpenWeights(good)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, c := range []struct{ file, old, new, want string }{
		{"config.json", `"patch_size": 14`, `"patch_size": 16`, "patch_embed"},
		{"config.json", `"window_size": 56`, `"window_size": 20`, "window_size"},
		{"config.json", `"num_heads": 2`, `"num_heads": 3`, "heads"},
		{"config.json", `"hidden_size": 64`, `"hidden_size": 66`, "hidden_size"},
		{"config.json", "2,\n        3,\n        3", "2,\n        3,\n        4", "mrope_section"},
		{"config.json", `"rope_type": "default"`, `"rope_type": "yarn"`, "yarn"},
		{"config.json", `"use_sliding_window": false`, `"use_sliding_window": true, "max_window_layers": 1`, "sliding window"},
		{"preprocessor_config.json", `"merge_size": 2`, `"merge_size": 3`, "merge_size"},
		{"preprocessor_config.json", `"resample": 3`, `"resample": 2`, "resample"},
		{"preprocessor_config.json", `"do_normalize": true`, `"do_normalize": false`, "do_normalize"},
		{"preprocessor_config.json", `"shortest_edge": 3136`, `"shortest_edge": 20000`, "pixels"},
	} {
		dir := t.TempDir()
		var config json.RawMessage
		for _, name := range []string{"config.json", "preprocessor_config.json"} {
			text, err := os.ReadFile(filepath.Join(good, name))
			if err != nil {
				t.Fatal(err)
			}
			if name == c.file {
				changed := strings.Replace(string(text), c.old, c.new, 1)
				if changed == string(text) {
					t.Fatalf("%s holds no %q", name, c.old)
				}
				text = []byte(strings.Replace(changed, `"max_window_layers": 80,`, "", 1))
			}
			if name == "config.json" {
				config = text
			} else if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := open(dir, config, w); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: error %v, want one about %q", c.file, c.new, err, c.want)
		}
	}
}
