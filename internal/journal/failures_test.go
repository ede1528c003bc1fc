package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFailures: a full disk, and files that cannot be truncated, read or created, are errors that say so.
func TestFailures(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skipf("no %s here: a full disk was not tested", full)
	}
	place, all := func(r result) int { return r.Row }, func(result) bool { return true }
	// link returns a path in a new folder whose name with the suffix leads to another file.
	link := func(t *testing.T, suffix, to string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "out.progress")
		if err := os.Symlink(to, path+suffix); err != nil {
			t.Fatal(err)
		}
		return path
	}
	written := func(t *testing.T, path string) {
		t.Helper()
		j, _, err := Open[result](path, "work")
		if err == nil {
			err = errors.Join(j.Write(result{1, "one"}), j.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		want error
		run  func(t *testing.T) error
	}{
		"truncating a device": {syscall.EINVAL, func(*testing.T) error {
			_, err := OpenFile(os.DevNull, 0)
			return err
		}},
		"reading a folder": {syscall.EISDIR, func(t *testing.T) error {
			_, err := read(t.TempDir(), []byte(`"work"`), func(result, int64) {})
			return err
		}},
		"opening a folder's lines": {syscall.EISDIR, func(t *testing.T) error {
			_, _, err := OpenLines[result](t.TempDir(), nil)
			return err
		}},
		"creating below a file": {syscall.ENOTDIR, func(*testing.T) error {
			_, err := OpenFile(filepath.Join(os.DevNull, "x"), 0)
			return err
		}},
		"an index on a full disk, rewritten": {syscall.ENOSPC, func(t *testing.T) error {
			path := link(t, ".index", full)
			written(t, path)
			x, err := OpenIndex(path, "work", 3, place, all)
			if x != nil {
				t.Errorf("got an index, want none")
			}
			return err
		}},
		"an index on a full disk, as it grows": {syscall.ENOSPC, func(t *testing.T) error {
			x, err := OpenIndex(link(t, ".index", full), "work", 3, place, all)
			if err != nil {
				return errors.New("too early: " + err.Error())
			}
			defer x.Close()
			return x.Write(result{1, "one"})
		}},
		"an index that cannot be created": {syscall.ENOTDIR, func(t *testing.T) error {
			x, err := OpenIndex(link(t, ".index", filepath.Join(os.DevNull, "x")), "work", 3, place, all)
			if x != nil {
				t.Errorf("got an index, want none")
			}
			return err
		}},
		"writing on a full disk": {syscall.ENOSPC, func(t *testing.T) error {
			f, err := os.OpenFile(full, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			l := Lines[result]{file: &File{file: f}}
			err = l.Write(result{1, "one"})
			if l.file.Size() != 0 {
				t.Errorf("got size %d after a failed write, want 0", l.file.Size())
			}
			return errors.Join(err, f.Close())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.run(t); !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
		})
	}
}

// TestFailedOpenReleases: a journal that could not be opened is not locked, and can be opened once the cause is gone.
func TestFailedOpenReleases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	if _, err := OpenIndex(path, func() {}, 3, func(result) int { return 0 }, nil); err == nil {
		t.Fatal("a head that is not JSON: got no error, want one")
	}
	if err := os.Mkdir(path+".index", 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIndex(path, "work", 3, func(result) int { return 0 }, nil); !errors.Is(err, syscall.EISDIR) {
		t.Fatalf("a folder in place of the index: got error %v, want %v", err, syscall.EISDIR)
	}
	if err := os.Remove(path + ".index"); err != nil {
		t.Fatal(err)
	}
	x, err := OpenIndex(path, "work", 3, func(result) int { return 0 }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}
