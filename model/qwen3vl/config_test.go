package qwen3vl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/model/backbone"
)

// TestRefused changes one thing in a valid checkpoint and expects an error that names it.
func TestRefused(t *testing.T) {
	const good = "../../testdata/oracle/qwen3_vl/backbone"
	for _, c := range []struct{ old, new, want string }{
		{`"patch_size": 16`, `"patch_size": 14`, "patch_size"},
		{`"num_position_embeddings": 25`, `"num_position_embeddings": 36`, "pos_embed.weight has shape [25 32]"},
		{`"num_position_embeddings": 25`, `"num_position_embeddings": 0`, "num_position_embeddings"},
		{"0,\n      2\n", "0,\n      2,\n      3\n", "deepstack_merger_list.2.norm.weight is missing"},
		{"0,\n      2\n", "0\n", "deepstack_merger_list.1.norm.weight is stored, but config.json calls for no such tensor"},
		{`"head_dim": 20`, `"head_dim": null`, "head_dim: null"},
		{`"head_dim": 20`, `"head_dim": 22`, "q_norm.weight"},
		{`"attention_bias": false`, `"attention_bias": true`, "q_proj.bias is missing"},
		{`"mrope_interleaved": true`, `"mrope_interleaved": false`, "mrope_interleaved"},
		{"4,\n        3,\n        3", "4,\n        3", "mrope_section"},
		{`"rope_type": "default"`, `"rope_type": "mrope"`, "rope_type"},
		{`"model_type": "qwen3_vl_text"`, `"model_type": "qwen3_vl_moe_text"`, "mixture of experts"},
		{`"out_hidden_size": 64`, `"out_hidden_size": 32`, "out_hidden_size 32 is not the language model's hidden_size, 64"},
		{`"head_dim": 20`, `"head_dim": 20, "num_experts": 8`, "num_experts"},
		{`"depth": 4`, `"depth": 3`, "visual.blocks.3.attn.qkv.weight is stored"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(good, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), c.old, c.new, 1)
		if changed == string(text) {
			t.Fatalf("config.json holds no %q", c.old)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := backbone.OpenBackbone(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", c.new, err, c.want)
		}
	}
}
