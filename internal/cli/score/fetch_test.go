package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/hub/hubtest"
	"assay/internal/oracle"
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

// TestScorerByName: a scorer on the Hub, which names its backbone there, gives from an empty cache the number of the
// folders; from then on nothing is fetched, and offline it is the same.
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

// What would be fetched for nothing is refused before.
func TestFetchRefusals(t *testing.T) {
	s, _ := serveOracle(t)
	for args, want := range map[string]string{
		"pair --scorer org/checkpoint":                 "hf://org/checkpoint` would fetch 10 files, 1.2 MB)",
		"pair --scorer org/none":                       "there is no folder org/none here, and",
		"chat --text x --backbone hf://org/scorer":     "has no config.json",
		"calibrate --in x.jsonl --scorer org/scorer":   "copy it into one of your own first",
		"fetch hf://org":                               "want hf://org/name@revision",
		"fetch org/checkpoint org/scorer --out folder": "--out copies one name",
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := run(t, strings.Fields(args)...)
			if code != exit.Wrong || !strings.Contains(stderr, want) || s.Sent() != 0 {
				t.Errorf("exit code %d, want %d, %q and nothing fetched: %s%s", code, exit.Wrong, want, stdout, stderr)
			}
		})
	}
}
