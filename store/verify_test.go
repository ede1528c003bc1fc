package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVerifyHeads: a damaged head is counted, a record that a crash cut off is not.
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
			t.Fatal(files, err)
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
	}
}
