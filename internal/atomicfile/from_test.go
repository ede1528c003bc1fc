package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFrom: the relative path leads from the folder to the file, whatever the working directory.
func TestFrom(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a", "a/b", "c"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("c/x.png", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{".", "a", "a/b", "c", dir, dir + "/a/b/"} {
		for _, path := range []string{"c/x.png", dir + "/c/x.png", "./a/../c/x.png"} {
			got, err := From(folder, path)
			if err != nil || filepath.IsAbs(got) || !Same(filepath.Join(folder, got), "c/x.png") {
				t.Errorf("%s from %s: got %q, %v, want a relative path to c/x.png", path, folder, got, err)
			}
		}
	}
}
