package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLines: rows are appended to existing ones, a truncated line is dropped, and an invalid one is refused.
func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "predictions.jsonl")
	var want []result
	for i, torn := range []string{"", `{"Row":9,"Te`, ""} {
		l, rows, err := OpenLines[result](path, nil)
		if err != nil || !slices.Equal(rows, want) {
			t.Fatalf("opening %d: got %v, want %v (%v)", i, rows, want, err)
		}
		more := []result{{2 * i, "a\nb"}, {2*i + 1, ""}}
		if err := l.Write(more...); err != nil {
			t.Fatal(err)
		}
		want = append(want, more...)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, torn)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = OpenLines(path, func(r result) error {
		if r.Row == 3 {
			return errors.New("unknown row")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "predictions.jsonl:4: unknown row") {
		t.Errorf("a rejected row: got error %v, want one with %q", err, "predictions.jsonl:4: unknown row")
	}
	if err := os.WriteFile(path, append(before, "no row\n"...), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenLines[result](path, nil); err == nil || !strings.Contains(err.Error(), "predictions.jsonl:7") {
		t.Errorf("a line that is not a row: got error %v, want one with %q", err, "predictions.jsonl:7")
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before)+"no row\n" {
		t.Errorf("a refused file: got %q, %v, want it unchanged", after, err)
	}
}
