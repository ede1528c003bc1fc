package fuzzing

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
)

// Damage changes one byte at n positions of the files, one at a time, and calls check after each change. check
// reports whether the damage was noticed, and must return an error if it did harm unnoticed. The files are restored.
func Damage(t *testing.T, n int, paths []string, check func() (noticed bool, err error)) {
	t.Helper()
	const seed = 17
	rng := rand.New(rand.NewPCG(seed, 1))
	whole := map[string][]byte{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil || len(raw) == 0 {
			t.Fatalf("%s: nothing to damage: %v", path, err)
		}
		whole[path] = raw
	}
	noticed := 0
	for i := range n {
		path := paths[i%len(paths)]
		raw := bytes.Clone(whole[path])
		at, to := rng.IntN(len(raw)), byte(1+rng.IntN(255))
		raw[at] ^= to
		if err := overwrite(path, raw); err != nil {
			t.Fatal(err)
		}
		seen, err := check()
		if err != nil {
			t.Errorf("byte %d of %s, %#02x instead of %#02x: %v", at, path, raw[at], raw[at]^to, err)
		}
		if seen {
			noticed++
		}
		if err := overwrite(path, whole[path]); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d damaged bytes were noticed, the others changed nothing", noticed, n)
}

// overwrite is os.WriteFile for an existing file. It does not truncate the file first: file systems flush a truncated
// file to disk on close, which takes milliseconds.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Truncate(int64(len(data))), f.Close())
}
