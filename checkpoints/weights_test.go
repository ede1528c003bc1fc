package checkpoints

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/internal/long"
)

// sharded writes a checkpoint with two shards and an index, and returns its directory.
func sharded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	shards := map[string]string{"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors"}
	for name, file := range shards {
		d := tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, float32(name[0])}))
		if err := WriteFile(filepath.Join(dir, file), map[string]*tensor.Dense{name: d}, nil); err != nil {
			t.Fatal(err)
		}
	}
	writeIndex(t, dir, shards)
	return dir
}

func writeIndex(t *testing.T, dir string, m map[string]string) {
	t.Helper()
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 16}, "weight_map": m})
	if err := os.WriteFile(filepath.Join(dir, IndexFile), text, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestShards(t *testing.T) {
	dir := sharded(t)
	w, err := OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if diff := cmp.Diff([]string{"x", "y"}, w.Names()); diff != "" {
		t.Error(diff)
	}
	d, err := w.Dense("y")
	if err != nil || cmp.Diff([]float32{1, 'y'}, d.Data()) != "" {
		t.Errorf("y: got %v, %v, want 1 and 'y'", d, err)
	}
	w.Alias("z", "y")
	w.Alias("nothing", "gone")
	info, ok := w.Info("z")
	if !ok || info.Name != "y" || !w.Has("z") || w.Has("nothing") || w.Has("other") {
		t.Errorf("Info by another name: got %v, %t, want y; z in the weights, the others not", info, ok)
	}
	ref, err := w.Tensor("z")
	if err != nil || ref.Name != "z" || ref.External.Location != "model-00002-of-00002.safetensors" {
		t.Fatalf("Tensor: got %+v, %v, want z in the second shard", ref, err)
	}
	if _, err := w.Bytes("nothing"); err == nil || !strings.Contains(err.Error(), `"nothing" (nor "gone")`) {
		t.Errorf("Bytes: got error %v, want one with %q", err, `"nothing" (nor "gone")`)
	}
}

// TestHubCache uses the layout of Hugging Face's cache: the snapshot consists of links to blobs.
func TestHubCache(t *testing.T) {
	root, source := t.TempDir(), sharded(t)
	snapshot := filepath.Join(root, "models--a--b", "snapshots", "0123")
	blobs := filepath.Join(root, "models--a--b", "blobs")
	for _, dir := range []string{snapshot, blobs} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for hash, name := range map[string]string{"aa": "model-00001-of-00002.safetensors",
		"bb": "model-00002-of-00002.safetensors", "cc": IndexFile} {
		if err := os.Rename(filepath.Join(source, name), filepath.Join(blobs, hash)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", "..", "blobs", hash), filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, spread := range []bool{false, true} {
		want := map[string]string{"x": "aa", "y": "bb"}
		wantFolder := blobs
		if spread { // one shard somewhere else
			other := filepath.Join(root, "other")
			if err := os.Rename(filepath.Join(blobs, "bb"), other); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(snapshot, "model-00002-of-00002.safetensors")
			os.Remove(link)
			if err := os.Symlink(other, link); err != nil {
				t.Fatal(err)
			}
			want, wantFolder = map[string]string{"x": "models--a--b/blobs/aa", "y": "other"}, root
		}
		w, err := OpenWeights(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if w.Folder() != wantFolder {
			t.Errorf("folder %s, want %s", w.Folder(), wantFolder)
		}
		for name, location := range want {
			ref, err := w.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(w.Folder(), ref.External.Location))
			if err != nil || ref.External.Location != location {
				t.Fatalf("%s: got %+v, %v, want location %s", name, ref.External, err, location)
			}
			mapped, _ := w.Bytes(name)
			if !bytes.Equal(mapped, data[ref.External.Offset:ref.External.Offset+ref.External.Length]) {
				t.Errorf("%s: got other bytes where the reference leads, want %d as they are mapped", name, len(mapped))
			}
		}
	}
}

func TestBrokenCheckpoints(t *testing.T) {
	long.Test(t)
	for name, c := range map[string]struct {
		breakIt func(dir string)
		want    string
	}{
		"no directory": {func(d string) { os.RemoveAll(d) }, "no such file"},
		"no index":     {func(d string) { os.Remove(filepath.Join(d, IndexFile)) }, "not a Hugging Face checkpoint"},
		"missing shard": {func(d string) { os.Remove(filepath.Join(d, "model-00001-of-00002.safetensors")) },
			"the shard model-00001-of-00002.safetensors of model.safetensors.index.json"},
		"missing tensor": {func(d string) { writeIndex(t, d, map[string]string{"q": "model-00001-of-00002.safetensors"}) },
			`"q" is listed`},
		"outside": {func(d string) { writeIndex(t, d, map[string]string{"q": "../model.safetensors"}) },
			"not a file name"},
		"empty index": {func(d string) { writeIndex(t, d, nil) }, "weight_map"},
		"truncated shard": {func(d string) { os.Truncate(filepath.Join(d, "model-00002-of-00002.safetensors"), 70) },
			"model-00002-of-00002"},
		"pickles": {func(d string) {
			os.Rename(filepath.Join(d, IndexFile), filepath.Join(d, "pytorch_model.bin"))
		}, "save_pretrained"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := sharded(t)
			c.breakIt(dir)
			if _, err := OpenWeights(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		})
	}
}
