package label

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/labeling"
	"assay/internal/oracle"
)

// TestChangedEncoder: a job whose encoder's weights were changed in place, with the old modification times, is
// measured again; a job with the same encoder is not.
func TestChangedEncoder(t *testing.T) {
	folder := oracle.Folders(t)[0]
	dir := t.TempDir()
	clip := filepath.Join(dir, "clip")
	if err := os.CopyFS(clip, os.DirFS(filepath.Join(folder, "clip", "model"))); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "label.yaml")
	text := fmt.Sprintf(`
out: out
sources:
  - layout: table
    path: %s/clip/pairs.json
    columns: {source: input, edit: edited, target: gt, instruction: caption_after,
      source_caption: caption_before, target_caption: caption_after}
    editor: magicbrush
encoders: {given: replace, clip: clip, dino: %s/dinov2/model, device: cpu, threads: 1}
`, folder, folder)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func() (sum float64, part os.FileInfo) {
		t.Helper()
		if code, stdout, stderr := label(t, "--config", config); code != exit.Done {
			t.Fatalf("exit code %d: %s %s", code, stdout, stderr)
		}
		table, err := data.OpenTable(filepath.Join(dir, "out", labeling.TableFile))
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		for row, err := range table.All() {
			if err != nil {
				t.Fatal(err)
			}
			if row.ClipI != nil {
				sum += *row.ClipI
			}
		}
		parts, err := filepath.Glob(filepath.Join(dir, "out", "parts", "*.jsonl"))
		if err != nil || len(parts) != 1 {
			t.Fatal(parts, err)
		}
		if part, err = os.Stat(parts[0]); err != nil {
			t.Fatal(err)
		}
		return sum, part
	}
	first, part := run()
	if again, same := run(); again != first || !os.SameFile(part, same) {
		t.Error("what has not changed was measured again")
	}
	path := filepath.Join(clip, "model.safetensors")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(raw) - 4096; i < len(raw); i++ {
		raw[i] ^= raw[i] & 0x01 // changes every number a little
	}
	for i := len(raw) - 4096 + 3; i < len(raw); i += 16 {
		raw[i] ^= 0x80 // signs
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if after, other := run(); after == first || os.SameFile(part, other) {
		t.Errorf("after another encoder the similarities add up to %v as before", after)
	}
}
