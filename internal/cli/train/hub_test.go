package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/hub/hubtest"
	"assay/internal/oracle"
)

// TestTrainByName: a run over a checkpoint that it names by org/name makes the same weights as one over the folder, and
// its scorer names the checkpoint with its commit.
func TestTrainByName(t *testing.T) {
	folder := filepath.Join(oracle.Folders(t)[0], "llavanext", "backbone")
	files, err := hubtest.Files(folder)
	if err != nil {
		t.Fatal(err)
	}
	commit := hubtest.Commit("checkpoint")
	s := hubtest.Start(&hubtest.Repo{Kind: "model", ID: "org/checkpoint", Refs: map[string]string{"main": commit},
		Commits: map[string]map[string][]byte{commit: files}})
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	weights := map[string]string{}
	config, _ := writeRun(t, "steps: 1\n")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{folder, "org/checkpoint"} {
		out := filepath.Join(filepath.Dir(config), filepath.Base(name))
		changed := strings.NewReplacer(folder, name, "out: out", "out: "+out).Replace(string(text))
		if err := os.WriteFile(config, []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := call(t, "--config", config); code != exit.Done {
			t.Fatalf("%s: exit code %d: %s%s", name, code, stdout, stderr)
		}
		tensors, err := os.ReadFile(filepath.Join(out, "scorer", "adapter_model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		weights[string(tensors)] = name
		scorer, err := os.ReadFile(filepath.Join(out, "scorer", "scorer.yaml"))
		want := "backbone: hf://org/checkpoint@" + commit + "\n"
		if name != folder && !strings.Contains(string(scorer), want) {
			t.Errorf("got scorer.yaml (%v)\n%s, want %s", err, scorer, want)
		}
	}
	if len(weights) != 1 {
		t.Errorf("got %d different adapters, want one", len(weights))
	}
}
