package score

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/store"
)

// TestCacheCommand lists, verifies and prunes a store with a record of each of two kinds.
func TestCacheCommand(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"embeddings-1", "states-1"} {
		b, err := s.Bucket(kind, "model")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Put(store.KeyOf("a"), []byte("value of "+kind)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cache := func(args ...string) (int, string) {
		code, stdout, stderr := run(t, append(append([]string{"cache"}, args...), "--folder", dir)...)
		return code, stdout + stderr
	}
	code, out := cache("list", "--json")
	var listed struct{ Kept []store.Contents }
	if err := json.Unmarshal([]byte(out),
		&listed); err != nil || code != exit.Done || len(listed.Kept) != 2 || listed.Kept[1].Kind != "states-1" ||
		listed.Kept[1].Records != 1 {
		t.Errorf("%d %s (%v)", code, out, err)
	}
	if code, out := cache("verify"); code != exit.Done || !strings.Contains(out, "2 intact records in 2 files") {
		t.Errorf("%d %s", code, out)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "states-1", "*", "*"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	raw, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-6] ^= 1
	if err := os.WriteFile(paths[0], raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, out := cache("verify"); code != exit.Failed || !strings.Contains(out, paths[0]) {
		t.Errorf("damaged: %d %s", code, out)
	}
	for _, wrong := range [][]string{{"prune"}, {"prune", "--older", "x"}, {"prune", "--most", "much"},
		{"prune", "--damaged", "--most", "0"}, {"list", "--folder", filepath.Join(dir, "none")}} {
		if code, stdout, stderr := run(t, append([]string{"cache"}, wrong...)...); code != exit.Wrong {
			t.Errorf("%q: %d %s", wrong, code, stdout+stderr)
		}
	}
	if code, out := cache("prune", "--older", "30d"); code != exit.Done || !strings.Contains(out, "0 files removed") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := cache("prune", "--kind", "states-1", "--most", "0"); code != exit.Done ||
		!strings.Contains(out, "1 files removed") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := cache("list"); code != exit.Done || !strings.Contains(out, "embeddings-1") ||
		strings.Contains(out, "states-1") {
		t.Errorf("%d %s", code, out)
	}
	paths, err = filepath.Glob(filepath.Join(dir, "embeddings-1", "*", "*"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	if raw, err = os.ReadFile(paths[0]); err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-6] ^= 1
	if err := os.WriteFile(paths[0], raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, out := cache("prune", "--damaged"); code != exit.Done ||
		!strings.Contains(out, "1 damaged files rewritten with their 0 intact") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := cache("verify"); code != exit.Done {
		t.Errorf("after prune --damaged: %d %s", code, out)
	}
}
