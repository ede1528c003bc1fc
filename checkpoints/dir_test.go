package checkpoints

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteDir(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a[b]", "out")
	if err := os.MkdirAll(filepath.Join(root, "a[b]", ".out.KILLED7890.tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil { // an empty folder is no obstacle
		t.Fatal(err)
	}
	if err := WriteDir(dir, writeState(1, 4)); err != nil {
		t.Fatal(err)
	}
	checkState(t, dir, 1, 4)
	if err := WriteDir(dir, writeState(2, 4)); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Error(err)
	}
	broken := errors.New("broken")
	err := ReplaceDir(dir, func(tmp string) error { return errors.Join(writeState(2, 4)(tmp), broken) })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	checkState(t, dir, 1, 4)
	if err := ReplaceDir(dir, writeState(2, 4)); err != nil {
		t.Fatal(err)
	}
	checkState(t, dir, 2, 4)
	if diff := cmp.Diff([]string{"out"}, list(t, filepath.Dir(dir))); diff != "" {
		t.Error(diff)
	}
}
