//go:build cloud

package store

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestDigestOfObjects: objects read in one piece and in blocks have the digests of their bytes.
func TestDigestOfObjects(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"empty": 0, "small": maxWhole, "large": maxWhole + 3<<20 + 1} {
		t.Run(name, func(t *testing.T) {
			raw := make([]byte, size)
			rand.NewChaCha8([32]byte{1}).Read(raw)
			if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := openFiles(t, t.TempDir()).Digest("file://" + filepath.Join(dir, name))
			if want := Key(sha256.Sum256(raw)); err != nil || got != want {
				t.Errorf("%s: %v (%v), want %v", name, got, err, want)
			}
		})
	}
}
