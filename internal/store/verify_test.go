package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestVerifyHeads: a damaged head is counted, a truncated record is not.
func TestVerifyHeads(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func([]byte) []byte
		damaged int
	}{
		{"whole", func(b []byte) []byte { return b }, 0},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1] }, 0},
		{"head cut off", func(b []byte) []byte { return b[:recordHead/2] }, 0},
		{"first byte", func(b []byte) []byte { b[0] ^= 1; return b }, 1},
		{"head's last byte", func(b []byte) []byte { b[recordHead-1] ^= 1; return b }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, 0)
			b := bucket(t, s, "things", "model")
			for i := range 3 {
				if err := b.Put(keyOf(i), valueOf(i, 100)); err != nil {
					t.Fatal(err)
				}
			}
			s.Close()
			files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.segment"))
			if err != nil || len(files) != 1 {
				t.Fatalf("segments: got %v, %v, want one", files, err)
			}
			raw, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(files[0], c.change(raw), 0o666); err != nil {
				t.Fatal(err)
			}
			if v, err := Verify(dir); err != nil || len(v.Damaged) != c.damaged {
				t.Errorf("%s: %+v (%v), want %d damaged", c.name, v, err, c.damaged)
			}
		})
	}
}

// TestDropDamaged: damaged records are removed and intact ones stay, also for a process that has the folder open.
func TestDropDamaged(t *testing.T) {
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 100) }
	for _, c := range []struct {
		name    string
		at      int64 // offset of the changed byte
		records int   // remaining
	}{
		{"a value", recordSize(100) + int64(recordHead), 3},
		{"a head", recordSize(100) + 5, 1}, // nothing after it can be found
		{"the first head", 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, 0)
			b := bucket(t, s, "things", "model")
			for i := range 4 {
				if err := b.Put(keyOf(i), value(i)); err != nil {
					t.Fatal(err)
				}
			}
			files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.segment"))
			if err != nil || len(files) != 1 {
				t.Fatalf("segments: got %v, %v, want one", files, err)
			}
			if err := flip(files[0], c.at); err != nil {
				t.Fatal(err)
			}
			if d, err := DropDamaged(dir); err != nil || d.Busy != 1 || d.Files != 0 {
				t.Errorf("%s, while a process writes: got %+v, %v, want one busy file", c.name, d, err)
			}
			s.Close()
			reader := open(t, dir, 0)
			kept := bucket(t, reader, "things", "model")
			d, err := DropDamaged(dir)
			if err != nil || d.Busy != 0 || d.Files != 1 || d.Records != c.records ||
				d.Bytes != recordSize(100)*int64(4-c.records) {
				t.Errorf("%s: got %+v, %v, want one file, %d records left", c.name, d, err, c.records)
			}
			if v, err := Verify(dir); err != nil || len(v.Damaged) > 0 || v.Records != c.records || v.Lost != 0 {
				t.Errorf("%s, afterwards: got %+v, %v, want %d records and no damage", c.name, v, err, c.records)
			}
			if d, err := DropDamaged(dir); err != nil || *d != (Dropped{}) {
				t.Errorf("%s, again: got %+v, %v, want nothing to do", c.name, d, err)
			}
			if err := kept.refresh(); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				want := value(i)
				if c.records == 3 && i == 1 || c.records < 3 && i >= c.records {
					want = nil
				}
				if got := kept.Get(keyOf(i)); !bytes.Equal(got, want) {
					t.Errorf("%s: record %d has %d bytes, want %d", c.name, i, len(got), len(want))
				}
			}
			reader.Close()
		})
	}
}

// flip changes one byte of a file.
func flip(path string, at int64) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[at] ^= 1
	return os.WriteFile(path, raw, 0o666)
}
