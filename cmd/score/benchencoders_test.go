package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/oracle"
)

// TestEncoderBaselines runs the CLIP and DINO baselines over AURORA-Bench's layout, with the oracle's pictures and
// captions: predictions must be ten times the similarities that transformers gives.
func TestEncoderBaselines(t *testing.T) {
	root := oracle.Folders(t)[0]
	type pair struct {
		ID            int     `json:"id"`
		Input         string  `json:"input"`
		Edited        string  `json:"edited"`
		CaptionBefore string  `json:"caption_before"`
		CaptionAfter  string  `json:"caption_after"`
		ClipD         float64 `json:"clip_d"`
	}
	pairs := oracle.Read[[]pair](t, filepath.Join(root, "clip", "pairs.json"))
	dir := t.TempDir()
	var ratings []map[string]any
	var captions strings.Builder
	for i, p := range pairs {
		ratings = append(
			ratings,
			map[string]any{"input": filepath.Base(p.Input), "gen": filepath.Base(p.Edited), "prompt": "edit it", "score": i % 3},
		)
		line, err := json.Marshal(
			map[string]string{"id": fmt.Sprint(i), "source_caption": p.CaptionBefore, "target_caption": p.CaptionAfter},
		)
		if err != nil {
			t.Fatal(err)
		}
		captions.Write(append(line, '\n'))
	}
	text, err := json.Marshal(ratings)
	if err != nil {
		t.Fatal(err)
	}
	data, caps := filepath.Join(dir, "human_ratings_updated_prompt.json"), filepath.Join(dir, "captions.jsonl")
	for path, text := range map[string]string{data: string(text), caps: captions.String()} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	clip, dino := filepath.Join(root, "clip", "model"), filepath.Join(root, "dinov2", "model")
	for _, name := range similarities {
		out := filepath.Join(dir, name)
		v := benchJSON(
			t,
			"aurora-point",
			"--data",
			data,
			"--images",
			filepath.Join(root, "images"),
			"--baseline",
			name,
			"--clip",
			clip,
			"--dino",
			dino,
			"--captions",
			caps,
			"--out",
			out,
		)
		if v["n"] != float64(len(pairs)) {
			t.Errorf("%s: n %v", name, v["n"])
		}
		if name != "clip_d" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(out, "predictions.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
			var got struct{ Score float64 }
			if err := json.Unmarshal([]byte(line), &got); err != nil || math.Abs(got.Score-10*pairs[i].ClipD) > 1e-4 {
				t.Errorf("pair %d: %s, want %g (%v)", i, line, 10*pairs[i].ClipD, err)
			}
		}
	}
	for args, want := range map[string]string{
		"--baseline clip_t":                           "needs --clip",
		"--baseline clip_d --clip " + clip:            "needs --captions",
		"--baseline dino_i --scorer x --dino " + dino: "--compare",
	} {
		code, stdout, stderr := bench(
			append(
				[]string{"aurora-point", "--data", data, "--images", filepath.Join(root, "images")},
				strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit code %d, want 2 and %q:\n%s%s", args, code, want, stdout, stderr)
		}
	}
}
