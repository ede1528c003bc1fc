package families

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/packed"
	"assay/model/backbone"
)

// published lists configurations of checkpoints on the Hub and their numbers of parameters.
var published = map[string]int64{
	"llava-v1.6-mistral-7b-hf": 7566747648,
	"llama3-llava-next-8b-hf":  8355276800,
	"Qwen2-VL-7B-Instruct":     8291375616,
	"Qwen3-VL-4B-Instruct":     4437815808,
	"Qwen3-VL-8B-Instruct":     8767123696,
	"Qwen2.5-VL-3B-Instruct":   3754622976,
	"Qwen2.5-VL-7B-Instruct":   8292166656,
	"Qwen2.5-VL-32B-Instruct":  33452718336,
	"Qwen2.5-VL-72B-Instruct":  73410777344,
}

// configurations is an archive with files of these checkpoints.
const configurations = "testdata/published.zip"

// Every key of a published configuration is known, and the configuration yields the checkpoint's number of parameters.
func TestPublished(t *testing.T) {
	folder := packed.Unpack(t, configurations)
	for name, want := range published {
		b, err := backbone.DescribeBackbone(filepath.Join(folder, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var n int64
		for _, p := range b.Parameters() {
			size := int64(1)
			for _, d := range p.Shape {
				size *= d
			}
			n += size
		}
		if n != want {
			t.Errorf("%s: %d parameters, want %d", name, n, want)
		}
		b.Close()
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != len(published) {
		t.Errorf("%d folders, %v", len(entries), err)
	}
}

// A checkpoint of Qwen2.5-VL's architecture with another language model: MiMo-7B's sizes and its additional
// configuration keys. Keys that transformers would ignore are refused if their values differ from what it computes.
func TestOtherLanguageModel(t *testing.T) {
	raw, folder := packed.File(t, configurations, "Qwen2.5-VL-72B-Instruct/config.json"), packed.Unpack(t, configurations)
	for change, want := range map[string]string{
		"":                              "",
		`"attention_bias": false`:       "attention_bias",
		`"head_dim": 64`:                "head_dim",
		`"num_nextn_predict_layers": 1`: "num_nextn_predict_layers",
	} {
		var config map[string]any
		if err := json.Unmarshal(raw, &config); err != nil {
			t.Fatal(err)
		}
		mimo := `{"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 32,
			"num_key_value_heads": 8, "head_dim": 128, "rope_theta": 640000, "vocab_size": 151680, "attention_bias": true,
			"rms_norm_eps": 1e-05, "max_window_layers": 36}`
		for _, keys := range []string{mimo, "{" + change + "}"} {
			if err := json.Unmarshal([]byte(keys), &config); err != nil {
				t.Fatal(err)
			}
		}
		config["vision_config"].(map[string]any)["out_hidden_size"] = 4096
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(folder, "Qwen2.5-VL-7B-Instruct"))); err != nil {
			t.Fatal(err)
		}
		changed, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), changed, 0o666); err != nil {
			t.Fatal(err)
		}
		b, err := backbone.DescribeBackbone(dir)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", change, err, want)
		}
		if err == nil {
			b.Close()
		}
	}
}

// An unsupported model type is refused; the error names it and what would be missing.
func TestLacking(t *testing.T) {
	for kind, want := range map[string]string{
		"qwen3_vl_moe": "mixture of experts",
		"qwen3_5":      "linear attention",
		"internvl":     "InternViT",
		"something":    "llava_next, qwen2_5_vl, qwen2_vl, qwen3_vl are",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "`+kind+`"}`), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := backbone.DescribeBackbone(dir)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), kind) {
			t.Errorf("%s: error %v, want one about %q", kind, err, want)
		}
	}
}
