package score

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
)

// TestDistilJSON: the result of a distillation is one JSON object.
func TestDistilJSON(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeEdits(t, dir, "edits.jsonl") // for its pictures
	for name, photo := range map[string]string{"learn.jsonl": "coffee", "held.jsonl": "chelsea"} {
		var b strings.Builder
		for i, edit := range []string{"coffee", "chelsea", "coffee_blur", "chelsea_mirror"} {
			fmt.Fprintf(&b, `{"id": "%s%d", "source": "img/%s.png", "edit": "img/%s.png", "instruction": "blur it", `+
				`"ratings": [%g]}`+"\n", photo, i, photo, edit, float64(i)/4)
		}
		if err := os.WriteFile(in(name), []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	backbone, err := filepath.Abs("../../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	student := "backbone: " + backbone + "\npair: frames\nlora: {r: 2, targets: [q_proj]}\nepochs: 1\nbatch_size: 4\n"
	for name, more := range map[string]string{"student.yaml": "", "benchmark.yaml": "validate: {by: benchmark, " +
		"benchmark: {name: genaibench, ratings: missing.jsonl, images: img}}\n"} {
		if err := os.WriteFile(in(name), []byte(student+more), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// A benchmark that selects the student is opened, and what it lacks is named, before anything is asked.
	wrong, _, said := run(t, "distil", "--ratings", "--config", in("benchmark.yaml"), "--in", in("learn.jsonl"),
		"--held-out", in("held.jsonl"), "--out", in("none"))
	if wrong == exit.Done || !strings.Contains(said, in("missing.jsonl")) {
		t.Errorf("got exit code %d, %s, want an error that names %s", wrong, said, in("missing.jsonl"))
	}
	code, stdout, stderr := run(t, "distil", "--ratings", "--config", in("student.yaml"), "--in", in("learn.jsonl"),
		"--held-out", in("held.jsonl"), "--out", in("out"), "--json")
	var got struct {
		Scorer  string `json:"scorer"`
		HeldOut int    `json:"held_out"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exit.Done || got.Scorer == "" {
		t.Errorf("got exit code %d, %s, %v, want 0 and the scorer\n%s", code, stdout, err, stderr)
	}
	if got.HeldOut != 4 { // one of each picture
		t.Errorf("got %d held-out edits, want 4", got.HeldOut)
	}
}
