package trainer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/objective"
)

// writeFiles writes files, and returns the path of the first one.
func writeFiles(t *testing.T, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// pairsOfEpoch counts the items of the first term in an epoch of a run.
func pairsOfEpoch(t *testing.T, path string) (pairs int) {
	t.Helper()
	tables, err := dataset.Open(load(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	c, l := loaderOf(t, path, tables)
	for at := int64(0); at < l.Limit; at = l.Next(at) {
		batch, err := l.Read(at)
		if err != nil {
			t.Fatal(err)
		}
		items := objective.New(c.Losses, l.Groups).Items(batch)[0]
		for _, it := range items {
			a, b := &batch[it.Edits[0]], &batch[it.Edits[1]]
			if a.Edit.Source().(dataset.RowPicture).Content != b.Edit.Source().(dataset.RowPicture).Content ||
				a.Edit.Instruction != b.Edit.Instruction {
				t.Errorf("%s is compared with %s", a.Edit.ID, b.Edit.ID)
			}
		}
		pairs += len(items)
	}
	if f := objective.New(c.Losses, l.Groups).Summarize(tables); f.Items["bradley_terry"] != pairs {
		t.Errorf("%d pairs are found, %d come", f.Items["bradley_terry"], pairs)
	}
	return pairs
}

// TestGroupNames: a group name only applies within its table, and edits with the same name are compared if source and
// instruction are the same.
func TestGroupNames(t *testing.T) {
	path := writeGroups(t, 0, "data: {train: [table.jsonl, other.jsonl], validation: [table.jsonl, other.jsonl]}\n"+
		"losses: [{kind: bradley_terry}]\nbatch_size: 20\n")
	var one, two strings.Builder
	for k := range 4 {
		row := `{"id": "%d", "group": "g", "source": "%s", "edit": "e%d.png", "instruction": "%s", "label": %g}` + "\n"
		fmt.Fprintf(&one, row, k, "a.png", k, "do", float64(k)/4)
		fmt.Fprintf(&two, row, 4+k, "b.png", k, "do", float64(k)/4)
		fmt.Fprintf(&two, row, 8+k, "b.png", k, "undo", float64(k)/4)
	}
	writeFiles(t, filepath.Dir(path), "table.jsonl", one.String(), "other.jsonl", two.String(), "b.png", "b")
	if n := pairsOfEpoch(t, path); n != 3*6 {
		t.Errorf("%d pairs, want 18", n)
	}
	if v := train(t, path, newFake()).Validation; v.PairRows != 18 {
		t.Errorf("%d pairs in validation, want 18", v.PairRows)
	}
}

// TestNamedPreferences: one picture with several prompts in a named group counts as several edits.
func TestNamedPreferences(t *testing.T) {
	path := writeGroups(t, 0, "data: {train: table.jsonl}\nlosses: [{kind: bradley_terry}]\nbatch_size: 20\n")
	var rows strings.Builder
	for _, prompt := range []string{"do", "undo"} {
		for k := range 3 {
			fmt.Fprintf(&rows, `{"group": "g", "prompt": "%s", "source": "a.png", "chosen": "e%d.png", "rejected": "b.png"}`+
				"\n", prompt, k)
		}
	}
	writeFiles(t, filepath.Dir(path), "table.jsonl", rows.String(), "b.png", "b", "e0.png", "0", "e1.png", "1",
		"e2.png", "2")
	if n := pairsOfEpoch(t, path); n != 6 {
		t.Errorf("%d pairs, want 6", n)
	}
}

// loaderOf returns the loader of a new run.
func loaderOf(t *testing.T, path string, d *dataset.Data) (*config.Config, *dataset.Loader) {
	t.Helper()
	c := load(t, path)
	l, err := dataset.NewLoader(c, d.Train, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}
