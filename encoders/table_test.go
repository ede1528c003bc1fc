package encoders

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
)

// TestSeveralSources: similarities compare with one source; a row with a list of several is refused.
func TestSeveralSources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	rows := `{"sources": ["a.png", "b.png"], "edit": "c.png"}
{"sources": ["a.png"], "edit": "c.png"}`
	if err := os.WriteFile(path, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	table, err := data.OpenTable(path, data.WithRequired("source", "edit"))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	const want = "the edit has 2 sources, but similarities compare with one"
	if _, err := readEdit(table, nil, 0); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("two sources: got error %v, want one with %q", err, want)
	}
	if e, err := readEdit(table, nil, 1); err != nil || len(e.Sources) != 1 {
		t.Errorf("a list of one: got %d sources (%v), want 1", len(e.Sources), err)
	}
}
