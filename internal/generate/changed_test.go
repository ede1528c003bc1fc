package generate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/chat"
	"assay/checkpoints"
)

// TestUnopened: a graph that cannot be opened fails every request, so its error ends a run over many.
func TestUnopened(t *testing.T) {
	dir := filepath.Join("..", "..", "backbones", "tiny")
	m, err := Open(dir, onGPU(Options{DType: "bfloat16"})) // most of ONNX Runtime's CPU kernels have no bfloat16
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = m.Chat(t.Context(), question("hello"), chat.Options{MaxNewTokens: 2})
	if !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), "opening the generate graph of "+dir) {
		t.Errorf("got error %v, want one that ends a run and says what could not be opened", err)
	}
}

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
	if err := ask(); !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("weights changed: got error %v, want one that ends a run, with %q", err, path)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := ask(); !errors.Is(err, chat.ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("weights removed: got error %v, want one that ends a run, with %q", err, path)
	}
}
