package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/fuzzing"
)

// TestIndex: what was written is read back by its row, now and after the journal was opened again; what is held is not
// there then, nor what no longer holds.
func TestIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	open := func(keep func(result) bool) *Index[result] {
		t.Helper()
		x, err := OpenIndex(path, "work", 10, func(r result) int { return r.Row }, keep)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	check := func(x *Index[result], want map[int]string) {
		t.Helper()
		if x.Len() != len(want) {
			t.Errorf("%d rows, want %d", x.Len(), len(want))
		}
		for i := range 10 {
			text, there := want[i]
			r, ok, err := x.Get(i)
			if err != nil || ok != there || x.Has(i) != there || r.Text != text || there && r.Row != i {
				t.Errorf("row %d: %+v %v %v, want %q", i, r, ok, err, text)
			}
		}
	}
	x := open(nil)
	long := strings.Repeat("long ", 1000)
	err := errors.Join(x.Write(result{3, "three"}, result{0, long}), x.Write(result{9, "nine"}), x.Write())
	if err != nil {
		t.Fatal(err)
	}
	x.Hold(result{5, "passing"})
	x.Hold(result{6, "passing"})
	if err := x.Write(result{6, "six"}, result{3, "three again"}); err != nil {
		t.Fatal(err)
	}
	check(x, map[int]string{0: long, 3: "three again", 5: "passing", 6: "six", 9: "nine"})
	if err := errors.Join(x.Sync(), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(func(r result) bool { return r.Row != 9 })
	check(x, map[int]string{0: long, 3: "three again", 6: "six"})
	if err := errors.Join(x.Write(result{9, "anew"}), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(func(result) bool { return true })
	defer x.Close()
	check(x, map[int]string{0: long, 3: "three again", 6: "six", 9: "anew"})
	if x.Path() != path {
		t.Errorf("got path %s, want %s", x.Path(), path)
	}
}

// TestIndexMemory: a row without a result takes a bit, and where the lines are lies in a file that nobody sees.
func TestIndexMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	const rows = 8 << 20
	fuzzing.Bounded(t, rows/8+1<<20, func() {
		x, err := OpenIndex(path, "work", rows, func(r result) int { return r.Row }, nil)
		if err == nil {
			err = x.Write(result{rows - 1, "the last"})
		}
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if r, ok, err := x.Get(rows - 1); err != nil || !ok || r.Text != "the last" || x.Has(0) {
			t.Errorf("Get: got %+v, %t, %v, want the last row's text, and no row 0", r, ok, err)
		}
		if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
			t.Errorf("folder: got %v, %v, want one file", files, err)
		}
	})
}
