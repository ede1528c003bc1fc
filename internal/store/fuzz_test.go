package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/fuzzing"
)

// FuzzSegment: whatever a segment contains, a record that is found is the one that was written, memory is
// proportional to the file, and the store keeps working.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		f.Fatal(err)
	}
	b, err := s.Bucket("things", "model")
	for i := range 3 {
		if err == nil {
			err = b.Put(keyOf(i), valueOf(i, 100))
		}
	}
	if err != nil {
		f.Fatal(err)
	}
	s.Close()
	files, err := filepath.Glob(filepath.Join(dir, "things", "*", "*"+segmentExt))
	if err != nil || len(files) != 1 {
		f.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		f.Fatal(err)
	}
	x := fuzzing.New(f)
	x.Add(raw, raw[:len(raw)-7], nil)
	x.Run(func(t testing.TB, raw []byte) {
		if err := os.WriteFile(files[0], raw, 0o666); err != nil {
			t.Fatal(err)
		}
		fuzzing.Bounded(t, 4<<20+64*uint64(len(raw)), func() {
			s, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			b, err := s.Bucket("things", "model")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if v := b.Get(keyOf(i)); v != nil && !bytes.Equal(v, valueOf(i, 100)) {
					t.Errorf("record %d: got %q, want %q or nothing", i, v, valueOf(i, 100))
				}
			}
			if err := b.Put(keyOf(9), valueOf(9, 100)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Get(keyOf(9)), valueOf(9, 100)) {
				t.Errorf("record 9: got %q, want what was put: %q", b.Get(keyOf(9)), valueOf(9, 100))
			}
		})
		more, err := filepath.Glob(filepath.Join(dir, "things", "*", "*"+segmentExt)) // started because the first was damaged
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range more {
			if path != files[0] {
				os.Remove(path)
			}
		}
	})
}
