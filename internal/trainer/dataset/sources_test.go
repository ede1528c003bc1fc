package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/trainer/config"
)

// TestSources: rows with several sources become examples with all of them, in order, each checked and augmented. Rows
// with the same list of sources are one scene, and a picture in several scenes is not held out.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 6 {
		writePicture(t, filepath.Join(dir, fmt.Sprintf("%d.png", i)), 10*i)
	}
	lists := []string{`["0.png", "1.png"]`, `["0.png", "1.png"]`, `["1.png", "0.png"]`, `["0.png", "9.png"]`}
	for i, sources := range lists {
		fmt.Fprintf(&rows, `{"id": "%d", "sources": %s, "edit": "%d.png", "instruction": "x", "label": 0.5}`+"\n", i, sources,
			2+i)
	}
	path := filepath.Join(dir, "t.jsonl")
	if err := os.WriteFile(path, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Data.Train = config.Strings{path}
	d, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all := d.Train.Rows
	if len(all) != 4 || all[0].Asked != all[1].Asked || all[0].Asked == all[2].Asked || all[0].Digest == all[1].Digest {
		t.Fatalf("got %d rows, want 4 of which the first two are asked the same", len(all))
	}
	if bad := all[3].Bad; !strings.Contains(bad, "9.png") {
		t.Errorf("a source that does not exist: got %q, want its name", bad)
	}
	e, err := d.Train.Example(2)
	if err != nil {
		t.Fatal(err)
	}
	e.augment(7)
	for i, want := range []string{"1.png", "0.png"} {
		p := e.Edit.Picture(edit.SourceRole(i)).(RowPicture)
		if p.Image.Path != want || p.Augment != 7 {
			t.Errorf("source %d: got %s, augmented by %d, want %s by 7", i+1, p.Image.Path, p.Augment, want)
		}
		if _, err := p.Decode(); err != nil {
			t.Error(err)
		}
	}
	one, err := e.PairKey()
	if err != nil {
		t.Fatal(err)
	}
	e.Edit.Sources[0], e.Edit.Sources[1] = e.Edit.Sources[1], e.Edit.Sources[0]
	if other, err := e.PairKey(); err != nil || other == one {
		t.Errorf("sources in another order: got the key %v (%v), want another", other, err)
	}
}
