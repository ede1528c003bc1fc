package llavanext

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/model"
)

// changed copies the oracle's checkpoint and its scorer, with one change in config.json or another file.
func changed(t *testing.T, file, old, new string) (scorer string) {
	t.Helper()
	const from = "../../testdata/oracle/llavanext"
	dir := t.TempDir()
	for _, name := range []string{"backbone", "scorer"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(from, name))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "backbone", file)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), old, new, 1)
	if text == string(raw) {
		t.Fatalf("%s holds no %q", file, old)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "scorer")
}

// TestRefused: settings that transformers would compute differently, or not at all, are rejected with an error that
// names them.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"config.json", `"image_token_index": 744`, `"image_token_index": 745`, "<image> is token 744"},
		{"config.json", `"vision_feature_select_strategy": "default"`, `"vision_feature_select_strategy": "full"`, "full"},
		{"config.json", `"vision_feature_layer": -2`, `"vision_feature_layer": [-2, 9]`, "[-2 9] is outside the 3 layers"},
		{"config.json", `"vision_feature_layer": -2`, `"vision_feature_layer": [-2, 1]`,
			"linear_1.weight has shape [64 32]; it should be [64 64]"},
		{"config.json", `"model_type": "clip_vision_model"`, `"model_type": "siglip_vision_model"`, "siglip_vision_model"},
		{"config.json", `"text_config": {`, `"text_config": {"residual_multiplier": 0.5,`, "residual_multiplier"},
		{"config.json", `"multimodal_projector_bias": true`, `"multimodal_projector_bias": false`,
			"linear_1.bias is stored, but config.json calls for no such tensor"},
		{"processor_config.json", `"num_additional_image_tokens": 1`, `"num_additional_image_tokens": 0`,
			"num_additional_image_tokens"},
		{"processor_config.json", `"patch_size": 14`, `"patch_size": 7`, "patch_size"},
		{"processor_config.json", `"resample": 3`, `"resample": 3, "crop_pct": 0.9`, "crop_pct"},
	} {
		s, err := model.OpenScorer(changed(t, c.file, c.old, c.new), model.Options{})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: error %v, want one about %q", c.file, c.new, err, c.want)
		}
	}
}

// TestAttentionDropout: attention dropout does not change scores, but it would change training.
func TestAttentionDropout(t *testing.T) {
	dir := changed(t, "config.json", `"attention_dropout": 0.0`, `"attention_dropout": 0.1`)
	s, err := model.OpenScorer(dir, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	p, err := model.LoadScorerState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if tuner, err := model.NewTuner(p, model.TuneOptions{}); err == nil ||
		!strings.Contains(err.Error(), "attention_dropout 0.1") {
		t.Errorf("error %v", err)
		if err == nil {
			tuner.Close()
		}
	}
}
