package atomicfile

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
	if err := os.MkdirAll(dir, 0o777); err != nil { // an empty folder is replaced
		t.Fatal(err)
	}
	if err := WriteDir(dir, writeFiles("one")); err != nil {
		t.Fatal(err)
	}
	checkFiles(t, dir, "one")
	if err := WriteDir(dir, writeFiles("two")); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("WriteDir: got error %v, want one with %q", err, "exists already")
	}
	file := filepath.Join(root, "table.jsonl")
	if err := os.WriteFile(file, []byte("rows"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := WriteDir(file, writeFiles("two")); err == nil || !strings.Contains(err.Error(), "a file has that name") {
		t.Errorf("WriteDir over a file: got error %v, want one with %q", err, "a file has that name")
	}
	if got, err := os.ReadFile(file); string(got) != "rows" {
		t.Errorf("WriteDir over a file: got %q (%v), want the file as it was", got, err)
	}
	broken := errors.New("broken")
	err := ReplaceDir(dir, func(tmp string) error { return errors.Join(writeFiles("two")(tmp), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("WriteDir that fails: got error %v, want %v", err, broken)
	}
	checkFiles(t, dir, "one")
	if err := ReplaceDir(dir, writeFiles("two")); err != nil {
		t.Fatal(err)
	}
	checkFiles(t, dir, "two")
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"out"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestTwoWriters: if several processes create one folder, the first to finish succeeds and the others are refused.
// None removes the temporary folder of another.
func TestTwoWriters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	inside, done := make(chan bool), make(chan error)
	go func() {
		done <- WriteDir(dir, func(tmp string) error {
			inside <- true
			<-inside
			return writeFiles("one")(tmp)
		})
	}()
	<-inside // it has started
	if err := WriteDir(dir, writeFiles("two")); err != nil {
		t.Error(err)
	}
	inside <- true
	if err := <-done; err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("the second writer: got error %v, want one with %q", err, "exists already")
	}
	checkFiles(t, dir, "two")
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("folder: got %v, %v, want one entry", entries, err)
	}
}

// writeFiles fills a folder with two files that contain text, one of them in a subfolder.
func writeFiles(text string) func(dir string) error {
	return func(dir string) error {
		return errors.Join(
			os.Mkdir(filepath.Join(dir, "sub"), 0o777),
			os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o666),
			os.WriteFile(filepath.Join(dir, "sub", "b.txt"), []byte(text), 0o666),
		)
	}
}

func checkFiles(t *testing.T, dir, want string) {
	t.Helper()
	for _, name := range []string{"a.txt", "sub/b.txt"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Fatalf("%s holds %q, want %q (%v)", name, got, want, err)
		}
	}
}
