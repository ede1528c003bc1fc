package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/cli"
	"assay/internal/oracle"
)

// TestSimilaritiesShards: what shards in any order and --merge write is what one run writes, byte for byte.
func TestSimilaritiesShards(t *testing.T) {
	folder := oracle.Folders(t)[0]
	in, _ := edits(t, folder, `{"source": "nowhere.png", "edit": "nowhere.png", "target": "nowhere.png", "source_caption": "a", "target_caption": "b"}`)
	dir := t.TempDir()
	measure := func(cache, name string, more ...string) []byte {
		t.Helper()
		out := filepath.Join(dir, name)
		code, text := run(t.Context(), folder, filepath.Join(dir, cache), in, out, more...)
		if len(more) > 0 && more[0] == "--shard" && code == cli.Done {
			return nil
		}
		if code != cli.Failed { // a row cannot be read
			t.Fatalf("%v: exit code %d: %s", more, code, text)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	want := measure("one", "whole.jsonl")
	for _, shard := range []string{"3/3", "2/3", "1/3"} {
		measure("two", "parts.jsonl", "--shard", shard)
	}
	if got := measure("two", "parts.jsonl", "--merge"); !bytes.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
