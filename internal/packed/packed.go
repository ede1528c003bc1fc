// Package packed opens fixtures of tests that lie in zip files. Some suites have hundreds of files;
// tools/oracle/pack.py packs them.
package packed

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"testing"
)

// Main is a package's TestMain: it unpacks a zip once for all tests, puts the folder's name into *dir, and removes it
// afterwards. Tests leave the folder as it is.
func Main(m *testing.M, dir *string, archive string) {
	os.Exit(run(m, dir, archive))
}

func run(m *testing.M, dir *string, archive string) int {
	r, err := zip.OpenReader(archive)
	if err == nil {
		defer r.Close()
		*dir, err = os.MkdirTemp("", "packed")
	}
	if err == nil {
		defer os.RemoveAll(*dir)
		err = os.CopyFS(*dir, r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", archive, err)
		return 1
	}
	return m.Run()
}

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
