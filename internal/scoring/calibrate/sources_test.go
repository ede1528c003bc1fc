package calibrate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/store"
)

// TestScenesOfSources: edits that share any of their sources are in one scene, and an edit whose source was trained
// on is found.
func TestScenesOfSources(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a.png", "b.png", "c.png", "d.png", "e.png"} {
		p := data.NewPicture(4, 4)
		p.Pix[0] = byte(i)
		if err := p.WritePNG(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "t.jsonl")
	rows := `{"sources": ["a.png", "b.png"], "edit": "e.png", "instruction": "x", "label": 0}
{"sources": ["c.png", "b.png"], "edit": "e.png", "instruction": "x", "label": 1}
{"source": "d.png", "edit": "e.png", "instruction": "x", "label": 1}
`
	if err := os.WriteFile(path, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	table, err := openTable(path, "", &Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if s := table.scenes(); len(s) != 3 || s[0] != s[1] || s[0] == s[2] {
		t.Errorf("got scenes %v, want the first two rows in one and the third in another", s)
	}
	key, err := store.Content(dir, data.Image{Path: "c.png"})
	if err != nil {
		t.Fatal(err)
	}
	if n, first := table.seen(map[store.Key]bool{key: true}); n != 1 || first != "t.jsonl, row 2" {
		t.Errorf("got %d rows that were trained on, first %q, want only row 2", n, first)
	}
	all, without, err := pictures([]learned{{path: path}})
	if err != nil || without.rows != 0 || len(all) != 5 || !all[key] {
		t.Errorf("got %d pictures of the table (%v), want 5 with the second source", len(all), err)
	}
	in, test := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "test.jsonl")
	for path, row := range map[string]string{
		in:   `{"sources": ["a.png", "b.png"], "edit": "c.png", "instruction": "x", "label": 0}`,
		test: `{"sources": ["d.png", "b.png"], "edit": "e.png", "instruction": "x", "label": 1}`,
	} {
		if err := os.WriteFile(path, []byte(row+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newJob(&Options{In: in, Test: test}); err == nil || !strings.Contains(err.Error(), "shares pictures") {
		t.Errorf("a test table with a source of the other: got %v, want an error", err)
	}
}

// TestNamesAsLabels: labels of other dimensions may be names, in training tables and in the table itself. A training
// row whose pictures cannot be read makes the answer unknown.
func TestNamesAsLabels(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a.png", "b.png", "c.png"} {
		p := data.NewPicture(4, 4)
		p.Pix[0] = byte(i)
		if err := p.WritePNG(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	in, train := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "train.jsonl")
	row := `{"source": "a.png", "edit": "b.png", "instruction": "x", "label": 0.5, "label_failure": "blurred"}` + "\n"
	other := `{"source": "c.png", "edit": "c.png", "instruction": "x", "label": 0.5, "label_failure": "none"}` + "\n"
	gone := `{"source": "c.png", "edit": "gone.png", "instruction": "x", "label": 0.5}` + "\n"
	for _, c := range []struct{ name, train, want, refused string }{
		{"the same pictures", row, "", "trained on pictures of 1 of 1 rows"},
		{"other pictures", other, trainedNo, ""},
		{"a lost picture", other + gone, trainedUnknown, ""},
		{"a label out of range", other + strings.Replace(gone, "0.5", "7", 1), trainedUnknown, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := errors.Join(os.WriteFile(in, []byte(row), 0o666), os.WriteFile(train, []byte(c.train), 0o666))
			if err != nil {
				t.Fatal(err)
			}
			p, err := newJob(&Options{In: in, Scorer: filepath.Join(dir, "none"), Trained: []string{train}})
			if err != nil {
				t.Fatalf("a table with names as labels: got %v, want no error", err)
			}
			defer p.in.Close()
			err = p.refuseSeen()
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want an error with %q", err, c.refused)
				}
				return
			}
			if err != nil || p.report.Trained != c.want {
				t.Errorf("got trained %q, %v, want %q", p.report.Trained, err, c.want)
			}
		})
	}
}
