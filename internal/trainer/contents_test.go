package trainer

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
)

// replace replaces the content of a file, with the same size and times.
func replace(t *testing.T, path, text string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// ownPicture gives one row of a run's table a separate picture and returns its path.
func ownPicture(t *testing.T, run, id string) string {
	t.Helper()
	table := filepath.Join(filepath.Dir(run), "table.jsonl")
	raw, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(raw), "\n")
	for i, line := range lines {
		if strings.Contains(line, `"`+id+`"`) {
			lines[i] = strings.Replace(line, `"edit": "a.png"`, `"edit": "b.png"`, 1)
		}
	}
	if err := os.WriteFile(table, []byte(strings.Join(lines, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(run), "b.png")
	if err := os.WriteFile(path, []byte("b"), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestResumeRefusesReplacedPictures: the error names the row whose picture was replaced; with the original content,
// at any path, the run resumes.
func TestResumeRefusesReplacedPictures(t *testing.T) {
	path := writeRun(t, 40, "steps: 6\n")
	picture := ownPicture(t, path, "row7")
	train(t, path, newFake())
	replace(t, picture, "c")
	_, err := Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory})
	if exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), "row7") || strings.Contains(err.Error(), "row8") {
		t.Errorf("after a picture was replaced: %v", err)
	}
	if err := os.Remove(picture); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(picture, []byte("b"), 0o666); err != nil {
		t.Fatal(err)
	}
	if r := train(t, path, newFake()); r.Resumed != 6 {
		t.Errorf("with the former picture it resumed at %d", r.Resumed)
	}
}

// TestHeadStatesAreOfContent: hidden states are only recomputed for a replaced picture, an edited instruction, or a
// different backbone.
func TestHeadStatesAreOfContent(t *testing.T) {
	path := writeRun(t, 40, "mode: head\nsteps: 3\n")
	picture := ownPicture(t, path, "row7")
	b := &countingBackbone{}
	run := func(print string) int {
		t.Helper()
		b.computed = 0
		c := load(t, path)
		c.Head.Hidden = []int{16}
		if _, err := Train(
			context.Background(),
			Options{Config: c, Factory: headFactory(b, print), Fresh: true},
		); err != nil {
			t.Fatal(err)
		}
		return b.computed
	}
	all := run("backbone")
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	raw, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	const wordings = 4 // of a training row: 2 questions, 2 answers
	for _, step := range []struct {
		name   string
		change func()
		want   int
	}{
		{"nothing", func() {}, 0},
		{"a picture replaced", func() { replace(t, picture, "c") }, wordings},
		{"nothing since", func() {}, 0},
		{"the former picture", func() { replace(t, picture, "b") }, 0},
		{"an instruction edited", func() {
			replace(t, table, strings.Replace(string(raw), `"do thing 8"`, `"do thing X"`, 1))
		}, wordings},
		{"another backbone", func() {}, all},
	} {
		step.change()
		print := "backbone"
		if step.name == "another backbone" {
			print = "another"
		}
		if n := run(print); n != step.want {
			t.Errorf("%s: %d states were computed, want %d", step.name, n, step.want)
		}
	}
}
