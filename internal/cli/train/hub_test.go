package train

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/hub/hubtest"
	"assay/internal/oracle"
)

// serveCheckpoint starts a Hub with the oracle's checkpoint as org/checkpoint, and also returns its folder and
// commit.
func serveCheckpoint(t *testing.T) (s *hubtest.Server, folder, commit string) {
	t.Helper()
	folder = filepath.Join(oracle.Folders(t)[0], "llavanext", "backbone")
	files, err := hubtest.Files(folder)
	if err != nil {
		t.Fatal(err)
	}
	commit = hubtest.Commit("checkpoint")
	s = hubtest.Start(&hubtest.Repo{Kind: "model", ID: "org/checkpoint", Refs: map[string]string{"main": commit},
		Commits: map[string]map[string][]byte{commit: files}})
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	return s, folder, commit
}

// TestTrainByName: a run over a checkpoint named org/name trains the same weights as a run over the folder, and its
// scorer names the checkpoint with its commit.
func TestTrainByName(t *testing.T) {
	s, folder, commit := serveCheckpoint(t)
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
	if code, _, stderr := call(t, "--config", config, "--push", "org/pushed"); code != exit.Wrong ||
		!strings.Contains(stderr, "set HF_TOKEN") {
		t.Errorf("--push without a token: got exit code %d, %s, want %d", code, stderr, exit.Wrong)
	}
	t.Setenv("HF_TOKEN", "hf_x")
	code, stdout, stderr := call(t, "--config", config, "--push", "org/pushed", "--json")
	var result struct {
		Steps  int64
		Pushed struct{ Commit, URL string }
	}
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exit.Done || result.Steps != 1 {
		t.Fatalf("--push --json: got exit code %d, %v, %s%s, want it pushed", code, err, stdout, stderr)
	}
	pushed := s.Repo("model", "org/pushed")
	if head := pushed.Refs["main"]; result.Pushed.Commit != head || result.Pushed.URL != s.URL+"/org/pushed" {
		t.Errorf("--push --json: got %+v, want commit %s of %s/org/pushed", result.Pushed, head, s.URL)
	}
	if code, stdout, stderr := call(t, "--config", config, "--push", "org/pushed"); code != exit.Done ||
		!strings.Contains(stdout, "pushed to "+s.URL+"/org/pushed, commit "+result.Pushed.Commit+"\n") {
		t.Errorf("--push: got exit code %d, %s%s, want its commit", code, stdout, stderr)
	}
	there := pushed.Commits[pushed.Refs["main"]]
	got, want := string(there["scorer.yaml"]), "backbone: hf://org/checkpoint@"+commit+"\n"
	if !strings.Contains(got, want) || !strings.Contains(string(there["adapter_config.json"]), `"org/checkpoint"`) {
		t.Errorf("pushed: got scorer.yaml\n%s and %s, want %s and the adapter's base by name", got,
			there["adapter_config.json"], want)
	}
	if err := os.WriteFile(config, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "--config", config, "--push", "org/pushed"); code != exit.Wrong ||
		!strings.Contains(stderr, "a local folder") {
		t.Errorf("--push over a folder: got exit code %d, %s, want %d", code, stderr, exit.Wrong)
	}
	full := regexp.MustCompile(`(?m)^(mode|lora|out): .*\n`).ReplaceAll(text, nil)
	full = append(full, "mode: full\nout: "+t.TempDir()+"\n"...)
	if err := os.WriteFile(config, full, 0o666); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = call(t, "--config", config, "--push", "org/full") // with the backbone that it writes
	if full := s.Repo("model", "org/full"); code != exit.Done || full == nil ||
		full.Commits[full.Refs["main"]]["backbone/config.json"] == nil {
		t.Errorf("--push of all weights: got exit code %d, %s, want scorer and backbone pushed", code, stderr)
	}
}

// TestDryRunByName: the plan of a run over a checkpoint on the Hub equals the plan over the folder, and fetches no
// weights.
func TestDryRunByName(t *testing.T) {
	s, folder, _ := serveCheckpoint(t)
	config, _ := writeRun(t, "steps: 1\n")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	changes := regexp.MustCompile(`(?m)^weights      absent.*\n|[\d.]+ MiB  are free`)
	var plans []string
	for _, name := range []string{folder, "org/checkpoint"} {
		if err := os.WriteFile(config, []byte(strings.ReplaceAll(string(text), folder, name)), 0o666); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := call(t, "--config", config, "--dry-run")
		if code != exit.Done {
			t.Fatalf("%s: got exit code %d, want 0: %s%s", name, code, stdout, stderr)
		}
		if name != folder && !strings.Contains(stderr, ": its weights, ") {
			t.Errorf("got stderr %s, want it to tell the size of the weights", stderr)
		}
		plans = append(plans, changes.ReplaceAllString(stdout, ""))
	}
	if plans[0] != plans[1] {
		t.Errorf("got plan\n%s, want\n%s", plans[1], plans[0])
	}
	for _, request := range s.Requests() {
		if strings.Contains(request, ".safetensors") {
			t.Errorf("got request %s, want none of weights", request)
		}
	}
}
