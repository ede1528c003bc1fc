package encoders

import (
	"context"
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
)

func openShelf(t *testing.T, folder string, limit int64) *shelf {
	t.Helper()
	c, err := OpenCache(folder, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := c.shelf("model")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keyOf(i int) key { return sha256.Sum256([]byte{byte(i), byte(i >> 8)}) }

func put(t *testing.T, s *shelf, i int, v ...float32) {
	t.Helper()
	if err := s.put(keyOf(i), v); err != nil {
		t.Fatal(err)
	}
}

func segmentFiles(t *testing.T, folder string) (paths []string, bytes int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*", "*"+segmentExt))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return paths, bytes
}

func TestCacheOutlivesProcess(t *testing.T) {
	dir := t.TempDir()
	a := openShelf(t, dir, 1<<20)
	put(t, a, 1, 1, 2)
	put(t, a, 2, 3, 4)
	a.cache.Close() // as the end of the process

	b := openShelf(t, dir, 1<<20)
	if got := b.get(keyOf(2)); !slices.Equal(got, []float32{3, 4}) {
		t.Errorf("after opening again: %v", got)
	}
	put(t, b, 3, 5, 6)
	if paths, _ := segmentFiles(t, dir); len(paths) != 1 {
		t.Errorf("a segment that nobody writes to was not continued: %v", paths)
	}
	other, err := b.cache.shelf("another model")
	if err != nil || other.get(keyOf(2)) != nil {
		t.Errorf("another model's embedding was found (%v)", err)
	}
}

// TestCacheOfTwoProcesses: while one writes, another one writes to its own segment and reads what was there before.
func TestCacheOfTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	a := openShelf(t, dir, 1<<20)
	put(t, a, 1, 1)
	b := openShelf(t, dir, 1<<20)
	put(t, a, 2, 2)
	put(t, b, 3, 3)
	put(t, a, 4, 4)
	if b.get(keyOf(1)) == nil || b.get(keyOf(2)) != nil {
		t.Error("want what was there at opening, and no more")
	}
	a.cache.Close()
	b.cache.Close()
	c := openShelf(t, dir, 1<<20)
	for i := 1; i <= 4; i++ {
		if got := c.get(keyOf(i)); !slices.Equal(got, []float32{float32(i)}) {
			t.Errorf("embedding %d is %v", i, got)
		}
	}
}

func TestCacheLimit(t *testing.T) {
	dir := t.TempDir()
	const limit = 64 << 10
	s := openShelf(t, dir, limit)
	v := make([]float32, 100) // 440 bytes a record
	for i := range 600 {
		v[0] = float32(i)
		put(t, s, i, v...)
	}
	if _, bytes := segmentFiles(t, dir); bytes > limit || bytes < limit/2 {
		t.Errorf("the folder holds %d bytes, the limit is %d", bytes, limit)
	}
	if got := s.get(keyOf(599)); got == nil || got[0] != 599 {
		t.Errorf("the newest embedding is %.3v", got)
	}
	if s.get(keyOf(0)) != nil {
		t.Error("the oldest embedding is still there")
	}
}

// TestCacheDamage: a record that a crash cut off, or that the disk changed, is not there; the rest is.
func TestCacheDamage(t *testing.T) {
	write := func(t *testing.T) (dir, path string, raw []byte) {
		dir = t.TempDir()
		s := openShelf(t, dir, 1<<20)
		for i := range 3 {
			put(t, s, i, float32(i), 7)
		}
		s.cache.Close()
		paths, _ := segmentFiles(t, dir)
		raw, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		return dir, paths[0], raw
	}
	tests := []struct {
		name   string
		change func(raw []byte) []byte
		lost   []int
	}{
		{"cut off", func(raw []byte) []byte { return raw[:len(raw)-3] }, []int{2}},
		{"cut off in the head", func(raw []byte) []byte { return raw[:2*recordSize(2)+10] }, []int{2}},
		{"zeros behind", func(raw []byte) []byte { return append(raw, make([]byte, 500)...) }, nil},
		{"flipped bit", func(raw []byte) []byte { raw[recordSize(2)+40] ^= 1; return raw }, []int{1}},
		{"empty", func([]byte) []byte { return nil }, []int{0, 1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, path, raw := write(t)
			if err := os.WriteFile(path, tt.change(raw), 0o666); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time what was lost has been written again
				s := openShelf(t, dir, 1<<20)
				for i := range 3 {
					got := s.get(keyOf(i))
					if slices.Contains(tt.lost, i) {
						if got != nil {
							t.Errorf("embedding %d is %v, want none", i, got)
						}
						put(t, s, i, float32(i), 7)
					} else if !slices.Equal(got, []float32{float32(i), 7}) {
						t.Errorf("embedding %d is %v", i, got)
					}
				}
				s.cache.Close()
				tt.lost = nil
			}
		})
	}
}

func openCached(t *testing.T, m *Model, folder string) *Cached {
	t.Helper()
	c, err := OpenCache(folder, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	cached, err := NewCached(m, c)
	if err != nil {
		t.Fatal(err)
	}
	return cached
}

// TestEncodedOnce: equal pictures, in whatever file, and equal texts are encoded once, in this process and the next.
func TestEncodedOnce(t *testing.T) {
	e, pictures := readExpectation(t)
	m, dir, ctx := open(t, "testdata/clip_half"), t.TempDir(), context.Background()
	copied := filepath.Join(t.TempDir(), "again.png")
	if err := pictures[0].WritePNG(copied); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	images := []data.Image{{Path: e.Pictures[0]}, {Path: copied}, {Path: "missing.png"}, {Path: e.Pictures[1]}, {Bytes: raw}, {Path: e.Pictures[0]}}
	for i, encoded := range []int64{2 + 2, 0} {
		c := openCached(t, m, dir)
		got, problems, err := c.Files(ctx, "../testdata/oracle/images", images)
		if err != nil {
			t.Fatal(err)
		}
		for k, same := range []int{0, 0, -1, 1, 0, 0} {
			if same < 0 {
				if problems[k] == nil || !strings.Contains(problems[k].Error(), "missing.png") || got[k] != nil {
					t.Errorf("a missing picture: %v, %v", got[k], problems[k])
				}
			} else if want := e.Expect["clip_half"].Images[same]; problems[k] != nil || !near32(got[k], want) {
				t.Errorf("run %d, picture %d: %v, want %v (%v)", i, k, got[k], want, problems[k])
			}
		}
		again, err := c.Images(ctx, pictures)
		if err != nil || !near32(again[1], e.Expect["clip_half"].Images[1]) {
			t.Errorf("decoded pictures: %v (%v)", again, err)
		}
		texts, err := c.Texts(ctx, []string{e.Texts[0], e.Texts[1], e.Texts[0]})
		if err != nil || !near32(texts[1], e.Expect["clip_half"].Texts[1]) || !slices.Equal(texts[0], texts[2]) {
			t.Errorf("texts: %v (%v)", texts, err)
		}
		if n, found := c.Counts(); n != encoded || found != 10-encoded {
			t.Errorf("run %d encoded %d and found %d, want %d and %d", i, n, found, encoded, 10-encoded)
		}
		c.shelf.cache.Close()
	}
}

func near32(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= 1e-4 })
}
