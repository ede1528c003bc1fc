package fresh

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/model/backbone"
	"assay/model/text"
)

const oracle = "../../testdata/oracle/"

// references are the sizes of the backbones that transformers saved.
func references() map[string]Sizes {
	return map[string]Sizes{
		"llavanext": {
			Family:             LlavaNext,
			Hidden:             64,
			Layers:             3,
			Heads:              4,
			KVHeads:            2,
			Intermediate:       160,
			Context:            8192,
			RopeTheta:          500000,
			VisionHidden:       32,
			VisionLayers:       3,
			VisionHeads:        2,
			VisionIntermediate: 64,
			ImageSize:          56, Patch: 14, Grid: [][]int{{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}}, Vocab: 746,
		},
		"qwen2_5_vl": {
			Family:             Qwen25VL,
			Hidden:             64,
			Layers:             3,
			Heads:              4,
			KVHeads:            2,
			Intermediate:       144,
			Context:            4096,
			RopeTheta:          1e6,
			VisionHidden:       32,
			VisionLayers:       4,
			VisionHeads:        2,
			VisionIntermediate: 56,
			Patch:              14,
			Merge:              2,
			Window:             56,
			FullAttention:      []int{1, 3},
			MinPixels:          3136,
			MaxPixels:          12544,
			Vocab:              751,
		},
		"qwen2_vl": {
			Family:             Qwen2VL,
			Hidden:             64,
			Layers:             3,
			Heads:              4,
			KVHeads:            2,
			Intermediate:       128,
			Context:            4096,
			RopeTheta:          1e6,
			VisionHidden:       32,
			VisionLayers:       3,
			VisionHeads:        2,
			VisionIntermediate: 64,
			Patch:              14,
			Merge:              2,
			MinPixels:          3136,
			MaxPixels:          6272,
			Vocab:              751,
		},
		"qwen3_vl": {
			Family:             Qwen3VL,
			Hidden:             64,
			Layers:             4,
			Heads:              4,
			KVHeads:            2,
			HeadDim:            20,
			Intermediate:       136,
			Context:            4096,
			RopeTheta:          5e6,
			VisionHidden:       32,
			VisionLayers:       4,
			VisionHeads:        2,
			VisionIntermediate: 56,
			PositionSide:       5,
			Deepstack:          []int{0, 2},
			Patch:              16,
			Merge:              2,
			MinPixels:          4096,
			MaxPixels:          8192,
			Vocab:              763,
		},
	}
}

func create(t *testing.T, name string, seed uint64) (string, Summary) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "backbone")
	facts, err := Create(dir, references()[name], []string{"testdata/corpus.txt"}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return dir, facts
}

// eachFamily runs a test for every reference.
func eachFamily(t *testing.T, test func(t *testing.T, name string)) {
	for name := range references() {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

// The files, their keys and the names and shapes of the tensors are the same as transformers saves for these sizes.
func TestFilesAsTransformers(t *testing.T) {
	eachFamily(t, func(t *testing.T, name string) {
		dir, facts := create(t, name, 1)
		reference := filepath.Join(oracle, name, "backbone")
		if total := compareTensors(t, reference, dir, int64(facts.Rows)); total != facts.Parameters ||
			facts.TextParameters+facts.VisionParameters != total ||
			facts.Vocab > facts.Rows ||
			facts.Rows%64 != 0 {
			t.Errorf("%d parameters in the file, facts %+v", total, facts)
		}
		files, err := filepath.Glob(filepath.Join(reference, "*_config.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(files, filepath.Join(reference, "config.json")) {
			want, got := readObject(t, file), readObject(t, filepath.Join(dir, filepath.Base(file)))
			forget(want)
			forget(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", file, d)
			}
		}
		// Without its ids and merges, the rest of the tokenizer is how text is split.
		want := readObject(t, filepath.Join(reference, "tokenizer.json"))
		got := readObject(t, filepath.Join(dir, "tokenizer.json"))
		for _, o := range []map[string]any{want, got} {
			o["model"].(map[string]any)["vocab"], o["model"].(map[string]any)["merges"] = nil, nil
			for _, token := range o["added_tokens"].([]any) {
				token.(map[string]any)["id"] = nil
			}
			if post, ok := o["post_processor"].(map[string]any)["processors"]; ok {
				post.([]any)[1].(map[string]any)["special_tokens"] = nil
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("tokenizer.json (-want +got):\n%s", d)
		}
		entries, err := os.ReadDir(filepath.Dir(dir))
		if err != nil || len(entries) != 1 {
			t.Errorf("%v left next to the checkpoint (%v)", entries, err)
		}
	})
}

// compareTensors compares names, types and shapes, where the tables of got have rows rows, and counts the values.
func compareTensors(t *testing.T, reference, dir string, rows int64) (total int) {
	t.Helper()
	want, err := checkpoints.OpenWeights(reference)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got, err := checkpoints.OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if d := cmp.Diff(want.Names(), got.Names()); d != "" {
		t.Fatalf("tensors (-want +got):\n%s", d)
	}
	for _, name := range want.Names() {
		w, _ := want.Info(name)
		g, _ := got.Info(name)
		if strings.Contains(name, "embed_tokens") || strings.Contains(name, "lm_head") {
			w.Shape[0] = rows
		}
		if w.Type != g.Type || !slices.Equal(w.Shape, g.Shape) {
			t.Errorf("%s: %v %v, want %v %v", name, g.Type, g.Shape, w.Type, w.Shape)
		}
		n := 1
		for _, d := range g.Shape {
			n *= int(d)
		}
		total += n
	}
	return total
}

// forget removes what differs: ids and sizes of the vocabulary, transformers' version and defaults it spells out.
func forget(o map[string]any) {
	for key, value := range o {
		inner, ok := value.(map[string]any)
		switch {
		case ok:
			forget(inner)
		case strings.HasSuffix(key, "_token_id"),
			slices.Contains([]string{"image_token_index", "transformers_version", "vocab_size",
				"projection_dim", "output_attentions", "output_hidden_states", "max_window_layers", "processor_class",
				"model_max_length"}, key):
			delete(o, key)
		}
	}
}

// Prompts equal those of the reference's template, and pictures and texts survive the tokenizer.
func TestPrompts(t *testing.T) {
	eachFamily(t, func(t *testing.T, name string) {
		dir, facts := create(t, name, 1)
		p, err := text.Open(dir, "[SCORE]", int64(facts.Rows))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		b, err := backbone.OpenBackbone(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var cases []struct {
			Question, Prompt, Answer string
			Counts                   []int `json:"image_tokens"`
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(oracle, name), "cases.json")), &cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			prompt, err := p.Prompt(len(c.Counts), c.Question)
			if d := cmp.Diff(c.Prompt, prompt); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
			tokens, err := p.Encode(prompt, c.Answer, families[references()[name].Family].end, b.Placeholder(), c.Counts)
			if err != nil || tokens.IDs[tokens.ScoreIndex] != int64(facts.Rows) {
				t.Errorf("%v, %v", tokens, err)
			}
		}
	})
}

// The same arguments produce the same bytes; another seed produces other weights and the same tokenizer.
func TestSeeds(t *testing.T) {
	eachFamily(t, func(t *testing.T, name string) {
		a, _ := create(t, name, 5)
		b, _ := create(t, name, 5)
		c, _ := create(t, name, 6)
		entries, err := os.ReadDir(a)
		if err != nil || len(entries) < 7 {
			t.Fatalf("%d files, %v", len(entries), err)
		}
		for _, e := range entries {
			same := read(t, a, e.Name()) == read(t, b, e.Name())
			other := read(t, a, e.Name()) == read(t, c, e.Name())
			if !same || other != (e.Name() != "model.safetensors") {
				t.Errorf("%s: equal with the same seed %v, with another %v", e.Name(), same, other)
			}
		}
	})
}

// fresh returns the initial values of a model of these sizes.
func fresh(t *testing.T, s Sizes) map[string]*tensor.Dense {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backbone")
	if _, err := Create(dir, s, []string{"testdata/corpus.txt"}, 1); err != nil {
		t.Fatal(err)
	}
	tensors, _, err := checkpoints.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return tensors
}

// Standard deviations are as documented; a tensor does not depend on the number of other tensors.
func TestInit(t *testing.T) {
	for family, want := range map[string]map[string]float64{
		LlavaNext: {
			"language_model.model.embed_tokens.weight":              1,
			"language_model.model.layers.1.self_attn.q_proj.weight": 1 / math.Sqrt(192),
			"language_model.model.layers.3.mlp.down_proj.weight":    1 / math.Sqrt(512*8),
			"language_model.model.norm.weight":                      0,
			"language_model.lm_head.weight":                         0.1 / math.Sqrt(192),
			"vision_tower.embeddings.patch_embedding.weight":        1 / math.Sqrt(588),
			"vision_tower.encoder.layers.0.mlp.fc2.weight":          1 / math.Sqrt(512*8),
			"vision_tower.encoder.layers.0.mlp.fc2.bias":            0,
		},
		Qwen25VL: {
			"model.layers.0.self_attn.o_proj.weight": 1 / math.Sqrt(192*8),
			"model.layers.0.self_attn.q_proj.bias":   0,
			"visual.patch_embed.proj.weight":         1 / math.Sqrt(2*588),
			"visual.blocks.2.mlp.down_proj.weight":   1 / math.Sqrt(512*8),
			"visual.merger.mlp.0.weight":             1 / math.Sqrt(512),
			"visual.merger.ln_q.weight":              0,
		},
		Qwen2VL: {
			"visual.blocks.2.mlp.fc2.weight": 1 / math.Sqrt(512*8),
			"visual.blocks.2.norm1.bias":     0,
		},
		Qwen3VL: {
			"model.language_model.layers.0.self_attn.q_proj.weight":  1 / math.Sqrt(192),
			"model.language_model.layers.0.self_attn.q_norm.weight":  0,
			"model.visual.patch_embed.proj.weight":                   1 / math.Sqrt(2*768),
			"model.visual.deepstack_merger_list.1.norm.weight":       0,
			"model.visual.deepstack_merger_list.1.linear_fc2.weight": 1 / math.Sqrt(512),
			"model.language_model.layers.0.self_attn.o_proj.weight":  1 / math.Sqrt(192*8),
		},
	} {
		s, err := Defaults(family)
		if err != nil {
			t.Fatal(err)
		}
		tensors := fresh(t, s)
		for name, want := range want {
			// Truncated at three deviations, the distribution's own deviation is 0.9867.
			if got := deviation(tensors[name]); !(math.Abs(got-0.9867*want) <= 0.02*want) {
				t.Errorf("%s: deviation %v, want %v", name, got, want)
			}
		}
		s.Layers = 6
		for name, v := range fresh(t, s) {
			if strings.HasSuffix(name, "layers.2.mlp.up_proj.weight") && !slices.Equal(tensors[name].Float32s(), v.Float32s()) {
				t.Errorf("more layers changed %s", name)
			}
		}
	}
	table := positions(3, 8) // row 1 + 3 y + x: sin x, sin x/10, cos x, cos x/10, the same of y
	row := table[8*(1+3*2+1) : 8*(1+3*2+2)]
	for i, v := range []float64{
		math.Sin(1), math.Sin(0.1), math.Cos(1), math.Cos(0.1),
		math.Sin(2), math.Sin(0.2), math.Cos(2), math.Cos(0.2),
	} {
		if !(math.Abs(float64(row[i])-v) <= 1e-6) {
			t.Errorf("position (2, 1), column %d: %v, want %v", i, row[i], v)
		}
	}
}

func TestRefusals(t *testing.T) {
	bad, _ := Defaults(LlavaNext)
	bad.Heads, bad.KVHeads, bad.Patch, bad.Vocab, bad.Grid, bad.Merge = 5, 3, 13, 10, [][]int{{1, 2}, {0, 1}, {3}}, 2
	wrong, _ := Defaults(Qwen25VL)
	wrong.Window, wrong.FullAttention, wrong.MRopeSection = 100, []int{4}, []int{8, 8}
	wrong.MinPixels, wrong.VisionHeads, wrong.ImageSize = 1<<20, 3, 84
	for s, want := range map[*Sizes][]string{
		&bad:   {"hidden", "kv_heads", "image_size", "vocab", "entry 1", "entry 2", "merge: only qwen2_5_vl"},
		&wrong: {"window", "full_attention", "mrope_section", "min_pixels", "vision_hidden", "image_size: only llava_next"},
	} {
		err := s.Check()
		for _, want := range want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
		}
	}
	if _, err := Defaults("gemini"); err == nil || !strings.Contains(err.Error(), "llava_next, qwen2_5_vl") {
		t.Error(err)
	}
	sizes, _ := Defaults(LlavaNext)
	var zero Sizes
	if zero.Check() == nil {
		t.Error("zero sizes were accepted")
	}
	parent := t.TempDir()
	full := filepath.Join(parent, "full")
	latin := filepath.Join(parent, "latin.txt")
	for path, content := range map[string]string{filepath.Join(full, "x"): "x", latin: "caf\xe9"} {
		os.MkdirAll(filepath.Dir(path), 0o777)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir   string
		texts []string
		want  string
	}{
		{full, []string{"testdata/corpus.txt"}, "not empty"},
		{filepath.Join(parent, "new"), nil, "no text"},
		{filepath.Join(parent, "new"), []string{latin}, "not UTF-8"},
		{filepath.Join(parent, "new"), []string{"testdata/nothing.txt"}, "nothing.txt"},
		{filepath.Join(latin, "new"), []string{"testdata/corpus.txt"}, "latin.txt"},
	} {
		if _, err := Create(c.dir, sizes, c.texts, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

func deviation(d *tensor.Dense) float64 {
	var sum, squares float64
	values := d.Float32s()
	for _, v := range values {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(values))
	return math.Sqrt(max(0, squares/n-sum/n*sum/n))
}

func readObject(t *testing.T, path string) (o map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "", path)), &o); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
