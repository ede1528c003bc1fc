package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/store"

	"github.com/google/go-cmp/cmp"
)

// openEdits writes a table of two edits, the second without a target, and the pictures' files.
func openEdits(t *testing.T) *data.Table {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.png": "12345", "b.png": "1234567", "c.png": "123456789", "rows.jsonl": `{"id": "x", "group": "g", ` +
			`"source": "a.png", "edit": "b.png", "target": "c.png", "instruction": "blur it"}` + "\n" +
			`{"id": "y", "source": "a.png", "edit": "c.png", "instruction": "sharpen it"}` + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	table, err := data.OpenTable(filepath.Join(dir, "rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

// TestEditOf: an edit has the row's texts and pictures; a picture that the row lacks is left out.
func TestEditOf(t *testing.T) {
	table := openEdits(t)
	for i, want := range []string{"x g blur it: a.png b.png c.png", "y  sharpen it: a.png c.png "} {
		t.Run(fmt.Sprint("row ", i), func(t *testing.T) {
			row, err := table.Read(i)
			if err != nil {
				t.Fatal(err)
			}
			e := EditOf(table, &row)
			got := fmt.Sprintf("%s %s %s: %s %s %s", e.ID, e.Group, e.Instruction, Image(e, "source").Path,
				Image(e, "edit").Path, Image(e, "target").Path)
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if f, _ := e.Picture("source").(data.File); f.Folder != table.Folder() {
				t.Errorf("got the source in %q, want %q", f.Folder, table.Folder())
			}
		})
	}
	if got := Image(&edit.Edit{}, "source"); !got.IsZero() {
		t.Errorf("an edit without pictures: got %+v, want the zero Image", got)
	}
}

// TestEditJob: rows are read as edits, a row's digest covers its error and its parts, and its weight is its pictures'
// bytes.
func TestEditJob(t *testing.T) {
	table, bad := openEdits(t), errors.New("not a row")
	read := func(i int) (*edit.Edit, error) {
		if i == 1 {
			return &edit.Edit{}, bad
		}
		row, err := table.Read(i)
		return EditOf(table, &row), err
	}
	job := EditJob[value](table, Options{Out: "out.jsonl"}, read, func(e *edit.Edit) []any {
		return []any{e.Instruction, Image(e, "source")}
	}, "source", "edit")
	if job.Rows != 2 || job.Out != "out.jsonl" {
		t.Errorf("got %d rows into %s, want 2 into out.jsonl", job.Rows, job.Out)
	}
	for i, want := range []struct {
		err    error
		parts  []any
		weighs int64
	}{{nil, []any{nil, "blur it", data.Image{Path: "a.png"}}, 12}, {bad, []any{bad, "", data.Image{}}, 0}} {
		t.Run(fmt.Sprint("row ", i), func(t *testing.T) {
			e, err := job.Read(i)
			if err != want.err {
				t.Errorf("Read: got error %v, want %v", err, want.err)
			}
			got, unknown := job.Content(e, err)
			if digest, _ := Content(table.Folder(), want.parts...); got != digest || unknown != nil {
				t.Errorf("Content: got %s, %v, want %s", got, unknown, digest)
			}
			if bytes, begins := job.Weigh(i); bytes != want.weighs || !begins {
				t.Errorf("Weigh: got %d, begins %t, want %d, true", bytes, begins, want.weighs)
			}
		})
	}
}

// TestIdentify: a journal belongs to a table, its rows and a judge; a plan of shards also to the table's bytes and
// columns.
func TestIdentify(t *testing.T) {
	table := openEdits(t)
	job := &Job[*edit.Edit, value]{Options: Options{Columns: map[string]string{"source": "before"}}}
	if err := job.Identify(table, "a judge"); err != nil {
		t.Fatal(err)
	}
	want := head{In: table.Path(), Rows: 2, Judge: "a judge"}
	if diff := cmp.Diff(any(want), job.Head); diff != "" {
		t.Errorf("the journal's head: want -, got +\n%s", diff)
	}
	digest, err := store.FileDigest(table.Path())
	if err != nil {
		t.Fatal(err)
	}
	want.Table, want.Columns = digest.String(), job.Columns
	got, err := job.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("the plan's head: want -, got +\n%s", diff)
	}
}

// TestDecoded: results of pixels decoded by libjpeg-turbo are not mixed with results of Go's decoder, whose heads
// stay unchanged.
func TestDecoded(t *testing.T) {
	h := head{In: "a.csv", Rows: 2, Judge: "a judge"}
	want := `{"in":"a.csv","rows":2,"judge":"a judge"}`
	if name, _ := data.JPEGDecoder(); name != data.GoDecoder {
		want = `{"jpeg":"libjpeg-turbo","in":"a.csv","rows":2,"judge":"a judge"}`
	}
	got, err := decoded(h)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := json.Marshal(got); err != nil || string(raw) != want {
		t.Errorf("got head %s, %v, want %s", raw, err, want)
	}
}
