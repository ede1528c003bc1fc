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

func TestCopyCompanions(t *testing.T) {
	root := t.TempDir()
	from, to := filepath.Join(root, "snapshot"), filepath.Join(root, "to")
	for _, name := range []string{"config.json", "tokenizer.model", "LICENSE", "vocab.txt", "additional_chat_templates/tools.jinja",
		"model.safetensors", IndexFile, "adapter_config.json", "pytorch_model.bin", "original/params.json"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	blob := filepath.Join(root, "blob")
	if err := errors.Join(os.Rename(filepath.Join(from, "config.json"), blob), os.Symlink("../blob", filepath.Join(from, "config.json")),
		os.Mkdir(to, 0o777), CopyCompanions(from, to)); err != nil {
		t.Fatal(err)
	}
	want := []string{"LICENSE", "additional_chat_templates", "config.json", "tokenizer.model", "vocab.txt"}
	if diff := cmp.Diff(want, list(t, to)); diff != "" {
		t.Error(diff)
	}
	if st, err := os.Lstat(filepath.Join(to, "config.json")); err != nil || !st.Mode().IsRegular() {
		t.Error("a link was copied as a link", err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "additional_chat_templates", "tools.jinja")); string(got) != "additional_chat_templates/tools.jinja" {
		t.Error(err)
	}
}
