package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/long"
)

func open(t *testing.T, folder string, limit int64) *Store {
	t.Helper()
	s, err := Open(folder, Options{Limit: limit, Warn: func(text string) { t.Errorf("got warning %q, want none", text) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func bucket(t *testing.T, s *Store, kind, model string) *Bucket {
	t.Helper()
	b, err := s.Bucket(kind, model)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openBucket(t *testing.T, folder string, limit int64) *Bucket {
	t.Helper()
	return bucket(t, open(t, folder, limit), "things", "model")
}

func keyOf(i int) Key { return KeyOf(fmt.Sprint(i)) }

// valueOf returns the value for a key in these tests: its length and bytes follow from the key.
func valueOf(i, most int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	v := make([]byte, 1+rng.IntN(most))
	for k := range v {
		v[k] = byte(rng.Uint32())
	}
	return v
}

func put(t *testing.T, b *Bucket, i int, value []byte) {
	t.Helper()
	if err := b.Put(keyOf(i), value); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, folder string) (paths []string, total int64) {
	t.Helper()
	list, err := segmentFiles(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		paths, total = append(paths, f.path), total+f.size
	}
	return paths, total
}

func TestOutlivesProcess(t *testing.T) {
	dir := t.TempDir()
	a := openBucket(t, dir, 1<<20)
	put(t, a, 1, []byte("one"))
	put(t, a, 2, []byte("two"))
	a.store.Close() // like the end of the process

	b := openBucket(t, dir, 1<<20)
	if got := b.Get(keyOf(2)); string(got) != "two" {
		t.Errorf("opened again: got %q, want %q", got, "two")
	}
	put(t, b, 3, []byte("three"))
	if paths, _ := files(t, dir); len(paths) != 1 {
		t.Errorf("got segments %v, want the one that no process writes to continued", paths)
	}
	for _, other := range []*Bucket{bucket(t, b.store, "things", "another"), bucket(t, b.store, "others", "model")} {
		if v := other.Get(keyOf(2)); v != nil {
			t.Errorf("%s of %s: got %q, want nothing", other.kind, other.model, v)
		}
	}
}

// TestMovedSegment: a file that was moved to another model's folder has no records of that model.
func TestMovedSegment(t *testing.T) {
	dir := t.TempDir()
	a := openBucket(t, dir, 1<<20)
	put(t, a, 1, []byte("one"))
	other := filepath.Join(dir, "things", modelFolder("another"))
	if err := os.Rename(a.folder, other); err != nil {
		t.Fatal(err)
	}
	if v := bucket(t, open(t, dir, 1<<20), "things", "another").Get(keyOf(1)); v != nil {
		t.Errorf("another model's bucket: got %q, want nothing", v)
	}
}

// TestTwoAtOnce: two processes write to separate segments and see each other's records.
func TestTwoAtOnce(t *testing.T) {
	dir := t.TempDir()
	a, b := openBucket(t, dir, 1<<20), openBucket(t, dir, 1<<20)
	put(t, a, 1, []byte("a"))
	put(t, b, 2, []byte("b"))
	put(t, a, 3, []byte("c"))
	if paths, _ := files(t, dir); len(paths) != 2 {
		t.Errorf("want a segment for each: %v", paths)
	}
	for _, o := range []*Bucket{a, b} {
		o.refreshed = time.Time{}
		for i, want := range map[int]string{1: "a", 2: "b", 3: "c"} {
			if got := o.Get(keyOf(i)); string(got) != want {
				t.Errorf("record %d is %q, want %q", i, got, want)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	dir := t.TempDir()
	const limit = 64 << 10
	b := openBucket(t, dir, limit)
	for i := range 600 {
		put(t, b, i, slices.Concat([]byte{byte(i), byte(i >> 8)}, make([]byte, 400)))
		if _, total := files(t, dir); total > limit {
			t.Fatalf("after %d records: got a folder of %d bytes, want at most %d", i+1, total, limit)
		}
	}
	if _, total := files(t, dir); total < limit/2 {
		t.Errorf("got %d bytes used, want at least half of %d", total, limit)
	}
	if got := b.Get(keyOf(599)); got == nil || got[0] != 599&255 {
		t.Errorf("newest record: got %.3v, want it", got)
	}
	if b.Get(keyOf(0)) != nil {
		t.Errorf("oldest record: got %.3v, want nothing", b.Get(keyOf(0)))
	}
	if err := b.Put(keyOf(600), make([]byte, limit+1)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a record larger than the limit: got error %v, want one with %q", err, "limit")
	}
}

// TestLeastUsedGoesFirst: recently read segments stay, and segments that another process writes to.
func TestLeastUsedGoesFirst(t *testing.T) {
	dir := t.TempDir()
	const limit = 64 << 10
	value := make([]byte, 3000) // a segment each
	a := openBucket(t, dir, limit)
	for i := range 12 {
		put(t, a, i, value)
	}
	a.store.Close()
	paths, _ := files(t, dir)
	long := time.Now().Add(-time.Hour)
	for _, p := range paths {
		if err := os.Chtimes(p, long, long); err != nil {
			t.Fatal(err)
		}
	}
	b := openBucket(t, dir, limit)
	if b.Get(keyOf(3)) == nil {
		t.Fatalf("record 3: got nothing, want it in %d files", len(paths))
	}
	for i := 100; i < 115; i++ {
		put(t, b, i, value)
	}
	c := openBucket(t, dir, limit)
	left := 0
	for i := range 12 {
		if c.Get(keyOf(i)) != nil {
			left++
		}
	}
	if c.Get(keyOf(3)) == nil || left == 12 {
		t.Errorf("got record 3 there %t, %d of 12 left, want it, and fewer than 12", c.Get(keyOf(3)) != nil, left)
	}
}

// TestHold: held records are readable until the store is closed, even if the files are gone.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	b := openBucket(t, dir, 16<<10)
	b.Hold()
	for i := range 100 {
		put(t, b, i, valueOf(i, 1000))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if !bytes.Equal(b.Get(keyOf(i)), valueOf(i, 1000)) {
			t.Fatalf("record %d: got %.3v, want it", i, b.Get(keyOf(i)))
		}
	}
}

// TestDamage: with one byte of a file changed, a few removed from its end or added to it, every record is unchanged
// or missing. Lost records can be written again, and are then found.
func TestDamage(t *testing.T) {
	long.Test(t)
	const records = 4
	write := func(t *testing.T) (dir, path string, raw []byte) {
		dir = t.TempDir()
		b := openBucket(t, dir, 1<<20)
		for i := range records {
			put(t, b, i, valueOf(i, 60))
		}
		b.store.Close()
		paths, _ := files(t, dir)
		raw, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		return dir, paths[0], raw
	}
	dir, path, whole := write(t)
	check := func(name string, changed []byte, most int) {
		if err := os.WriteFile(path, changed, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, again := range []bool{false, true} {
			b := openBucket(t, dir, 1<<20)
			lost := 0
			for i := range records {
				got := b.Get(keyOf(i))
				if got == nil {
					lost++
					put(t, b, i, valueOf(i, 60))
				} else if !bytes.Equal(got, valueOf(i, 60)) {
					t.Fatalf("%s: record %d: got %x, want %x or nothing", name, i, got, valueOf(i, 60))
				}
			}
			if again && lost > 0 || lost > most {
				t.Fatalf("%s: got %d records lost (written again: %t), want at most %d, then none", name, lost, again, most)
			}
			b.store.Close()
		}
	}
	for at := range whole {
		for _, flip := range []byte{1, 0x80, 0xff} {
			changed := slices.Clone(whole)
			changed[at] ^= flip
			check(fmt.Sprintf("byte %d xor %#x", at, flip), changed, records)
		}
		check(fmt.Sprintf("cut off at %d", at), whole[:at], records)
	}
	check("zeros behind", append(slices.Clone(whole), make([]byte, 500)...), 0)
	check("itself behind", append(slices.Clone(whole), whole[:70]...), 0)
	check("a value changed", func() []byte { c := slices.Clone(whole); c[recordHead] ^= 1; return c }(), 1)
}

// TestDamageWhileOpen: a record that was damaged after it was indexed is not served.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	b := openBucket(t, dir, 1<<20)
	put(t, b, 1, []byte("one"))
	put(t, b, 2, []byte("two"))
	paths, _ := files(t, dir)
	f, err := os.OpenFile(paths[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("0"), int64(recordHead)); err != nil {
		t.Fatal(err)
	}
	if v := b.Get(keyOf(1)); v != nil {
		t.Errorf("the damaged record: got %q, want nothing", v)
	}
	put(t, b, 1, []byte("one"))
	if v := b.Get(keyOf(1)); string(v) != "one" {
		t.Errorf("the record written again: got %q, want %q", v, "one")
	}
	if v := b.Get(keyOf(2)); string(v) != "two" {
		t.Errorf("the other record: got %q, want %q", v, "two")
	}
}

// TestGoroutines: many goroutines at once, with several open stores of one folder that is too small for them.
func TestGoroutines(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 3 {
		b := openBucket(t, dir, 40<<10)
		for g := range 4 {
			wg.Go(func() {
				for n := range 400 {
					i := (n*7 + g*13) % 300
					if got := b.Get(keyOf(i)); got != nil && !bytes.Equal(got, valueOf(i, 500)) {
						t.Errorf("record %d: got %.3v, want %.3v or nothing", i, got, valueOf(i, 500))
					} else if got == nil {
						if err := b.Put(keyOf(i), valueOf(i, 500)); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
}

// TestNoPlace: if nothing can be written the work continues, and one warning names the file.
func TestNoPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), "want a folder") {
		t.Errorf("a file as the folder: got error %v, want one with %q", err, "want a folder")
	}
	if _, err := Open(t.TempDir(), Options{Limit: -1}); err == nil {
		t.Errorf("a negative limit: got error %v, want one", err)
	}
	var told []string
	s, err := Open(filepath.Join(file, "below"), Options{Warn: func(text string) { told = append(told, text) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := bucket(t, s, "things", "model")
	for i := range 3 {
		b.Remember(keyOf(i), []byte("x"))
		if b.Get(keyOf(i)) != nil {
			t.Errorf("record %d: got %q, want nothing", i, b.Get(keyOf(i)))
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], file) {
		t.Errorf("got warnings %q, want one with %q", told, file)
	}
	if err := b.Put(keyOf(1), []byte("x")); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Put: got error %v, want one with %q", err, file)
	}
}

func TestFloats(t *testing.T) {
	b := openBucket(t, t.TempDir(), 1<<20)
	v := []float32{1, -2.5, 3e-40}
	if err := b.Put(keyOf(1), FloatBytes(v)); err != nil {
		t.Fatal(err)
	}
	if got := b.Floats(keyOf(1), 3); !slices.Equal(got, v) {
		t.Errorf("got %v, want %v", got, v)
	}
	if got := b.Floats(keyOf(1), 4); got != nil {
		t.Errorf("three numbers as four: got %v, want nothing", got)
	}
}

// TestKeyOf: no two lists have the same digest.
func TestKeyOf(t *testing.T) {
	seen := map[Key]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""},
		{"\x02\x00\x00\x00\x00\x00\x00\x00ab"}} {
		t.Run(fmt.Sprintf("%q", parts), func(t *testing.T) {
			k := KeyOf(parts...)
			if seen[k] != "" {
				t.Errorf("%q: got the digest of %s, want a different one", parts, seen[k])
			}
			seen[k] = fmt.Sprintf("%q", parts)
		})
	}
}
