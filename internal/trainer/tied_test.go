package trainer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/lora"
)

// TestTiedTables: modules_to_save unties the tables of the vocabulary, as in PEFT. Over a tied checkpoint that also
// stores lm_head, a run is the same as over an untied one with the same tensors.
func TestTiedTables(t *testing.T) {
	long.Test(t)
	fixture := filepath.Join(oracle.Folders(t)[0], "qwen2_5_vl", "backbone")
	file := filepath.Join(fixture, checkpoints.SingleFile)
	for _, table := range []string{"lm_head", "embed_tokens"} {
		var scorers [2]string
		for i, tied := range []string{"true", "false"} {
			dir := t.TempDir()
			stored := oracle.Tensors(t, file)
			stored["lm_head.weight"] = stored["model.embed_tokens.weight"]
			config := strings.ReplaceAll(mustRead(t, filepath.Join(fixture, "config.json")),
				`"tie_word_embeddings": false`, `"tie_word_embeddings": `+tied)
			own := filepath.Join(dir, checkpoints.SingleFile)
			if err := errors.Join(os.CopyFS(dir, os.DirFS(fixture)), os.Remove(own),
				checkpoints.WriteFile(own, stored, nil),
				os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666)); err != nil {
				t.Fatal(err)
			}
			path := pictureRun(t, "qwen2_5_vl", "lora: {modules_to_save: ["+table+"]}\noptimizer: {lr: 0.01}\n")
			text := strings.Replace(strings.Replace(mustRead(t, path), fixture, dir, 1), "steps: 1", "steps: 2", 1)
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			r, err := plainTrain(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			scorers[i] = filepath.Join(r.Scorer, lora.WeightsFile)
		}
		untied := oracle.Tensors(t, scorers[1])
		for name, got := range oracle.Tensors(t, scorers[0]) {
			if want := untied[name]; want == nil || !slices.Equal(got.Float32s(), want.Float32s()) {
				t.Errorf("modules_to_save %s: %s of a tied checkpoint differs from that of an untied one, want the same", table,
					name)
			}
		}
	}
}
