package ort

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindLibrary(t *testing.T) {
	dir := t.TempDir()
	touch := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv(LibraryEnv, dir)
	if _, err := findLibrary(); err == nil || !strings.Contains(err.Error(), LibraryEnv+"="+dir) {
		t.Errorf("an empty folder: got error %v, want one with %q", err, LibraryEnv+"="+dir)
	}
	for _, name := range []string{"libonnxruntime.so.1.31.1", "libonnxruntime.so"} {
		want := touch(name)
		if got, err := findLibrary(); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	other := touch("mine.so")
	t.Setenv(LibraryEnv, other)
	if got, err := findLibrary(); err != nil || got != other {
		t.Errorf("got %s, %v, want %s", got, err, other)
	}
	t.Setenv(LibraryEnv, "")
	t.Chdir(dir)
	t.Setenv("LD_LIBRARY_PATH", "/nowhere")
	if path, err := findLibrary(); err == nil && strings.HasPrefix(path, dir) {
		t.Errorf("got %s of the working directory, want none from there", path)
	} else if err != nil && (!strings.Contains(err.Error(), "/nowhere, /usr/local/lib") ||
		!strings.Contains(err.Error(), "make setup")) {
		t.Errorf("got error %v, want one that says where it looked and what to do", err)
	}
}

func TestVersion(t *testing.T) {
	v, err := Version()
	if err != nil || !strings.HasPrefix(v, "1.") {
		t.Errorf("got version %q, %v, want 1.x", v, err)
	}
}
