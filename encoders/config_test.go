package encoders

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/packed"
	"assay/internal/strictjson"
)

func readConfig(t *testing.T, path string) *strictjson.Object {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o, err := strictjson.Parse("config.json", raw)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Every key of the published encoders is known.
func TestPublishedConfigs(t *testing.T) {
	folder := packed.Unpack(t, "testdata/published.zip")
	for _, c := range []struct {
		name                               string
		resize, width, text, context, grid int
		end                                int64
	}{
		{"clip-vit-base-patch16", 224, 768, 512, 77, 14, 2},
		// text_config_dict takes precedence over text_config, with the class's defaults
		{"clip-vit-large-patch14", 224, 1024, 768, 77, 16, 49407},
		{"dinov2-base", 256, 768, 0, 0, 37, 0},
	} {
		dir := filepath.Join(folder, c.name)
		p, err := readProcessor(dir)
		if err != nil {
			t.Error(err)
		} else if p.resize.Shortest != c.resize || p.height != 224 || p.width != 224 {
			t.Errorf("%s: pictures %+v", c.name, p)
		}
		o := readConfig(t, filepath.Join(dir, "config.json"))
		if strings.HasPrefix(c.name, "dino") {
			d := readDINOConfig(o)
			if o.Err() != nil || d.Hidden != c.width || d.image[0]/d.patch != c.grid || d.Intermediate != 4*d.Hidden {
				t.Errorf("%s: %+v, %v", c.name, d, o.Err())
			}
			continue
		}
		d := readCLIPConfig(o)
		if o.Err() != nil || d.vision.Hidden != c.width || d.text.Hidden != c.text || d.context != c.context ||
			d.image/d.patch != c.grid || d.end != c.end {
			t.Errorf("%s: %+v, %v", c.name, d, o.Err())
		}
	}
}

// TestNullCrop: as in transformers, crop_size may be null exactly if nothing is cropped.
func TestNullCrop(t *testing.T) {
	for text, want := range map[string]bool{
		`{"do_center_crop": false, "size": {"height": 8, "width": 8}, "crop_size": null}`: true,
		`{"do_center_crop": true, "size": {"height": 8, "width": 8}, "crop_size": null}`:  false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if p, err := readProcessor(dir); (err == nil) != want || want && (p.height != 8 || p.width != 8) {
			t.Errorf("%s: got %+v, %v, want 8 x 8 pixels: %t", text, p, err, want)
		}
	}
}

// The configuration is checked against the weights, and unused settings are errors.
func TestRefusedConfigs(t *testing.T) {
	for _, c := range []struct{ from, old, new, want string }{
		{"tiny-clip", `"vocab_size": `, `"vocab_size": 1`, "token_embedding"},
		{"tiny-clip", `"model_type": "clip_text_model",`, `"model_type": "clip_text_model", "rope_theta": 10000,`,
			"rope_theta"},
		{"tiny-clip", `"hidden_act": "quick_gelu"`, `"hidden_act": "prelu"`, "prelu"},
		{"tiny-clip", `"dtype": "float32"`, `"dtype": "float32", "quantization_config": {}`, "quantization_config"},
		{"tiny-dino", `"qkv_bias": true`, `"qkv_bias": false`, "qkv_bias"},
		{"tiny-dino", `"mlp_ratio": `, `"mlp_ratio": 1`, "mlp.fc1"},
		{"tiny-dino", `"use_swiglu_ffn": false`, `"use_swiglu_ffn": true`, "gate_proj"},
		{"tiny-dino", `"num_channels": 3`, `"num_channels": 4`, "num_channels"},
		{"tiny-dino", `"hidden_size": `, `"hidden_size": "x", "width": `, "hidden_size"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("../backbones", c.from))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "config.json")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(raw), c.old, c.new, 1)
		if changed == string(raw) {
			t.Fatalf("%s holds no %q", c.from, c.old)
		}
		if err := os.WriteFile(file, []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := Open(dir, Options{})
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: error %v, want one about %q", c.from, c.new, err, c.want)
		}
	}
}
