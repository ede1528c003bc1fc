package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/fuzzing"
)

// TestIndex: results are read back by row, at once and after the journal is reopened. After that, held results are
// gone, and so are those that keep rejects.
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

// TestIndexMemory: a row without a result takes one bit, and the offsets of lines are in an unlinked file.
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

// TestIndexOfShorterTable: rows that are no longer in the table are skipped.
func TestIndexOfShorterTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	all := func(result) bool { return true }
	shift := 0
	open := func(rows int) *Index[result] {
		t.Helper()
		x, err := OpenIndex(path, "work", rows, func(r result) int { return r.Row - shift }, all)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := open(10)
	if err := errors.Join(x.Write(result{0, "zero"}, result{4, "four"}, result{5, "five"}), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(5)
	if x.Len() != 2 || !x.Has(0) || !x.Has(4) {
		t.Errorf("5 rows: got %d results, row 0 %t, row 4 %t, want 2, both", x.Len(), x.Has(0), x.Has(4))
	}
	x.Close()
	shift = 1 // row 0 of the journal is before the first row
	x = open(5)
	defer x.Close()
	if x.Len() != 2 || !x.Has(3) || !x.Has(4) {
		t.Errorf("starting at row 1: got %d results, row 3 %t, row 4 %t, want 2, both", x.Len(), x.Has(3), x.Has(4))
	}
}

// TestIndexChangedMeanwhile: a journal that something else changed returns no result that was not written for its
// row.
func TestIndexChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]func(raw []byte) []byte{
		"damaged": func(raw []byte) []byte { return bytes.Replace(raw, []byte("two"), []byte("tvo"), 1) },
		"another row": func(raw []byte) []byte {
			lines := bytes.SplitAfter(raw, []byte("\n"))
			return bytes.Join([][]byte{lines[0], lines[2], lines[1]}, nil)
		},
		"shorter": func(raw []byte) []byte { return raw[:len(raw)-20] },
		"no JSON": func(raw []byte) []byte { return append(raw[:len(raw)-20], bytes.Repeat([]byte("\n"), 20)...) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.progress")
			x, err := OpenIndex(path, "work", 3, func(r result) int { return r.Row }, nil)
			if err == nil {
				err = x.Write(result{1, "one"}, result{2, "two"})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			raw, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(raw), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			r, ok, err := x.Get(2)
			if ok || err == nil || !strings.HasPrefix(err.Error(), path+": the result of row 3: ") {
				t.Errorf("Get(2): got %+v, %t, %v, want an error of row 3", r, ok, err)
			}
		})
	}
}

// TestIndexHeld: a held result counts once, is replaced by a written one, and is not in the journal.
func TestIndexHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	x, err := OpenIndex(path, "work", 70, func(r result) int { return r.Row }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	x.Hold(result{65, "held"})
	x.Hold(result{65, "held again"})
	if r, ok, err := x.Get(65); x.Len() != 1 || !ok || r.Text != "held again" || err != nil || x.Has(1) || x.Has(64) {
		t.Errorf("held: got %d results, %+v, %t, %v, want only the last one of row 65", x.Len(), r, ok, err)
	}
	if err := x.Write(result{65, "written"}); err != nil {
		t.Fatal(err)
	}
	if r, ok, err := x.Get(65); x.Len() != 1 || !ok || r.Text != "written" || err != nil {
		t.Errorf("written: got %d results, %+v, %t, %v, want one", x.Len(), r, ok, err)
	}
	x.Hold(result{65, "held over it"})
	if r, _, _ := x.Get(65); x.Len() != 1 || r.Text != "held over it" {
		t.Errorf("held over it: got %d results, %+v, want one, the held one", x.Len(), r)
	}
}

// TestIndexRefused: a journal of other work is refused, and leaves no other files.
func TestIndexRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	place := func(r result) int { return r.Row }
	x, err := OpenIndex(path, "work", 3, place, nil)
	if err == nil {
		err = x.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	x, err = OpenIndex(path, "other work", 3, place, nil)
	if x != nil || err == nil || !strings.Contains(err.Error(), `belongs to another run ("work")`) {
		t.Errorf("other work: got %v, %v, want an error with the work's head", x, err)
	}
	if got := exit.Code(err); got != exit.Wrong {
		t.Errorf("other work: got exit code %d, want %d: the same command fails again", got, exit.Wrong)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("folder: got %v, %v, want only the journal", files, err)
	}
	if x, err := OpenIndex(filepath.Join(path, "x"), "work", 3, place, nil); x != nil || err == nil {
		t.Errorf("a journal below a file: got %v, %v, want an error", x, err)
	}
}
