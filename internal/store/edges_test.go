package store

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/data"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// used sets the last use of the only segment of a model.
func used(t *testing.T, b *Bucket, at time.Time) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.folder, "*"+segmentExt))
	if err != nil || len(paths) != 1 {
		t.Fatalf("segments: got %v, %v, want one", paths, err)
	}
	if err := os.Chtimes(paths[0], at, at); err != nil {
		t.Fatal(err)
	}
	return paths[0]
}

// three creates a store folder of three models that were used one, two and three hours ago, and closes it.
func three(t *testing.T) (dir string, day time.Time) {
	t.Helper()
	dir, day = t.TempDir(), time.Now().Truncate(time.Second)
	s := open(t, dir, 1<<20)
	for i, name := range [][2]string{{"b", "new"}, {"b", "old"}, {"a", "oldest"}} {
		b := bucket(t, s, name[0], name[1])
		for k := range i + 1 {
			put(t, b, k, make([]byte, 100))
		}
		used(t, b, day.Add(-time.Duration(i+1)*time.Hour))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"note", "b/note", "b/" + modelFolder("new") + "/note"} { // unrelated files
		if err := os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir, day
}

// TestList: each model of each kind with its records and bytes, most recently used first.
func TestList(t *testing.T) {
	dir, day := three(t)
	size := recordSize(100)
	got, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Contents{
		{"a", modelFolder("oldest"), 3, 1, 3 * size, day.Add(-3 * time.Hour)},
		{"b", modelFolder("new"), 1, 1, size, day.Add(-time.Hour)},
		{"b", modelFolder("old"), 2, 1, 2 * size, day.Add(-2 * time.Hour)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("List (-want +got):\n%s", d)
	}
	s := open(t, dir, 1<<20)
	b := bucket(t, s, "b", "old")
	other, err := newSegment(b.folder)
	if err == nil {
		_, err = other.append(keyOf(9), []byte("more"))
	}
	if err := errors.Join(err, other.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err = List(dir); err != nil || len(got) != 3 || got[1].Model != modelFolder("old") || got[1].Files != 2 ||
		got[1].Records != 3 || got[1].Bytes != 2*size+recordSize(4) || time.Since(got[1].Used) > time.Minute {
		t.Errorf("List with a second file: got %+v, %v, want both for the old model, used now", got, err)
	}
	if got, err := List(filepath.Join(dir, "none")); got != nil || err != nil {
		t.Errorf("List of a missing folder: got %v, %v, want nothing", got, err)
	}
	if _, err := List(filepath.Join(dir, "note")); err == nil {
		t.Errorf("List of a file: got error %v, want one", err)
	}
}

// TestPrune: by age, by bytes and by kind, least recently used first; empty folders are also removed.
func TestPrune(t *testing.T) {
	size := recordSize(100)
	for _, c := range []struct {
		name string
		p    func(day time.Time) Pruning
		want Pruned
		left string
	}{
		{"nothing", func(time.Time) Pruning { return Pruning{Most: -1} }, Pruned{Left: 6 * size}, "oldest new old"},
		{"all", func(time.Time) Pruning { return Pruning{} }, Pruned{Files: 3, Bytes: 6 * size}, ""},
		{"as many bytes as there are", func(time.Time) Pruning { return Pruning{Most: 6 * size} }, Pruned{Left: 6 * size},
			"oldest new old"},
		{"a byte less", func(time.Time) Pruning { return Pruning{Most: 6*size - 1} },
			Pruned{Files: 1, Bytes: 3 * size, Left: 3 * size}, "new old"},
		{"a record", func(time.Time) Pruning { return Pruning{Most: size} },
			Pruned{Files: 2, Bytes: 5 * size, Left: size}, "new"},
		{"older than two hours", func(day time.Time) Pruning { return Pruning{Older: day.Add(-2 * time.Hour), Most: -1} },
			Pruned{Files: 1, Bytes: 3 * size, Left: 3 * size}, "new old"},
		{"older than one", func(day time.Time) Pruning { return Pruning{Older: day.Add(-time.Hour), Most: -1} },
			Pruned{Files: 2, Bytes: 5 * size, Left: size}, "new"},
		{"a kind", func(time.Time) Pruning { return Pruning{Kind: "b"} },
			Pruned{Files: 2, Bytes: 3 * size, Left: 3 * size}, "oldest"},
		{"a kind by bytes of all", func(time.Time) Pruning { return Pruning{Kind: "b", Most: 5 * size} },
			Pruned{Files: 1, Bytes: 2 * size, Left: 4 * size}, "oldest new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, day := three(t)
			got, err := Prune(dir, c.p(day))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&c.want, got); d != "" {
				t.Errorf("Prune (-want +got):\n%s", d)
			}
			list, err := List(dir)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, l := range list {
				for _, model := range []string{"new", "old", "oldest"} {
					if l.Model == modelFolder(model) {
						left = append(left, model)
					}
				}
			}
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("models: got %q left, want %q", got, c.left)
			}
			_, err = os.Stat(filepath.Join(dir, "a", modelFolder("oldest")))
			if gone := errors.Is(err, fs.ErrNotExist); gone == strings.Contains(c.left, "oldest") {
				t.Errorf("folder of the oldest model: got gone %t, %v", gone, err)
			}
		})
	}
	dir := t.TempDir()
	b := openBucket(t, dir, 1<<20)
	put(t, b, 1, make([]byte, 100))
	if got, err := Prune(dir, Pruning{}); err != nil || *got != (Pruned{Left: size, Busy: 1}) {
		t.Errorf("Prune while a process writes: got %+v, %v, want one busy file", got, err)
	}
}

// TestBuckets: names of kinds, one bucket for each kind and model, and values that cannot be stored.
func TestBuckets(t *testing.T) {
	s := open(t, t.TempDir(), 10_000)
	for _, kind := range []string{"", ".", "..", ".hidden", "a/b", "a/"} {
		if b, err := s.Bucket(kind, "model"); b != nil || err == nil {
			t.Errorf("Bucket(%q): got %v, %v, want an error", kind, b, err)
		}
	}
	b := bucket(t, s, "kind", "model")
	if b != bucket(t, s, "kind", "model") || b == bucket(t, s, "kind", "other") || b == bucket(t, s, "other", "model") {
		t.Errorf("Bucket: got another bucket for the same kind and model, or one for several, want one each")
	}
	most := 10_000 - int(recordSize(0))
	for size, want := range map[int]string{0: "a record of 0 bytes cannot be stored", 1: "", most: "",
		most + 1: "does not fit into the limit of 10000"} {
		err := b.Put(keyOf(size), make([]byte, size))
		if (err == nil) != (want == "") || err != nil && !(strings.HasPrefix(err.Error(), "store: ") &&
			strings.HasSuffix(err.Error(), want)) {
			t.Errorf("Put of %d bytes: got error %v, want %q", size, err, want)
		}
	}
	if s.Folder() != filepath.Dir(filepath.Dir(b.folder)) {
		t.Errorf("Folder: got %s, want that of %s", s.Folder(), b.folder)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(keyOf(1), []byte("x")); !errors.Is(err, os.ErrClosed) || b.Len() != 0 || b.Get(keyOf(1)) != nil {
		t.Errorf("a closed store: got %v, %d records, want %v and none", err, b.Len(), os.ErrClosed)
	}
	if s, err := Open(t.TempDir(), Options{}); err != nil || s.limit != DefaultLimit {
		t.Errorf("Open without a limit: got %v, %v, want %d", s.limit, err, DefaultLimit)
	}
}

// TestRemovedElsewhere: records removed by another process are forgotten at the next refresh; a record that is in two
// files is found in the other one.
func TestRemovedElsewhere(t *testing.T) {
	dir := t.TempDir()
	a, b := openBucket(t, dir, 1<<20), openBucket(t, dir, 1<<20)
	put(t, a, 1, []byte("one"))
	put(t, b, 1, []byte("one"))
	put(t, b, 2, []byte("two"))
	c := openBucket(t, dir, 1<<20)
	if c.Len() != 2 {
		t.Fatalf("got %d keys, want 2", c.Len())
	}
	a.store.Close()
	b.store.Close()
	if err := os.Remove(b.fileOf(t, dir, 2)); err != nil {
		t.Fatal(err)
	}
	if err := c.refresh(); err != nil {
		t.Fatal(err)
	}
	if got := c.Get(keyOf(1)); string(got) != "one" || c.Len() != 1 || len(c.segments) != 1 {
		t.Errorf("after one file went: got %q, %d keys, %d files, want one, 1, 1", got, c.Len(), len(c.segments))
	}
	paths, _ := files(t, dir)
	if err := os.Remove(paths[0]); err != nil {
		t.Fatal(err)
	}
	if err := c.refresh(); err != nil {
		t.Fatal(err)
	}
	if c.Len() != 0 || len(c.segments) != 0 || c.Get(keyOf(1)) != nil {
		t.Errorf("after both went: got %d keys, %d files, want none", c.Len(), len(c.segments))
	}
	put(t, c, 3, []byte("three"))
	if got := c.Get(keyOf(3)); string(got) != "three" {
		t.Errorf("written then: got %q, want three", got)
	}
}

// fileOf returns the file that contains the record of a key.
func (b *Bucket) fileOf(t *testing.T, dir string, i int) string {
	t.Helper()
	paths, _ := files(t, dir)
	for _, p := range paths {
		s, err := openSegment(p)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		found := false
		if err := s.scan(func(address Key, _ int64, _ int) { found = found || address == b.address(keyOf(i)) }); err != nil {
			t.Fatal(err)
		}
		if found {
			return p
		}
	}
	t.Fatalf("record %d: got no file of %v, want one", i, paths)
	return ""
}

// TestTouch: a file is marked as used when it is read, at most once a minute.
func TestTouch(t *testing.T) {
	dir := t.TempDir()
	b := openBucket(t, dir, 1<<20)
	put(t, b, 1, []byte("one"))
	hour := time.Now().Add(-time.Hour).Truncate(time.Second)
	path := used(t, b, hour)
	age := func(since time.Duration) time.Duration {
		b.current.used.Store(time.Now().Add(-since).Unix())
		b.Get(keyOf(1))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(info.ModTime())
	}
	if got := age(50 * time.Second); got < time.Hour {
		t.Errorf("read 50 seconds after the last mark: got it marked %v ago, want an hour", got)
	}
	if got := age(60 * time.Second); got > time.Minute {
		t.Errorf("read a minute after the last mark: got it marked %v ago, want now", got)
	}
}

// TestFloatBytes: values are restored bit for bit.
func TestFloatBytes(t *testing.T) {
	b := openBucket(t, t.TempDir(), 1<<20)
	v := []float32{0, -1.5, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN())}
	put(t, b, 1, FloatBytes(v))
	put(t, b, 2, []byte("12345"))
	if d := cmp.Diff(v, b.Floats(keyOf(1), 0), cmpopts.EquateNaNs()); d != "" {
		t.Errorf("any number of floats (-want +got):\n%s", d)
	}
	if got := b.Floats(keyOf(2), 0); got != nil {
		t.Errorf("five bytes: got %v, want nothing", got)
	}
	if got := b.Floats(keyOf(3), 0); got != nil {
		t.Errorf("no record: got %v, want nothing", got)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if k, err := FileDigest(writeFile(t, "abc")); err != nil || k.String() != abc {
		t.Errorf("FileDigest of abc: got %s, %v, want %s", k, err, abc)
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDefaultFolder: the value of the variable, else in the user's cache folder.
func TestDefaultFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/cache")
	t.Setenv(FolderVariable, "")
	if got, err := DefaultFolder(); got != "/cache/assay/store" || err != nil {
		t.Errorf("got %s, %v, want /cache/assay/store", got, err)
	}
	t.Setenv(FolderVariable, "/else/where")
	if got, err := DefaultFolder(); got != "/else/where" || err != nil {
		t.Errorf("%s set: got %s, %v, want /else/where", FolderVariable, got, err)
	}
	t.Setenv(FolderVariable, "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got, err := DefaultFolder(); got != "" || err == nil || !strings.Contains(err.Error(), FolderVariable) {
		t.Errorf("no folder: got %q, %v, want an error that names %s", got, err, FolderVariable)
	}
}

// TestPictures: the digest of a picture's pixels is stored under the digest of its bytes, which may be in a file.
func TestPictures(t *testing.T) {
	t.Setenv(FolderVariable, t.TempDir())
	var raw bytes.Buffer
	if err := png.Encode(&raw, image.NewNRGBA(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, raw.String())
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	p, err := s.Pictures()
	if err != nil {
		t.Fatal(err)
	}
	byPath, err1 := Content(filepath.Dir(path), data.Image{Path: "file"})
	byBytes, err2 := Content("", data.Image{Bytes: raw.Bytes()})
	if byPath != byBytes || err1 != nil || err2 != nil {
		t.Errorf("Content: got %s, %v of the file and %s, %v of the bytes, want one", byPath, err1, byBytes, err2)
	}
	if pixels, ok := p.Pixels(byPath); ok {
		t.Errorf("Pixels before decoding: got %s, want nothing", pixels)
	}
	picture, content, pixels, err := p.Open(filepath.Dir(path), data.Image{Path: "file"})
	if err != nil || picture.Width != 3 || content != byPath || pixels != picture.Digest() || p.Decoded() != 1 {
		t.Errorf("Open: got %v, %s, %s, %v, %d decoded, want 3 x 2 pixels of content %s", picture, content, pixels, err,
			p.Decoded(), byPath)
	}
	if got, ok := p.Pixels(content); !ok || got != pixels {
		t.Errorf("Pixels: got %s, %t, want %s", got, ok, pixels)
	}
	s.Close()
	again, err := open(t, dir, 1<<20).Pictures()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := again.Pixels(content); !ok || got != pixels || again.Decoded() != 0 {
		t.Errorf("Pixels in another process: got %s, %t, %d decoded, want %s, none", got, ok, again.Decoded(), pixels)
	}
	if _, _, _, err := again.Decode("", data.Image{}, []byte("no picture")); err == nil || again.Decoded() != 0 {
		t.Errorf("Decode of something else: got error %v, %d decoded, want an error, none", err, again.Decoded())
	}
	if _, _, _, err := again.Open("", data.Image{Path: filepath.Join(dir, "none.png")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a missing file: got error %v, want %v", err, fs.ErrNotExist)
	}
}

// TestEvictedFirst: the least recently used records are evicted, whatever the file names.
func TestEvictedFirst(t *testing.T) {
	size := recordSize(100)
	for range 5 { // files have random names
		dir, _ := three(t)
		s := open(t, dir, 6*size)
		put(t, bucket(t, s, "c", "more"), 1, make([]byte, 100))
		for model, want := range map[string]int{"new": 1, "old": 2, "oldest": 0} {
			kind := map[bool]string{true: "a", false: "b"}[model == "oldest"]
			if err := bucket(t, s, kind, model).refresh(); err != nil {
				t.Fatal(err)
			}
			if got := bucket(t, s, kind, model).Len(); got != want {
				t.Errorf("%s: got %d records left, want %d", model, got, want)
			}
		}
		s.Close()
	}
}
