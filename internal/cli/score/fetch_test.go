package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/hub/hubtest"
	"assay/internal/oracle"
	"assay/model"
)

// serveOracle starts a Hub with the oracle's checkpoint and a scorer over it that names it by its commit.
func serveOracle(t *testing.T) (s *hubtest.Server, folder string) {
	t.Helper()
	folder = filepath.Join(oracle.Folders(t)[0], "llavanext")
	checkpoint, err := hubtest.Files(filepath.Join(folder, "backbone"))
	if err != nil {
		t.Fatal(err)
	}
	checkpoint["pytorch_model.bin"] = []byte("nobody reads it")
	scorer, err := hubtest.Files(filepath.Join(folder, "scorer"))
	if err != nil {
		t.Fatal(err)
	}
	commit := hubtest.Commit("checkpoint")
	scorer["scorer.yaml"] = bytes.Replace(scorer["scorer.yaml"], []byte(`"../backbone"`),
		fmt.Appendf(nil, "hf://org/checkpoint@%s", commit), 1)
	s = hubtest.Start(
		&hubtest.Repo{Kind: "model", ID: "org/checkpoint", Refs: map[string]string{"main": commit},
			Commits: map[string]map[string][]byte{commit: checkpoint}},
		&hubtest.Repo{Kind: "model", ID: "org/scorer", Refs: map[string]string{"main": hubtest.Commit("scorer")},
			Commits: map[string]map[string][]byte{hubtest.Commit("scorer"): scorer}},
	)
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	return s, folder
}

// TestScorerByName: a scorer on the Hub, which names its backbone there, returns with an empty cache the score of the
// folders. After that nothing is fetched, and it works offline.
func TestScorerByName(t *testing.T) {
	s, folder := serveOracle(t)
	picture := filepath.Join(filepath.Dir(folder), "images", "coffee.png")
	pair := func(scorer string, more ...string) (score float64, stderr string) {
		t.Helper()
		code, stdout, stderr := run(t, append([]string{"pair", "--scorer", scorer, "--source", picture, "--edit", picture,
			"--instruction", "make it brighter"}, more...)...)
		if _, err := fmt.Sscanf(stdout, "%f", &score); err != nil || code != exit.Done {
			t.Fatalf("%s: exit code %d, %s%s", scorer, code, stdout, stderr)
		}
		return score, stderr
	}
	want, _ := pair(filepath.Join(folder, "scorer"))
	got, stderr := pair("hf://org/scorer")
	if got != want || !strings.Contains(stderr, "fetching hf://org/scorer at ") ||
		!strings.Contains(stderr, "fetching hf://org/checkpoint@") {
		t.Errorf("got %v, want %v, and to be told of both fetches: %s", got, want, stderr)
	}
	s.Sent()
	if got, stderr := pair("org/scorer", "--backbone", "org/checkpoint"); got != want || s.Sent() != 0 {
		t.Errorf("again: got %v, want %v and nothing fetched: %s", got, want, stderr)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	s.Requests()
	if got, stderr := pair("org/scorer"); got != want || len(s.Requests()) != 0 {
		t.Errorf("offline: got %v, want %v and no request: %s", got, want, stderr)
	}
}

func TestFetchCommand(t *testing.T) {
	s, folder := serveOracle(t)
	code, stdout, stderr := run(t, "fetch", "org/checkpoint", "--dry-run")
	if code != exit.Done || !strings.Contains(stdout, "model.safetensors") || strings.Contains(stdout, ".bin") ||
		!strings.Contains(stdout, "files, 1.2 MB to fetch") || s.Sent() != 0 {
		t.Errorf("--dry-run: exit code %d, want what would be fetched: %s%s", code, stdout, stderr)
	}
	out := filepath.Join(t.TempDir(), "copy")
	if code, _, stderr := run(t, "fetch", "org/checkpoint", "--out", out); code != exit.Done {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	got, err := hubtest.Files(out)
	want, err2 := hubtest.Files(filepath.Join(folder, "backbone"))
	if err != nil || err2 != nil || len(got) != len(want) {
		t.Fatalf("got %d files (%v), want %d (%v)", len(got), err, len(want), err2)
	}
	for name, content := range want {
		info, err := os.Lstat(filepath.Join(out, name))
		if err != nil || !info.Mode().IsRegular() || !bytes.Equal(got[name], content) {
			t.Errorf("%s: got %d bytes (%v), want a file of %d", name, len(got[name]), err, len(content))
		}
	}
	var kept struct {
		Kept []struct{ Name string }
	}
	code, stdout, stderr = run(t, "cache", "hub", "--json")
	if err := json.Unmarshal([]byte(stdout), &kept); err != nil || code != exit.Done || len(kept.Kept) != 1 ||
		!strings.HasPrefix(kept.Kept[0].Name, "hf://org/checkpoint@") {
		t.Errorf("cache hub: exit code %d, want the checkpoint: %s%s", code, stdout, stderr)
	}
}

// Useless fetches are refused before they start.
func TestFetchRefusals(t *testing.T) {
	s, _ := serveOracle(t)
	for args, want := range map[string]string{
		"pair --scorer org/checkpoint":                 "hf://org/checkpoint` would fetch 10 files, 1.2 MB)",
		"pair --scorer org/none":                       "there is no folder org/none here, and",
		"chat --text x --backbone hf://org/scorer":     "has no config.json",
		"calibrate --in x.jsonl --scorer org/scorer":   "make a local copy first",
		"fetch hf://org":                               "want hf://org/name@revision",
		"fetch org/checkpoint org/scorer --out folder": "--out copies one fetched name",
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := run(t, strings.Fields(args)...)
			if code != exit.Wrong || !strings.Contains(stderr, want) || s.Sent() != 0 {
				t.Errorf("exit code %d, want %d, %q and nothing fetched: %s%s", code, exit.Wrong, want, stdout, stderr)
			}
		})
	}
}

// TestPushScorer: a pushed scorer returns by its name, with an empty cache, the score of its folder. Overwriting
// files, a local backbone, and a missing token are refused.
func TestPushScorer(t *testing.T) {
	s, folder := serveOracle(t)
	scorer := filepath.Join(folder, "scorer")
	backbone := "hf://org/checkpoint@" + hubtest.Commit("checkpoint")
	for _, c := range []struct {
		args []string
		code int
		want string // in stdout or stderr
	}{
		{[]string{scorer, "org/pushed", "--backbone", backbone}, exit.Wrong, "set HF_TOKEN"},
		{[]string{scorer, "org/pushed"}, exit.Wrong, "a local folder: set --backbone"},
		{[]string{scorer, "hf://datasets/org/pushed"}, exit.Wrong, "is pushed to a model repository"},
		{[]string{filepath.Join(folder, "backbone"), "org/pushed"}, exit.Wrong, "scorer.yaml: no such file"},
		{[]string{scorer, "org/pushed", "--backbone", backbone}, exit.Done, s.URL + "/org/pushed: "},
		{[]string{scorer, "hf://org/pushed", "--backbone", backbone, "--json"}, exit.Done, `"files":null`},
		{[]string{scorer, "org/scorer", "--backbone", "org/checkpoint@v2"}, exit.Failed,
			"it already has different files named adapter_config.json, scorer.yaml"},
		{[]string{scorer, "org/scorer", "--backbone", "org/checkpoint@v2", "--overwrite"}, exit.Done, "commit "},
	} {
		t.Run(strings.Join(c.args[1:], " "), func(t *testing.T) {
			if c.want != "set HF_TOKEN" {
				t.Setenv("HF_TOKEN", "hf_x")
			}
			code, stdout, stderr := run(t, append([]string{"push"}, c.args...)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("got exit code %d, %s%s, want %d and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
	picture := filepath.Join(filepath.Dir(folder), "images", "coffee.png")
	var outputs []string
	for _, name := range []string{scorer, "hf://org/pushed"} {
		code, stdout, stderr := run(t, "pair", "--scorer", name, "--source", picture, "--edit", picture, "--instruction", "x")
		if code != exit.Done {
			t.Fatalf("%s: exit code %d, %s", name, code, stderr)
		}
		outputs = append(outputs, stdout)
	}
	if outputs[0] != outputs[1] {
		t.Errorf("the pushed scorer: got %q, want the folder's %q", outputs[1], outputs[0])
	}
}

// TestPushEnsemble: a scorer pushed with a local backbone passes the check of digests where it is fetched, and
// returns the score of its folder, as does an ensemble.
func TestPushEnsemble(t *testing.T) {
	checkpoint, err := hubtest.Files("../../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	commit := hubtest.Commit("tiny")
	s := hubtest.Start(&hubtest.Repo{Kind: "model", ID: "org/tiny", Refs: map[string]string{"main": commit},
		Commits: map[string]map[string][]byte{commit: checkpoint}})
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	t.Setenv("HF_TOKEN", "hf_x")
	const first = "../../../backbones/tiny-scorer"
	state, err := model.LoadScorerState(first)
	if err != nil {
		t.Fatal(err)
	}
	state.Tensors["score_token.embedding"].Float32s()[0]++
	if state.Adapter.Config.Base, err = filepath.Abs(state.Config.Backbone); err != nil { // as training writes it
		t.Fatal(err)
	}
	second, ensemble := t.TempDir(), filepath.Join(t.TempDir(), "ensemble")
	if err := state.Save(second); err != nil {
		t.Fatal(err)
	}
	if err := model.WriteEnsemble([]string{first, second}, "", ensemble); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(oracle.Folders(t)[0], "images", "coffee.png")
	for name, dir := range map[string]string{"scorer": second, "ensemble": ensemble} {
		t.Run(name, func(t *testing.T) {
			if code, _, stderr := run(t, "push", dir, "org/"+name, "--backbone", "org/tiny"); code != exit.Done {
				t.Fatalf("push: exit code %d, %s", code, stderr)
			}
			var scores []string
			for _, scorer := range []string{dir, "hf://org/" + name} {
				code, stdout, stderr := run(t, "pair", "--scorer", scorer, "--source", picture, "--edit", picture,
					"--instruction", "x")
				if code != exit.Done {
					t.Fatalf("%s: exit code %d, %s", scorer, code, stderr)
				}
				scores = append(scores, stdout)
			}
			if scores[0] != scores[1] {
				t.Errorf("the pushed scorer: got %q, want the folder's %q", scores[1], scores[0])
			}
		})
	}
}

// TestPushOverAnother: a scorer without an adapter opens after it is pushed over one with an adapter, which is removed.
func TestPushOverAnother(t *testing.T) {
	checkpoint, err := hubtest.Files("../../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	commit := hubtest.Commit("tiny")
	s := hubtest.Start(&hubtest.Repo{Kind: "model", ID: "org/tiny", Refs: map[string]string{"main": commit},
		Commits: map[string]map[string][]byte{commit: checkpoint}})
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	t.Setenv("HF_TOKEN", "hf_x")
	const first = "../../../backbones/tiny-scorer"
	state, err := model.LoadScorerState(first)
	if err != nil {
		t.Fatal(err)
	}
	state.Adapter = nil
	second := t.TempDir()
	if err := state.Save(second); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{first}, exit.Done, "commit "},
		{[]string{second}, exit.Failed, "different files named"},
		{[]string{second, "--overwrite"}, exit.Done,
			"removed from it: adapter_config.json, adapter_model.safetensors\n"},
	} {
		args := slices.Concat([]string{"push", c.args[0], "org/one", "--backbone", "org/tiny"}, c.args[1:])
		code, stdout, stderr := run(t, args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Fatalf("%v: got exit code %d, %s%s, want %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
	picture := filepath.Join(oracle.Folders(t)[0], "images", "coffee.png")
	var scores []string
	for _, scorer := range []string{second, "hf://org/one"} {
		code, stdout, stderr := run(t, "pair", "--scorer", scorer, "--source", picture, "--edit", picture,
			"--instruction", "x")
		if code != exit.Done {
			t.Fatalf("%s: got exit code %d, %s, want %d", scorer, code, stderr, exit.Done)
		}
		scores = append(scores, stdout)
	}
	if scores[0] != scores[1] {
		t.Errorf("the pushed scorer: got %q, want the folder's %q", scores[1], scores[0])
	}
}
