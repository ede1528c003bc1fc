package generate

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/chat"
	"assay/checkpoints"
)

// TestChangedWeights: a model whose weights changed while it was open stops answering and names the file.
func TestChangedWeights(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "backbones", "tiny"))); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ask := func() error {
		_, err := m.Chat(context.Background(), []chat.Message{{Role: "user", Content: []chat.Part{{Text: "hello"}}}},
			chat.Options{MaxNewTokens: 2})
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, checkpoints.SingleFile)
	now := time.Now().Add(time.Second)
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("weights changed: got error %v, want one with %q", err, path)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("weights removed: got error %v, want one with %q", err, path)
	}
}
