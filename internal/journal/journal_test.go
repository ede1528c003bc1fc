package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/long"
)

type result struct {
	Row  int
	Text string
}

// appendTo writes what a crash may leave at the end of a file.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	head := map[string]string{"in": "a.jsonl"}
	var want []result
	for i, cut := range []string{"", `{"Row":9,"Te`, "{\"Row\":9,\"Te\n", ""} { // what a crash left behind
		j, done, err := Open[result](path, head)
		if err != nil || !slices.Equal(done, want) {
			t.Fatalf("opening %d gives %v, want %v (%v)", i, done, want, err)
		}
		more := []result{{2 * i, "a\nb"}, {2*i + 1, ""}}
		if err := j.Write(more...); err != nil {
			t.Fatal(err)
		}
		want = append(want, more...)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, cut)
	}
	if _, _, err := Open[result](
		path,
		map[string]string{"in": "b.jsonl"},
	); err == nil ||
		!strings.Contains(err.Error(), "a.jsonl") {
		t.Errorf("a journal of other work: got error %v, want one with %q", err, "a.jsonl")
	}
}

func TestHeadCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	if err := os.WriteFile(path, []byte(`{"in":"a.js`), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		j, done, err := Open[result](path, map[string]string{"in": "a.jsonl"})
		if err != nil || len(done) != 0 {
			t.Fatalf("got %v, %v, want no results", done, err)
		}
		j.Close()
	}
}

// TestOneWriter: a journal that is open is refused, and not touched.
func TestOneWriter(t *testing.T) {
	long.Test(t) // it waits
	path := filepath.Join(t.TempDir(), "out.progress")
	first, _, err := Open[int](path, "work")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Write(1, 2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open[int](path, "work"); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("open twice: got error %v, want one with %q", err, "another process")
	}
	if err := errors.Join(first.Write(3), first.Close()); err != nil {
		t.Fatal(err)
	}
	again, done, err := Open[int](path, "work")
	if err != nil || len(done) != 3 {
		t.Fatalf("got %v, %v, want 3 results", done, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
