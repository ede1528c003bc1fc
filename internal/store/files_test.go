package store

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"assay/internal/long"
)

// openFiles opens a cache of digests, and waits until files are old enough to be cached, because the clock cannot be
// set.
func openFiles(t *testing.T, folder string) *Files {
	return &Files{bucket: openBucket(t, folder, 1<<20), known: map[Key]Key{}, busy: map[string]*sync.Mutex{}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFileChanges: a file that was renamed over, replaced, edited in place or touched back in time has the digest of
// its content. An unchanged file is not read again.
func TestFileChanges(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	names := map[string]func(t *testing.T, path string){
		"unchanged": func(*testing.T, string) {},
		"in place, old times": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, "other")
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
		"renamed over, old times": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path+".new", "other")
			if err := os.Chtimes(path+".new", info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
		"removed and made": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, "other")
		},
		"swapped": func(t *testing.T, path string) {
			for _, move := range [][2]string{{path, path + ".a"}, {path + ".twin", path}, {path + ".a", path + ".twin"}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a link turned": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path+".twin", path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name := range names {
		write(t, filepath.Join(dir, name), "first")
		write(t, filepath.Join(dir, name+".twin"), "other")
	}
	f := openFiles(t, filepath.Join(dir, "store"))
	for name := range names {
		if k, err := f.Digest(filepath.Join(dir, name)); err != nil || k != sha256.Sum256([]byte("first")) {
			t.Fatalf("%s: got digest %s, %v, want that of %q", name, k, err, "first")
		}
	}
	if len(f.known) > 0 || f.bucket.Len() > 0 {
		t.Errorf("got %d files remembered, %d stored, want none: their changes could not be distinguished", len(f.known),
			f.bucket.Len())
	}
	time.Sleep(settled + 100*time.Millisecond)
	for name := range names {
		if _, err := f.Digest(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Digest(filepath.Join(dir, name+".twin")); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.known) != 2*len(names) {
		t.Errorf("got %d files remembered, want %d", len(f.known), 2*len(names))
	}
	for name, change := range names {
		change(t, filepath.Join(dir, name))
	}
	later := openFiles(t, filepath.Join(dir, "store")) // another process
	for _, o := range []*Files{f, later} {
		for name := range names {
			want := "other"
			if name == "unchanged" {
				want = "first"
			}
			if k, err := o.Digest(filepath.Join(dir, name)); err != nil || k != sha256.Sum256([]byte(want)) {
				t.Errorf("%s: got digest %s, %v, want that of %q", name, k, err, want)
			}
		}
	}
	state, err := stateOf("x", func() (os.FileInfo, error) { return os.Stat(filepath.Join(dir, "unchanged")) })
	if err != nil || !state.settled {
		t.Fatalf("state of an unchanged file: got %+v, %v, want it settled", state, err)
	}
	if _, ok, err := later.lookup(filepath.Join(dir, "unchanged")); !ok || err != nil {
		t.Errorf("lookup of an unchanged file: got found %t, %v, want it", ok, err)
	}
	if _, err := f.Digest(dir); err == nil {
		t.Errorf("Digest of a folder: got error %v, want one", err)
	}
	if _, err := f.Digest(filepath.Join(dir, "none")); err == nil {
		t.Errorf("Digest of a missing file: got error %v, want one", err)
	}
}

// TestDigestOfLinked: a file that is linked again and again while it is read has the digest of its bytes, although
// each link sets a new ctime.
func TestDigestOfLinked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "picture")
	raw := make([]byte, 4<<20)
	for i := range raw {
		raw[i] = byte(i * i >> 3)
	}
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	links := 0
	go func() {
		defer close(stopped)
		for name := path + ".link"; ; links++ {
			select {
			case <-stop:
				return
			default:
				if os.Link(path, name) != nil || os.Remove(name) != nil {
					return
				}
			}
		}
	}()
	f := openFiles(t, t.TempDir())
	for range 5 {
		if k, err := f.Digest(path); err != nil || k != sha256.Sum256(raw) {
			t.Errorf("got digest %v, %v, want %x", k, err, sha256.Sum256(raw))
		}
	}
	close(stop)
	<-stopped
	if links == 0 {
		t.Skip("the file system does not support links")
	}
}
