package fuzzing

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
)

// Damage changes one byte at n places of files, one place at a time. Then it calls check, which says what of the damage
// was noticed: it must return an error if something is wrong and nothing noticed it. The files are restored.
func Damage(t *testing.T, n int, paths []string, check func() (noticed bool, err error)) {
	t.Helper()
	const seed = 17
	rng := rand.New(rand.NewPCG(seed, 1))
	whole := map[string][]byte{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil || len(raw) == 0 {
			t.Fatalf("%s has nothing to damage: %v", path, err)
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
	t.Logf("%d of %d damaged bytes were noticed, the others change nothing", noticed, n)
}

// overwrite is os.WriteFile for a file that exists. It does not empty the file first: file systems write one that was
// emptied to the disk as it is closed, which takes milliseconds.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Truncate(int64(len(data))), f.Close())
}
