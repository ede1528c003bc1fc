package modeltest

import (
	"context"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/oracle"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/onnx"
	"assay/ort"
)

// exported is an export's two graphs, opened as anyone would, and the scorer they come from.
type exported struct {
	*model.Scorer
	backbone      *backbone.Backbone
	vision, score *ort.Session
}

func openExport(t *testing.T, dir string) *exported {
	t.Helper()
	e := &exported{Scorer: openScorer(t, dir)}
	to := filepath.Join(t.TempDir(), "export")
	if _, err := e.Export(to); err != nil {
		t.Fatal(err)
	}
	var err error
	if e.backbone, err = backbone.OpenBackbone(e.Config().Backbone); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.backbone.Close() })
	e.vision, e.score = session(t, to, "vision.onnx"), session(t, to, "score.onnx")
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

// export runs the exported graphs on inputs made here, after what graphs.json says of them.
func (f Family) export(t *testing.T) {
	each(t, f, openExport, func(t *testing.T, r *reference, e *exported) { r.export(t, e) })
}

// export runs the exported graphs of the case's scorer.
func (r *reference) export(t *testing.T, e *exported) {
	sample := r.sample(t, e)
	feeds, err := e.backbone.Feeds(sample.Pictures)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(feeds, func(name string, _ *tensor.Dense) bool { // of fused operators
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
	if got := out["score01"].Data().([]float32)[0]; math.Abs(float64(got-r.floats(t, "score01")[0])) > 1e-5 {
		t.Errorf("score01 %g, want %g", got, r.floats(t, "score01")[0])
	}
}

// sequence writes the language inputs of one sample up to its score token.
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
