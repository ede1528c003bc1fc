package encoders

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/heuristics"
	"assay/internal/atomicfile"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/onnx"
)

// fixtures is a folder of small encoders (tools/oracle/encoders.py).
var fixtures string

func TestMain(m *testing.M) { packed.Main(m, &fixtures, "testdata/encoders.zip") }

// expectation is testdata/expect.json: the embeddings of two pictures and three texts in transformers.
type expectation struct {
	Pictures []string
	Texts    []string
	Expect   map[string]struct{ Images, Texts [][]float32 }
}

func readExpectation(t *testing.T) (e expectation, pictures []*data.Picture) {
	t.Helper()
	e = oracle.Read[expectation](t, "testdata/expect.json")
	for _, name := range e.Pictures {
		p, err := data.Open(filepath.Join("../testdata/oracle/images", name), data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		pictures = append(pictures, p)
	}
	return e, pictures
}

// TestSpellings opens checkpoints in all published forms: half precision, shards, the module names of transformers 5
// and older ones, SwiGLU as one matrix and as two, registers, non-square pictures, and text_config_dict.
func TestSpellings(t *testing.T) {
	e, pictures := readExpectation(t)
	for name, want := range e.Expect {
		t.Run(name, func(t *testing.T) {
			m := open(t, filepath.Join(fixtures, name))
			got, err := m.Images(context.Background(), pictures)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				oracle.Close(t, e.Pictures[i], got[i], want.Images[i], 1e-5, 1e-6)
			}
			texts, err := m.Texts(context.Background(), e.Texts)
			if len(want.Texts) == 0 {
				if !errors.Is(err, ErrNoTexts) {
					t.Errorf("texts of an encoder of pictures: %v", err)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			for i := range texts {
				oracle.Close(t, e.Texts[i], texts[i], want.Texts[i], 1e-5, 1e-6)
			}
		})
	}
}

// TestExportedGraphs runs torch's own exports: CLIP's towers in one graph with normalised embeddings, and a DINOv2
// that takes one picture at a time and outputs all hidden states.
func TestExportedGraphs(t *testing.T) {
	e, pictures := readExpectation(t)
	ctx := context.Background()
	dino := open(t, filepath.Join(fixtures, "dino_giant/onnx/model.onnx"))
	got, err := dino.Images(ctx, pictures)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		oracle.Close(t, e.Pictures[i], got[i], e.Expect["dino_giant"].Images[i], 1e-5, 1e-6)
	}
	clip := open(t, filepath.Join(fixtures, "clip_half/both.onnx"))
	if got, err = clip.Images(ctx, pictures); err != nil {
		t.Fatal(err)
	}
	texts, err := clip.Texts(ctx, e.Texts)
	if err != nil {
		t.Fatal(err)
	}
	want := e.Expect["clip_half"]
	for i := range got {
		near(t, e.Pictures[i], heuristics.Cosine(got[i], want.Images[i]), 1)
	}
	for i := range texts {
		near(t, e.Texts[i], heuristics.Cosine(texts[i], want.Texts[i]), 1)
	}
}

// TestSplitGraphs runs the same export split in two, as in transformers.js: vision_model.onnx and text_model.onnx in
// a folder below the checkpoint's other files. text_model.onnx takes one text of 20 tokens at a time, so texts are
// padded and masked.
func TestSplitGraphs(t *testing.T) {
	e, pictures := readExpectation(t)
	dir := t.TempDir()
	for _, name := range []string{"config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"} {
		if err := atomicfile.Copy(filepath.Join(fixtures, "clip_half", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "onnx"), 0o777); err != nil {
		t.Fatal(err)
	}
	for file, output := range map[string]string{"vision_model.onnx": "image_embeds", "text_model.onnx": "text_embeds"} {
		g, err := onnx.Read(filepath.Join(fixtures, "clip_half/both.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = slices.DeleteFunc(g.Outputs, func(v onnx.ValueInfo) bool { return v.Name != output })
		onnx.Prune(g)
		g.Inputs = slices.DeleteFunc(
			g.Inputs,
			func(v onnx.ValueInfo) bool { return (v.Name == inPixels) != (output == "image_embeds") },
		)
		if output == "text_embeds" {
			for i := range g.Inputs {
				g.Inputs[i].Shape = onnx.Dims(1, 20)
			}
		}
		raw, err := g.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "onnx", file), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m := open(t, filepath.Join(dir, "onnx", "vision_model.onnx"))
	images, err := m.Images(context.Background(), pictures)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := m.Texts(context.Background(), e.Texts)
	if err != nil {
		t.Fatal(err)
	}
	want := e.Expect["clip_half"]
	for i := range images {
		near(t, e.Pictures[i], heuristics.Cosine(images[i], want.Images[i]), 1)
	}
	for i := range texts {
		near(t, e.Texts[i], heuristics.Cosine(texts[i], want.Texts[i]), 1)
	}
	if err := os.Remove(filepath.Join(dir, "onnx", "text_model.onnx")); err != nil {
		t.Fatal(err)
	}
	if alone := open(t, filepath.Join(dir, "onnx", "vision_model.onnx")); alone.HasTexts() ||
		alone.Fingerprint() == m.Fingerprint() {
		t.Error("without text_model.onnx the encoder still has texts, or is taken for the same")
	}
}

// TestOpenErrors: errors name the file and the remedy.
func TestOpenErrors(t *testing.T) {
	change := func(file, old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			raw, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(raw), old) {
				t.Fatalf("%s holds no %q (%v)", path, old, err)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), old, new)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(file string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name, from string
		change     func(t *testing.T, dir string)
		want       string
	}{
		{"architecture", "clip_half", change("config.json", `"model_type": "clip"`, `"model_type": "siglip"`),
			`model_type "siglip"`},
		{"crop", "clip_half", change("preprocessor_config.json", `"crop_size": 12`, `"crop_size": 16`),
			"crop_size does not match"},
		{"crop null", "clip_half", change("preprocessor_config.json", `"crop_size": 12`, `"crop_size": null`),
			"crop_size: null is not allowed"},
		{"size null", "clip_half", change("preprocessor_config.json", `"size": 12`, `"size": null`),
			"size: null is not allowed"},
		{"heads", "clip_half", change("config.json", `"num_attention_heads": 3`, `"num_attention_heads": 5`),
			"5 attention heads"},
		{"layers", "clip_half", change("config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 3`),
			"encoder.layers.2"},
		{"tokenizer", "clip_half", remove("tokenizer.json"), "save_pretrained"},
		{"weights", "clip_half", remove("model.safetensors"), "model.safetensors"},
		{"adapter", "clip_half", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte("{}"), 0o666); err != nil {
				t.Fatal(err)
			}
		}, "merge_and_unload"},
		{"no crop", "dino_giant", change("preprocessor_config.json", `"do_center_crop": true`, `"do_center_crop": false`),
			"do_center_crop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(fixtures, tt.from))); err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir)
			m, err := Open(dir, Options{})
			if err == nil {
				m.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error is %v, want the folder and %q", err, tt.want)
			}
		})
	}
	if _, err := Open("encoders.go", Options{}); err == nil || !strings.Contains(err.Error(), ".onnx") {
		t.Errorf("a file that is not a graph: %v", err)
	}
}

// TestEndToken: the end token in the configuration must be the one that the tokenizer writes.
func TestEndToken(t *testing.T) {
	first, legacy := endOfText(513), endOfText(2)
	for _, tt := range []struct {
		rule func([]int64) (int, error)
		ids  []int64
		at   int
	}{
		{first, []int64{512, 7, 513, 513}, 2},
		{legacy, []int64{512, 7, 513, 513}, 2},
		{legacy, []int64{512, 600, 513, 7}, 1},
	} {
		if at, err := tt.rule(tt.ids); err != nil || at != tt.at {
			t.Errorf("%v ends at %d, want %d (%v)", tt.ids, at, tt.at, err)
		}
	}
	if _, err := first([]int64{512, 7, 9}); err == nil || !strings.Contains(err.Error(), "eos_token_id") {
		t.Errorf("no end token: %v", err)
	}
}

// TestAloneOrTogether: a text has the same embedding alone and among longer ones, so that what is cached, or on another
// machine, changes no bit of a similarity.
func TestAloneOrTogether(t *testing.T) {
	m := open(t, "../backbones/tiny-clip")
	texts := []string{"a dog on a mat in the sun", "a circle and a square and a line", "make it red please now"}
	together, err := m.Texts(context.Background(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		alone, err := m.Texts(context.Background(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(alone[0], together[i]) {
			t.Errorf("%q: got %v with the others, want %v as alone", text, together[i], alone[0])
		}
	}
}
