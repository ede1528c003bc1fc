package journal

import (
	"errors"
	"math"
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

// appendTo appends what a crash may leave at the end of a file.
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
	for i, cut := range []string{"", `{"Row":9,"Te`, "{\"Row\":9,\"Te\n", ""} { // what a crash left
		j, done, err := Open[result](path, head)
		if err != nil || !slices.Equal(done, want) {
			t.Fatalf("opening %d: got %v, want %v (%v)", i, done, want, err)
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

// TestOneWriter: a journal that is already open is refused and not changed.
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

// TestRow: a line's checksum is verified if it has one.
func TestRow(t *testing.T) {
	for _, c := range []struct {
		line, want string
		good       bool
	}{
		{"{}", "{}", true},
		{"", "", true},
		{"\t01234567", "", false},
		{"{\t0123456", "{\t0123456", true}, // too short for a checksum
		{string(summed([]byte("{}"))), "{}", true},
		{string(summed(nil)), "", true},
		{"[]" + string(summed([]byte("{}")))[2:], "[]", false},
	} {
		t.Run(c.line, func(t *testing.T) {
			if got, good := Row([]byte(c.line)); string(got) != c.want || good != c.good {
				t.Errorf("Row(%q): got %q, %t, want %q, %t", c.line, got, good, c.want, c.good)
			}
		})
	}
}

// TestUnwritable: results and heads that cannot be JSON, and paths that cannot be written, are errors.
func TestUnwritable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	if j, done, err := Open[result](path, func() {}); j != nil || done != nil || err == nil {
		t.Errorf("a head that is not JSON: got %v, %v, %v, want an error", j, done, err)
	}
	j, _, err := Open[float64](path, "work")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Write(1, math.NaN()); err == nil {
		t.Errorf("a result that is not JSON: got error %v, want one", err)
	}
	if err := errors.Join(j.Write(2), j.Close()); err != nil {
		t.Fatal(err)
	}
	if _, done, err := Open[float64](path, "work"); err != nil || !slices.Equal(done, []float64{2}) {
		t.Errorf("opened again: got %v, %v, want 2", done, err)
	}
	if l, rows, err := OpenLines[result](t.TempDir(), nil); l != nil || rows != nil || err == nil {
		t.Errorf("a folder as lines: got %v, %v, %v, want an error", l, rows, err)
	}
	cause := errors.New("cause")
	if err := error(&LineError{"a", 3, cause}); !errors.Is(err, cause) || err.Error() != "a:3: cause" {
		t.Errorf("LineError: got %q, want a:3: cause", err)
	}
}
