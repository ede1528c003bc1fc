package qwen25vl

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/model/backbone"
)

// TestRefused changes one thing in a valid checkpoint and expects an error that names it.
func TestRefused(t *testing.T) {
	const good = "../../testdata/oracle/qwen2_5_vl/backbone"
	for _, c := range []struct{ file, old, new, want string }{
		{"config.json", `"patch_size": 14`, `"patch_size": 16`, "patch_size"},
		{"config.json", `"window_size": 56`, `"window_size": 20`, "window_size"},
		{"config.json", `"num_heads": 2`, `"num_heads": 3`, "heads"},
		{"config.json", `"hidden_size": 64`, `"hidden_size": 66`, "4 heads of 16 do not make up hidden_size 66"},
		{"config.json", "2,\n        3,\n        3", "2,\n        3,\n        4", "mrope_section"},
		{"config.json", `"rope_type": "default"`, `"rope_type": "longrope"`, "longrope"},
		{"config.json", `"full_attention"`, `"sliding_attention"`, "use_sliding_window"},
		{"config.json", `"full_attention"`, `"chunked_attention"`, "chunked_attention"},
		{"config.json", `"vision_config": {`, `"vision_config": {"num_registers": 4,`, "num_registers"},
		{"config.json", `"dtype": "float32",`, `"dtype": "float32", "quantization_config": {"quant_method": "awq"},`,
			"quantization_config"},
		{"config.json", `"vocab_size": `, `"vocab_size": 1`, "embed_tokens.weight has shape"},
		{"config.json", `"vocab_size": 761`, `"vocab_size": 761, "tie_weights": 1`, "tie_weights"},
		{"config.json", `"num_hidden_layers": 3`, `"num_hidden_layers": 2`, "layer_types: 3 entries for 2 layers"},
		{"config.json", `"depth": 4`, `"depth": 3`,
			"visual.blocks.3.mlp.down_proj.weight is stored, but config.json calls for no such tensor"},
		{"config.json", `"num_hidden_layers": 3`, `"num_hidden_layers": "3"`, `num_hidden_layers: "3": want int`},
		{"preprocessor_config.json", `"merge_size": 2`, `"merge_size": 3`, "merge_size"},
		{"preprocessor_config.json", `"resample": 3`, `"resample": 2`, "resample"},
		{"preprocessor_config.json", `"do_normalize": true`, `"do_normalize": false`, "do_normalize"},
		// to transformers, null is false
		{"preprocessor_config.json", `"do_normalize": true`, `"do_normalize": null`, "do_normalize: null"},
		{"preprocessor_config.json", `"do_rescale": true`, `"do_rescale": null`, "do_rescale: null"},
		{"preprocessor_config.json", `"resample": 3`, `"resample": null, "image_mean": null`, "image_mean: null"},
		{"preprocessor_config.json", `"resample": 3`, `"resample": 3, "image_std": 0`, "image_std"},
		{"preprocessor_config.json", `"shortest_edge": 3136`, `"shortest_edge": 20000`, "pixels"},
	} {
		dir := t.TempDir()
		if err := atomicfile.Copy(
			filepath.Join(good, checkpoints.SingleFile),
			filepath.Join(dir, checkpoints.SingleFile),
		); err != nil {
			t.Fatal(err)
		}
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
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := backbone.OpenBackbone(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: error %v, want one about %q", c.file, c.new, err, c.want)
		}
	}
}

// TestOneColour: a number is the mean or deviation of all three colours.
func TestOneColour(t *testing.T) {
	const good = "../../testdata/oracle/qwen2_5_vl/backbone"
	var got [2]backbone.ProcessorConfig
	for i, spelled := range []string{`"image_mean": 0.5, "image_std": 0.25`,
		`"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]`} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		text := `{"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2, ` + spelled + "}"
		if err := os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		b, err := backbone.OpenBackbone(dir)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = b.Processor()
		b.Close()
	}
	if !reflect.DeepEqual(got[0], got[1]) || got[0].ImageMean != [3]float32{0.5, 0.5, 0.5} {
		t.Errorf("with one number for all colours: %+v, with three: %+v, want the same", got[0], got[1])
	}
}

// TestAdapterInside: transformers puts an adapter in the folder of a checkpoint over the weights, so such a folder is
// refused, unless it is a scorer directory: then the adapter is the scorer's.
func TestAdapterInside(t *testing.T) {
	const family = "../../testdata/oracle/qwen2_5_vl"
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(family, "backbone"))); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ file, want string }{
		{"adapter_config.json", "adapter_config.json: transformers would load both"},
		{"scorer.yaml", ""},
	} {
		if err := atomicfile.Copy(filepath.Join(family, "scorer", step.file), filepath.Join(dir, step.file)); err != nil {
			t.Fatal(err)
		}
		b, err := backbone.OpenBackbone(dir)
		if err == nil {
			b.Close()
		}
		if got := fmt.Sprint(err); (err == nil) != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("with %s: got error %v, want %q", step.file, err, step.want)
		}
	}
}
