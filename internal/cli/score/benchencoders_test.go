package score

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
		if name == "clip_i" || name == "dino_i" {
			continue // AURORA-Bench has no target pictures
		}
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
			if err := json.Unmarshal([]byte(line), &got); err != nil || !(math.Abs(got.Score-10*pairs[i].ClipD) <= 1e-4) {
				t.Errorf("pair %d: %s, want %g (%v)", i, line, 10*pairs[i].ClipD, err)
			}
		}
	}
	equal := filepath.Join(dir, "equal.jsonl") // equal captions have no direction
	var same strings.Builder
	for i := range pairs {
		fmt.Fprintf(&same, `{"id": "%d", "source_caption": "a cat", "target_caption": "a cat"}`+"\n", i)
	}
	if err := os.WriteFile(equal, []byte(same.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--baseline clip_d --clip " + clip + " --captions " + equal: "clip_d needs two captions that differ: equal captions",
		"--baseline nosuch":                           "random, constant, clip_d, ",
		"--baseline clip_t":                           "needs --clip",
		"--baseline clip_d --clip " + clip:            "needs --captions",
		"--baseline dino_i --scorer x --dino " + dino: "--compare",
		"--baseline dino_i --dino " + dino:            "dino_i needs the target picture",
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

// ImagenHub's similarities are computed with the target pictures and their captions, without --captions, and equal
// transformers' values for the oracle's triplets. An unedited source as output scores 10 only under the name
// clip_i_source.
func TestImagenHubSimilarities(t *testing.T) {
	root := oracle.Folders(t)[0]
	type pair struct {
		ID            int     `json:"id"`
		Input         string  `json:"input"`
		Edited        string  `json:"edited"`
		GT            string  `json:"gt"`
		CaptionBefore string  `json:"caption_before"`
		CaptionAfter  string  `json:"caption_after"`
		ClipD         float64 `json:"clip_d"`
		ClipRaw       float64 `json:"clip_d_unnormalised"`
		ClipI         float64 `json:"clip_i"`
		DinoI         float64 `json:"dino_i"`
	}
	pairs := oracle.Read[[]pair](t, filepath.Join(root, "clip", "pairs.json"))
	dinos := oracle.Read[[]pair](t, filepath.Join(root, "dinov2", "pairs.json"))
	dir := t.TempDir()
	lookup := map[string]map[string]string{}
	rating := "uid\tEdited\tUnedited\n"
	copyTo := func(from, folder, id string) {
		raw, err := os.ReadFile(filepath.Join(root, "clip", from))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, folder), 0o777)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, folder, id), raw, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pairs {
		id := fmt.Sprintf("sample_%d.png", p.ID)
		lookup[id] = map[string]string{"instruction": "edit it", "source_global_caption": p.CaptionBefore,
			"target_global_caption": p.CaptionAfter}
		rating += fmt.Sprintf("%s\t[%v, 1]\t[0, 1]\n", id, 0.5*float64(p.ID%3))
		copyTo(p.Input, "input", id)
		copyTo(p.Edited, "Edited", id)
		copyTo(p.Input, "Unedited", id)
		copyTo(p.GT, "GroundTruth", id)
	}
	text, err := json.Marshal(lookup)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"dataset_lookup.json": string(text),
		"Text-Guided_IE_rater1.tsv": rating, "Text-Guided_IE_rater2.tsv": strings.ReplaceAll(rating, "[0, 1]", "[0.5, 1]")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	scores := func(name string) map[[2]string]float64 {
		out := filepath.Join(t.TempDir(), name)
		v := benchJSON(t, "imagenhub", "--ratings", dir, "--images", dir, "--baseline", name, "--out", out,
			"--resamples", "20", "--clip",
			filepath.Join(root, "clip", "model"), "--dino", filepath.Join(root, "dinov2", "model"))
		if numbers := v["numbers"].([]any); !strings.Contains(fmt.Sprint(numbers[0]), name+": cosine of edit") &&
			!strings.Contains(fmt.Sprint(numbers[0]), name+": cosine of change") {
			t.Errorf("the definition is not in the name: %v", numbers[0])
		}
		if by := fmt.Sprint(v["numbers"].([]any)[0].(map[string]any)["by"]); !strings.Contains(by, "fingerprint:"+name+" ") {
			t.Errorf("the number does not say what it is by: %s", by)
		}
		raw, err := os.ReadFile(filepath.Join(out, "predictions.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		got := map[[2]string]float64{}
		for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
			var p struct {
				ID, Model string
				Score     float64
			}
			if err := json.Unmarshal([]byte(line), &p); err != nil {
				t.Fatal(err)
			}
			got[[2]string{p.ID, p.Model}] = p.Score
		}
		return got
	}
	clipI, dinoI, source := scores("clip_i"), scores("dino_i"), scores("clip_i_source")
	clipD, raw := scores("clip_d"), scores("clip_d_raw")
	for i, p := range pairs {
		key := [2]string{fmt.Sprintf("sample_%d.png", p.ID), "Edited"}
		for what, d := range map[string]float64{"clip_i": clipI[key] - 10*p.ClipI, "dino_i": dinoI[key] - 10*dinos[i].DinoI,
			"clip_d": clipD[key] - 10*p.ClipD, "clip_d_raw": raw[key] - 10*p.ClipRaw} {
			if !(math.Abs(d) < 1e-4) {
				t.Errorf("%s of %v differs by %v from transformers'", what, key, d)
			}
		}
		unedited := [2]string{key[0], "Unedited"}
		if !(clipI[unedited] <= 9.9999) || !(dinoI[unedited] <= 9.9999) || !(math.Abs(source[unedited]-10) < 1e-5) {
			t.Errorf("%v: clip_i %v, dino_i %v, clip_i_source %v", unedited, clipI[unedited], dinoI[unedited], source[unedited])
		}
	}
}
