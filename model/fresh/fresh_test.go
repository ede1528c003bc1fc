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
	"assay/model/text"
)

const reference = "../../testdata/oracle/llavanext"

// referenceSizes are those of the backbone that transformers saved.
func referenceSizes() Sizes {
	return Sizes{
		Hidden: 64, Layers: 3, Heads: 4, KVHeads: 2, Intermediate: 160, Context: 8192, RopeTheta: 500000,
		VisionHidden: 32, VisionLayers: 3, VisionHeads: 2, VisionIntermediate: 64,
		ImageSize: 56, Patch: 14, Grid: [][]int{{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}}, Vocab: 746,
	}
}

func create(t *testing.T, seed uint64) (string, Facts) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "backbone")
	facts, err := Create(dir, referenceSizes(), []string{"testdata/corpus.txt"}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return dir, facts
}

// The files, the keys in them and the names and shapes of the tensors are those that transformers saves for these sizes.
func TestFilesAsTransformers(t *testing.T) {
	dir, facts := create(t, 1)
	want, err := checkpoints.OpenWeights(reference + "/backbone")
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
	total := 0
	for _, name := range want.Names() {
		w, _ := want.Info(name)
		g, _ := got.Info(name)
		if strings.Contains(name, "embed_tokens") || strings.Contains(name, "lm_head") {
			w.Shape[0] = int64(facts.Rows)
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
	if total != facts.Parameters || facts.Vocab > facts.Rows || facts.Rows%64 != 0 {
		t.Errorf("%d parameters in the file, facts %+v", total, facts)
	}
	for _, name := range []string{"config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json", "tokenizer_config.json"} {
		want, got := readObject(t, filepath.Join(reference, "backbone", name)), readObject(t, filepath.Join(dir, name))
		forget(want)
		forget(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v left beside the checkpoint (%v)", entries, err)
	}
}

// forget removes what differs: ids and sizes of the vocabulary, transformers' version and defaults it spells out.
func forget(o map[string]any) {
	for key, value := range o {
		inner, ok := value.(map[string]any)
		switch {
		case ok:
			forget(inner)
		case strings.HasSuffix(key, "_token_id"), slices.Contains([]string{"image_token_index", "transformers_version", "vocab_size",
			"projection_dim", "output_attentions", "output_hidden_states"}, key):
			delete(o, key)
		}
	}
}

// Prompts are those of the reference's template, and its pictures and texts survive the tokenizer.
func TestPrompts(t *testing.T) {
	dir, facts := create(t, 1)
	p, err := text.Open(dir, "[SCORE]", int64(facts.Rows))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var cases []struct {
		Question, Prompt, Answer string
		Counts                   []int `json:"image_tokens"`
	}
	data, err := os.ReadFile(reference + "/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		prompt, err := p.Prompt(len(c.Counts), c.Question)
		if d := cmp.Diff(c.Prompt, prompt); d != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
		tokens, err := p.Encode(prompt, c.Answer, endOfTurn, picture, c.Counts)
		if err != nil || tokens.IDs[tokens.ScoreIndex] != int64(facts.Rows) {
			t.Errorf("%v, %v", tokens, err)
		}
	}
}

// The same arguments give the same bytes, another seed other weights and the same tokenizer.
func TestSeeds(t *testing.T) {
	a, _ := create(t, 5)
	b, _ := create(t, 5)
	c, _ := create(t, 6)
	entries, err := os.ReadDir(a)
	if err != nil || len(entries) != 8 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		same := read(t, a, e.Name()) == read(t, b, e.Name())
		other := read(t, a, e.Name()) == read(t, c, e.Name())
		if !same || other != (e.Name() != "model.safetensors") {
			t.Errorf("%s: equal with the same seed %v, with another %v", e.Name(), same, other)
		}
	}
}

// Deviations are those promised; a tensor does not depend on how many others there are.
func TestInit(t *testing.T) {
	s := Defaults()
	tensors := s.Init(1024, 1)
	for name, want := range map[string]float64{
		"language_model.model.embed_tokens.weight":              1,
		"language_model.model.layers.1.self_attn.q_proj.weight": 1 / math.Sqrt(192),
		"language_model.model.layers.3.mlp.down_proj.weight":    1 / math.Sqrt(512*8),
		"language_model.model.norm.weight":                      0,
		"vision_tower.embeddings.patch_embedding.weight":        1 / math.Sqrt(588),
		"vision_tower.encoder.layers.0.mlp.fc2.weight":          1 / math.Sqrt(512*8),
		"vision_tower.encoder.layers.0.mlp.fc2.bias":            0,
	} {
		// Cut at three deviations, the distribution's own is 0.9867.
		if got := deviation(tensors[name]); math.Abs(got-0.9867*want) > 0.02*want {
			t.Errorf("%s: deviation %v, want %v", name, got, want)
		}
	}
	s.Layers = 6
	const name = "language_model.model.layers.2.mlp.up_proj.weight"
	if !slices.Equal(tensors[name].Float32s(), s.Init(1024, 1)[name].Float32s()) {
		t.Error("more layers changed the weights of others")
	}
	table := positions(3, 8) // row 1 + 3 y + x: sin x, sin x/10, cos x, cos x/10, the same of y
	row := table[8*(1+3*2+1) : 8*(1+3*2+2)]
	for i, v := range []float64{math.Sin(1), math.Sin(0.1), math.Cos(1), math.Cos(0.1), math.Sin(2), math.Sin(0.2), math.Cos(2), math.Cos(0.2)} {
		if math.Abs(float64(row[i])-v) > 1e-6 {
			t.Errorf("position (2, 1), column %d: %v, want %v", i, row[i], v)
		}
	}
}

func TestRefusals(t *testing.T) {
	bad := Defaults()
	bad.Heads, bad.KVHeads, bad.Patch, bad.Vocab, bad.Grid = 5, 3, 13, 10, [][]int{{1, 2}, {0, 1}, {3}}
	err := bad.Check()
	for _, want := range []string{"hidden", "kv_heads", "image_size", "vocab", "entry 1", "entry 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v should tell of %s", err, want)
		}
	}
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
		if _, err := Create(c.dir, Defaults(), c.texts, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v should tell of %q", err, c.want)
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
