package trainer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/oracle"
	"assay/model"
)

// TestTrainedOnItsBackbone: a run records which backbone its scorer was trained on. Neither the run nor one that
// fine-tunes its scorer accepts a different backbone, and both errors name the file. The path of the backbone does
// not matter.
func TestTrainedOnItsBackbone(t *testing.T) {
	backbone := filepath.Join(t.TempDir(), "backbone")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, dir := range []string{backbone, elsewhere} {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(oracle.Folders(t)[0], "llavanext", "backbone"))); err != nil {
			t.Fatal(err)
		}
	}
	run := func(extra string, o Options) (*Result, string, error) {
		t.Helper()
		path, warned := pictureRun(t, "llavanext", extra), ""
		o.Warn = func(text string) { warned += text + "\n" }
		r, err := plainTrain(path, o)
		return r, path + "\n" + warned, err
	}
	first, said, err := run("mode: head\nhead: {hidden: [4]}\nbackbone: "+backbone+"\ninit: \"\"\n", Options{})
	if err != nil || strings.Contains(said, "digests") {
		t.Fatal(said, err)
	}
	path, _, _ := strings.Cut(said, "\n")
	file := filepath.Join(first.Scorer, model.ConfigFile)
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "model.safetensors: ") {
		t.Fatalf("%s: %v", text, err)
	}
	scorer := "mode: head\ninit: " + first.Scorer + "\n"
	_, said, err = run(scorer+"backbone: "+elsewhere+"\n", Options{})
	if err != nil || strings.Contains(said, "digests") {
		t.Errorf("the same backbone elsewhere: %v, said %s", err, said)
	}
	weights := filepath.Join(backbone, "model.safetensors")
	raw, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 0x80
	if err := os.WriteFile(weights, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	refused := func(what, extra, want string) {
		t.Helper()
		if _, _, err := run(extra, Options{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), weights) || exit.Code(err) != exit.Wrong {
			t.Errorf("%s: error %v, want one with %q and %s", what, err, want, weights)
		}
	}
	refused("the scorer's own backbone", scorer, "is not the file that the scorer was made with")
	moved := filepath.Join(t.TempDir(), "scorer")
	if err := os.CopyFS(moved, os.DirFS(first.Scorer)); err != nil {
		t.Fatal(err)
	}
	refused("another backbone", "mode: head\ninit: "+moved+"\nbackbone: "+backbone+"\n",
		"is not the backbone of the scorer of init")
	if _, _, err := run("mode: head\ninit: "+moved+"\n", Options{}); err == nil ||
		!strings.Contains(err.Error(), filepath.Join(moved, model.ConfigFile)+":2: backbone: ") {
		t.Errorf("the backbone does not exist: error %v, want the line of %s", err, moved)
	}

	_, err = plainTrain(path, Options{})
	if err == nil || !strings.Contains(err.Error(), "backbone: model.safetensors: ") || exit.Code(err) != exit.Wrong {
		t.Errorf("the run resumes with different weights: error %v, want one with model.safetensors", err)
	}

	old, _, _ := strings.Cut(string(text), "digests:")
	old = strings.Replace(old, "backbone: ", "backbone: "+elsewhere+" # ", 1)
	if err := os.WriteFile(filepath.Join(moved, model.ConfigFile), []byte(old), 0o666); err != nil {
		t.Fatal(err)
	}
	again, said, err := run("mode: head\ninit: "+moved+"\n", Options{})
	if err != nil || strings.Count(said, "has no digests of its backbone") != 1 {
		t.Fatalf("a scorer of an earlier version: error %v, said %s", err, said)
	}
	if text, err := os.ReadFile(filepath.Join(again.Scorer, model.ConfigFile)); err != nil ||
		!strings.Contains(string(text), "digests:") {
		t.Errorf("written again: %v\n%s", err, text)
	}
}
