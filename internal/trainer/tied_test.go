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

// tiedTo copies a checkpoint and stores lm_head in it; tied says whether its configuration ties it to the embedding.
func tiedTo(t *testing.T, fixture, tied string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	stored := oracle.Tensors(t, filepath.Join(fixture, checkpoints.SingleFile))
	stored["lm_head.weight"] = stored["model.embed_tokens.weight"]
	config := strings.ReplaceAll(mustRead(t, filepath.Join(fixture, "config.json")),
		`"tie_word_embeddings": false`, `"tie_word_embeddings": `+tied)
	own := filepath.Join(dir, checkpoints.SingleFile)
	if err := errors.Join(os.CopyFS(dir, os.DirFS(fixture)), os.Remove(own), checkpoints.WriteFile(own, stored, nil),
		os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTiedTables: modules_to_save unties the tables of the vocabulary, as in PEFT. Over a tied checkpoint that also
// stores lm_head, a run is the same as over an untied one with the same tensors.
func TestTiedTables(t *testing.T) {
	long.Test(t)
	fixture := filepath.Join(oracle.Folders(t)[0], "qwen2_5_vl", "backbone")
	for _, table := range []string{"lm_head", "embed_tokens"} {
		var scorers [2]string
		for i, tied := range []string{"true", "false"} {
			dir := tiedTo(t, fixture, tied)
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

// TestTiesWeights: an adapter with ensure_weight_tying and a table is refused over a tied checkpoint, where PEFT trains
// one table in both places, and read over an untied one, where the field changes nothing.
func TestTiesWeights(t *testing.T) {
	fixture := filepath.Join(oracle.Folders(t)[0], "qwen2_5_vl", "backbone")
	for tied, want := range map[string]string{"true": "ensure_weight_tying", "false": ""} {
		dir, adapter := tiedTo(t, fixture, tied), t.TempDir()
		extra := "lora: {modules_to_save: [embed_tokens]}\n"
		write := func(path, text string) {
			if err := os.WriteFile(path, []byte(strings.Replace(text, fixture, dir, 1)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		path := pictureRun(t, "qwen2_5_vl", extra)
		write(path, mustRead(t, path))
		r, err := plainTrain(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(adapter, lora.WeightsFile), mustRead(t, filepath.Join(r.Scorer, lora.WeightsFile)))
		config := mustRead(t, filepath.Join(r.Scorer, lora.ConfigFile))
		with := strings.Replace(config, `"ensure_weight_tying": false`, `"ensure_weight_tying": true`, 1)
		if with == config {
			t.Fatal("the adapter's configuration has no ensure_weight_tying: false")
		}
		write(filepath.Join(adapter, lora.ConfigFile), with)
		path = pictureRun(t, "qwen2_5_vl", "init: "+adapter+"\n")
		write(path, mustRead(t, path))
		_, err = plainTrain(path, Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("tie_word_embeddings %s: got %v, want %q", tied, err, want)
		}
	}
}
