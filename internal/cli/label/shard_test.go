package label

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/oracle"
)

// TestSimilaritiesShards: shards in any order and --merge write the same as one run. Captions that are encoded
// together are padded together, so numbers of CLIP's texts are equal only up to rounding.
func TestSimilaritiesShards(t *testing.T) {
	folder := oracle.Folders(t)[0]
	in, _ := edits(t, folder, `{"source": "nowhere.png", "edit": "nowhere.png", "target": "nowhere.png"}`)
	dir := t.TempDir()
	measure := func(cache, name string, more ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		code, text := run(t.Context(), folder, filepath.Join(dir, cache), in, out, more...)
		want := exit.Failed // the last row cannot be read
		if len(more) > 1 && more[1] != "3/3" {
			want = exit.Done
		}
		if code != want {
			t.Fatalf("%v: exit code %d: %s", more, code, text)
		}
		return out
	}
	want := records(t, measure("one", "whole.jsonl"))
	for _, shard := range []string{"3/3", "2/3", "1/3"} {
		measure("two", "parts.jsonl", "--shard", shard)
	}
	missing := filepath.Join(filepath.Dir(in), "nowhere.png")
	if err := os.WriteFile(missing, []byte("a picture by now"), 0o666); err != nil {
		t.Fatal(err)
	}
	code, text := run(t.Context(), folder, filepath.Join(dir, "two"), in, filepath.Join(dir, "parts.jsonl"), "--merge")
	if code != exit.Failed || !strings.Contains(text, "has changed since its shard was done") {
		t.Errorf("a picture that came later: exit code %d: %s", code, text)
	}
	if err := os.Remove(missing); err != nil {
		t.Fatal(err)
	}
	got := records(t, measure("two", "parts.jsonl", "--merge"))
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		for _, name := range []string{"id", "kept", "clip_i", "dino_i", "clip_d", "clip_t", "profile", "error"} {
			a, _ := want[i].Get(name)
			b, _ := got[i].Get(name)
			if name == "clip_d" || name == "clip_t" {
				x, errX := data.Number(a)
				y, errY := data.Number(b)
				if errX != nil || errY != nil || (x == nil) != (y == nil) || x != nil && !(math.Abs(*x-*y) <= 1e-6) {
					t.Errorf("row %d: %s is %v, want %v", i, name, b, a)
				}
			} else if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("row %d: %s is %v, want %v", i, name, b, a)
			}
		}
	}
}
