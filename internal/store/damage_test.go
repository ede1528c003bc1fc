package store

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"assay/internal/fuzzing"
)

// TestDamageAnywhere: a record with a damaged byte is absent, and never another value.
func TestDamageAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	b := bucket(t, s, "things", "model")
	const records = 40
	for i := range records {
		if err := b.Put(keyOf(i), valueOf(i, 200)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	fuzzing.Damage(t, 1000, files, func() (noticed bool, err error) {
		s := open(t, dir, 0)
		defer s.Close()
		b := bucket(t, s, "things", "model")
		for i := range records {
			got := b.Get(keyOf(i))
			if got == nil {
				noticed = true
			} else if !bytes.Equal(got, valueOf(i, 200)) {
				return false, fmt.Errorf("record %d has another value", i)
			}
		}
		return noticed, nil
	})
}
