// Package packed reads test fixtures from zip files. Some suites have hundreds of files; tools/oracle/pack.py packs
// them.
package packed

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"testing"
)

// Main is a package's TestMain: it unpacks a zip once for all tests, stores the folder's path in *dir, and removes
// the folder afterwards. Tests must not change it.
func Main(m *testing.M, dir *string, archive string) {
	os.Exit(run(m, dir, archive))
}

func run(m *testing.M, dir *string, archive string) int {
	var err error
	if *dir, err = os.MkdirTemp("", "packed"); err == nil {
		defer os.RemoveAll(*dir)
		err = unzip(archive, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Unpack extracts a zip to a temporary folder of the test, and returns the folder.
func Unpack(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unzip(archive, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func unzip(archive, dir string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.CopyFS(dir, r); err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	return nil
}

// File returns the content of one file of a zip.
func File(t testing.TB, archive, name string) []byte {
	t.Helper()
	r, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw, err := fs.ReadFile(r, name)
	if err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	return raw
}
