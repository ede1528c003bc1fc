package modeltest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/oracle"
	"assay/internal/testfile"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/text"
	"assay/onnx"
	"assay/ort"
)

// exported holds an export's two graphs, opened as a user would open them, and the scorer that was exported.
type exported struct {
	*model.Scorer
	dir           string
	backbone      *backbone.Backbone
	vision, score *ort.Session
}

func openExport(t *testing.T, dir string) *exported {
	t.Helper()
	e := &exported{Scorer: openScorer(t, dir), dir: filepath.Join(t.TempDir(), "export")}
	if _, err := e.Export(e.dir); err != nil {
		t.Fatal(err)
	}
	var err error
	if e.backbone, err = backbone.OpenBackbone(e.Config().Backbone); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.backbone.Close() })
	e.vision, e.score = session(t, e.dir, "vision.onnx"), session(t, e.dir, "score.onnx")
	return e
}

func session(t *testing.T, dir, name string) *ort.Session {
	t.Helper()
	m, err := onnx.Read(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ort.Open(m, ort.Options{Folder: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// export runs the exported graphs on inputs built here from the facts in graphs.json.
func (f Family) export(t *testing.T) {
	each(t, f, openExport, func(t *testing.T, r *reference, e *exported) {
		r.export(t, e)
		r.graphs(t, e)
		e.program(t)
	})
}

// processorKeys are the keys of "processor" in graphs.json, besides the keys of all families.
var processorKeys = map[string][]string{
	"llava_next": {"image_size", "image_grid_pinpoints"},
	"qwen2_vl":   {"merge_size", "temporal_patch_size", "min_pixels", "max_pixels"},
	"qwen2_5_vl": {"merge_size", "temporal_patch_size", "min_pixels", "max_pixels", "window_size"},
	"qwen3_vl":   {"merge_size", "temporal_patch_size", "min_pixels", "max_pixels", "num_position_embeddings"},
}

// graphs checks that the export's graphs.json has everything that a program needs besides the graphs.
func (r *reference) graphs(t *testing.T, e *exported) {
	var x struct {
		Processor map[string]any
		Judge     struct {
			model.ExportedJudge
			ScoreRange []float64 `json:"score_range"`
		}
	}
	testfile.ReadJSON(t, filepath.Join(e.dir, "graphs.json"), &x)
	keys := []string{"model_type", "image_token", "image_token_id", "position_axes", "max_position_embeddings",
		"image_mean", "image_std", "patch_size"}
	keys = slices.Sorted(slices.Values(append(keys, processorKeys[fmt.Sprint(x.Processor["model_type"])]...)))
	if got := slices.Sorted(maps.Keys(x.Processor)); !slices.Equal(got, keys) {
		t.Errorf("graphs.json: processor has %v, want %v", got, keys)
	}
	if got, want := x.Processor["image_token_id"], float64(e.backbone.Decoder().ImageToken); got != want {
		t.Errorf("graphs.json: image_token_id is %v, want %v", got, want)
	}

	pass := e.judged(t, &x.Judge.ExportedJudge, x.Judge.ScoreRange)
	p, err := text.Open(e.backbone.Dir, pass.Token, int64(e.backbone.Decoder().Vocab))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	asked := strings.ReplaceAll(pass.Text, model.InstructionMark, r.Instruction)
	tokens, err := p.Encode("", asked, "", fmt.Sprint(x.Processor["image_token"]), r.ImageTokens)
	if err != nil || !slices.Equal(tokens.IDs, r.InputIDs) || !pass.SpecialTokens {
		t.Errorf("graphs.json: %q becomes the tokens %v, %v, want %v", asked, tokens.IDs, err, r.InputIDs)
	}
}

// judged compares "judge" of graphs.json with scorer.yaml, and returns its pass.
func (e *exported) judged(t *testing.T, j *model.ExportedJudge, scoreRange []float64) model.ExportedPass {
	t.Helper()
	c := e.Config()
	if !j.AddsToken || j.Positions != "own" || j.Alpha != "white" || j.Fusion != "mean" || len(j.Passes) != 1 {
		t.Fatalf("graphs.json: judge is %+v, want one pass with an added token", *j)
	}
	if !slices.Equal(scoreRange, c.ScoreRange[:]) || !slices.Equal(j.PairSize, c.PairSize) ||
		!slices.Equal(j.Heads[""].Values, c.Heads[""].Values) || j.Heads[""].Outputs != c.Heads[""].Outputs {
		t.Errorf("graphs.json: judge is %+v, want as in scorer.yaml: %+v", *j, c)
	}
	want, got := c.Passes[0], j.Passes[0]
	if !slices.Equal(got.Pictures, want.Pictures) || got.Prompt != string(want.Prompt) ||
		got.Answer != string(want.Answer) || got.Token != want.Token || got.Position != want.Position {
		t.Errorf("graphs.json: the pass is %+v, want %+v", got, want)
	}
	return got
}

// program compares the export's run.py with the one in the sources.
func (e *exported) program(t *testing.T) {
	program, err := os.ReadFile(filepath.Join("..", model.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(filepath.Join(e.dir, model.RunFile)); err != nil || !bytes.Equal(written, program) {
		t.Errorf("run.py has %d bytes, %v, want the %d of model/run.py", len(written), err, len(program))
	}
}

// export runs the exported graphs of the case's scorer.
func (r *reference) export(t *testing.T, e *exported) {
	sample := r.sample(t, e)
	feeds, err := e.backbone.Feeds(sample.Pictures, backbone.JoinPixels(sample.Pictures))
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(feeds, func(name string, _ *tensor.Dense) bool { // inputs of fused operators
		return strings.HasSuffix(name, "_segments")
	})
	out, err := e.vision.Run(context.Background(), feeds)
	if err != nil {
		t.Fatal(err)
	}
	features := out["image_features"]
	oracle.Close(t, "image features", features.Data().([]float32), r.features(t), 0, 1e-4)

	feeds = sequence(e.backbone, sample)
	feeds["image_features"] = features
	if out, err = e.score.Run(context.Background(), feeds); err != nil {
		t.Fatal(err)
	}
	checkScore(t, e.Scorer, float64(out["score01"].Data().([]float32)[0]), r)
	oracle.Close(t, "hidden state", out["hidden_score"].Data().([]float32), r.floats(t, "hidden_score"), 0, 1e-4)
	if want := r.expect[r.name("head")]; want != nil {
		oracle.Close(t, "head", out["head"].Data().([]float32), want.Data().([]float32), 1e-6, 1e-4)
	}
	if got := out["score01"].Data().([]float32)[0]; !(math.Abs(float64(got-r.floats(t, "score01")[0])) <= 1e-5) {
		t.Errorf("score01 %g, want %g", got, r.floats(t, "score01")[0])
	}
}

// sequence returns the language inputs of one sample up to its score token.
func sequence(b *backbone.Backbone, s *batch.Sample) map[string]*tensor.Dense {
	length := s.ScoreIndex + 1
	placeholder := map[int]bool{}
	for i, first := range s.Tokens.Pictures {
		for k := range s.Pictures[i].Tokens {
			placeholder[first+k] = true
		}
	}
	var text, order, positions []int64
	for i, id := range s.IDs[:s.ScoreIndex] {
		if !placeholder[i] {
			text = append(text, id)
		}
	}
	words, pictured := int64(0), int64(len(text)+1)
	for i := range length {
		switch {
		case i == s.ScoreIndex:
			order = append(order, int64(len(text)))
		case placeholder[i]:
			order, pictured = append(order, pictured), pictured+1
		default:
			order, words = append(order, words), words+1
		}
	}
	axes := b.Positions(s.IDs, s.Pictures)
	if axes == nil {
		axes = [][]int64{nil}
		for i := range length {
			axes[0] = append(axes[0], int64(i))
		}
	}
	for _, a := range axes {
		positions = append(positions, a[:length]...)
	}
	ints := func(v ...int64) *tensor.Dense { return tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v)) }
	n := int64(length)
	return map[string]*tensor.Dense{
		"text_ids":          ints(text...),
		"order":             ints(order...),
		"position_ids":      tensor.New(tensor.WithShape(len(axes), length), tensor.WithBacking(positions)),
		"group_rows":        ints(n),
		"group_lengths":     ints(n),
		"score_rows":        ints(0),
		"select":            ints(n - 1),
		"select_place":      ints(n - 1),
		"group_select_rows": ints(1),
		"group_select_each": ints(1),
	}
}
