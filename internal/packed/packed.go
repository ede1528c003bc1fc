// Package packed opens fixtures of tests that lie in zip files. Some suites have hundreds of files;
// tools/oracle/pack.py packs them.
package packed

import (
	"archive/zip"
	"io/fs"
	"os"
	"testing"
)

// Unpack copies the files of a zip into a temporary folder of the test, and gives the folder.
func Unpack(t testing.TB, archive string) string {
	t.Helper()
	r := open(t, archive)
	defer r.Close()
	dir := t.TempDir()
	if err := os.CopyFS(dir, r); err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	return dir
}

// File gives one file of a zip.
func File(t testing.TB, archive, name string) []byte {
	t.Helper()
	r := open(t, archive)
	defer r.Close()
	raw, err := fs.ReadFile(r, name)
	if err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	return raw
}

func open(t testing.TB, archive string) *zip.ReadCloser {
	t.Helper()
	r, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
