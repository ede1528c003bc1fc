package score

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/model"
)

// TestBackboneFlag: --backbone locates a scorer's backbone in every command that opens a scorer. Warnings about a
// scorer are printed on stderr, once, and --json stays JSON.
func TestBackboneFlag(t *testing.T) {
	dir := t.TempDir()
	scorer, old := filepath.Join(dir, "scorer"), filepath.Join(dir, "old")
	for _, to := range []string{scorer, old} {
		if err := os.CopyFS(to, os.DirFS("../../../backbones/tiny-scorer")); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(old, model.ConfigFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "digests:")
	if err := os.WriteFile(file, []byte(before), 0o666); err != nil {
		t.Fatal(err)
	}
	const tiny = "../../../backbones/tiny"
	images, err := filepath.Abs("../../../testdata/oracle/images")
	if err != nil {
		t.Fatal(err)
	}
	source, edit := filepath.Join(images, "coffee.png"), filepath.Join(images, "coffee_blur.png")
	row := fmt.Sprintf(`{"source": %q, "edit": %q, "instruction": "blur the picture", "label": 1}`, source, edit)
	table := filepath.Join(dir, "edits.jsonl")
	if err := os.WriteFile(table, []byte(row+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	pair := []string{"pair", "--source", source, "--edit", edit, "--instruction", "blur the picture", "--json", "--scorer"}
	read := func(dir string, more ...string) (v struct{ Score float64 }, warnings string) {
		t.Helper()
		code, stdout, stderr := run(t, append(append(pair, dir), more...)...)
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exit.Done {
			t.Fatalf("%v: exit code %d, %v\n%s%s", more, code, err, stdout, stderr)
		}
		return v, stderr
	}
	want, stderr := read("../../../backbones/tiny-scorer")
	if stderr != "" {
		t.Errorf("the shipped scorer: stderr %q, want none", stderr)
	}
	if got, stderr := read(scorer, "--backbone", tiny); got != want || stderr != "" {
		t.Errorf("--backbone: %v, stderr %q, want %v", got, stderr, want)
	}
	if got, stderr := read(old, "--backbone", tiny); got != want || strings.Count(stderr, "has no digests of") != 1 {
		t.Errorf("a scorer of an earlier version: %v, stderr %q, want %v and one warning", got, stderr, want)
	}
	for _, c := range []struct{ args, want string }{
		{"batch --in TABLE --out OUT --scorer SCORER", "scorer.yaml:2: backbone: ../tiny: "},
		{"batch --in TABLE --out OUT --scorer SCORER --backbone ../../../backbones/tiny-clip",
			"the scores would be another scorer's"},
		{"batch --in TABLE --out OUT --scorer SCORER --backbone ../../../backbones/tiny --dtype float32",
			"--dtype requires --judge"},
		{"drift --before TABLE --after TABLE --backbone X", "--backbone requires --scorer or --judge"},
		{"best --in TABLE --scorer SCORER", "scorer.yaml:2: backbone: ../tiny: "},
		{"condition --in TABLE --out OUT --scorer SCORER", "scorer.yaml:2: backbone: ../tiny: "},
		{"gradient --source SOURCE --edit SOURCE --instruction x --out OUT.npy --scorer SCORER",
			"scorer.yaml:2: backbone: ../tiny: "},
		{"calibrate --in TABLE --out OUT --scorer SCORER", "scorer.yaml:2: backbone: ../tiny: "},
		{"serve --scorer SCORER", "scorer.yaml:2: backbone: ../tiny: "},
		{"serve --scorer a=SCORER --backbone b=X", "want BACKBONE, or SCORER=BACKBONE"},
		{"serve --scorer a=SCORER --backbone a=../../../backbones/tiny-clip", "the scores would be another scorer's"},
	} {
		args := strings.Fields(strings.NewReplacer("SCORER", scorer, "TABLE", table, "OUT", filepath.Join(dir, "out.jsonl"),
			"SOURCE", source).Replace(c.args))
		if code, stdout, stderr := run(t, args...); code != exit.Wrong || !strings.Contains(stderr, c.want) {
			t.Errorf("score %s: exit code %d, want %d and %q: %s%s", c.args, code, exit.Wrong, c.want, stdout, stderr)
		}
	}
}
