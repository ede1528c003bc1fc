package checkpoints

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/testfile"

	"github.com/google/go-cmp/cmp"
)

func TestCopyCompanions(t *testing.T) {
	root := t.TempDir()
	from, to := filepath.Join(root, "snapshot"), filepath.Join(root, "to")
	for _, name := range []string{"config.json", "tokenizer.model", "LICENSE", "vocab.txt",
		"additional_chat_templates/tools.jinja",
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
	if err := errors.Join(
		os.Rename(filepath.Join(from, "config.json"), blob),
		os.Symlink("../blob", filepath.Join(from, "config.json")),
		os.Mkdir(to, 0o777),
		CopyCompanions(from, to),
	); err != nil {
		t.Fatal(err)
	}
	want := []string{"LICENSE", "additional_chat_templates", "config.json", "tokenizer.model", "vocab.txt"}
	if diff := cmp.Diff(want, testfile.Names(t, to)); diff != "" {
		t.Error(diff)
	}
	if st, err := os.Lstat(filepath.Join(to, "config.json")); err != nil || !st.Mode().IsRegular() {
		t.Errorf("config.json: got %v, %v, want a regular file in place of the link", st, err)
	}
	if got, err := os.ReadFile(
		filepath.Join(to, "additional_chat_templates", "tools.jinja"),
	); string(
		got,
	) != "additional_chat_templates/tools.jinja" {
		t.Errorf("tools.jinja: got %q, %v, want what was there", got, err)
	}
}
