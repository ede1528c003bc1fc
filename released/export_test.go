package released_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/text"
	"assay/onnx"
	"assay/ort"
	"assay/released"
)

// export is an exported judge, run only by the description in graphs.json.
type export struct {
	dir      string
	judge    *model.ExportedJudge
	backbone *backbone.Backbone
	graphs   map[string]*ort.Session
	plain    bool // positions
}

func openExport(t *testing.T, s *model.Scorer) *export {
	t.Helper()
	e := &export{dir: filepath.Join(t.TempDir(), "export"), graphs: map[string]*ort.Session{}}
	if _, err := s.Export(e.dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(e.dir, "graphs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		Graphs []model.ExportedGraph
		Judge  struct {
			model.ExportedJudge
			ScoreRange []float64 `json:"score_range"`
		}
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		t.Fatal(err)
	}
	e.judge, e.plain = &x.Judge.ExportedJudge, x.Judge.Positions == "plain"
	for _, g := range x.Graphs {
		for _, p := range append(g.Inputs, g.Outputs...) {
			if p.About == "" {
				t.Errorf("%s: %s has no description", g.File, p.Name)
			}
		}
		m, err := onnx.Read(filepath.Join(e.dir, g.File))
		if err != nil {
			t.Fatal(err)
		}
		o, err := ort.Open(m, ort.Options{Folder: e.dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { o.Close() })
		e.graphs[strings.TrimSuffix(g.File, ".onnx")] = o
	}
	config := s.Config()
	if config.Weights != "" {
		e.backbone, err = backbone.OpenBackboneWith(config.Backbone, config.Weights)
	} else {
		e.backbone, err = backbone.OpenBackbone(config.Backbone)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.backbone.Close() })
	return e
}

func vector[T int64 | float32](v ...T) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v))
}

// run runs a graph over one sequence of tokens with pictures that start at the given positions; rows starting at
// first are read.
func (e *export) run(t *testing.T, graph string, ids []int64, pictures []*backbone.Picture, starts []int, first int,
	more map[string]*tensor.Dense,
) map[string]*tensor.Dense {
	t.Helper()
	feeds, err := e.backbone.Feeds(pictures, backbone.JoinPixels(pictures))
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(feeds, func(name string, _ *tensor.Dense) bool { // of fused operators
		return strings.HasSuffix(name, "_segments")
	})
	out, err := e.graphs["vision"].Run(t.Context(), feeds)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[int]bool{}
	for i, start := range starts {
		for k := range pictures[i].Tokens {
			shown[start+k] = true
		}
	}
	var text, order, selected []int64
	words, pictured := int64(0), int64(len(ids)-len(shown))
	for i, id := range ids {
		if shown[i] {
			order, pictured = append(order, pictured), pictured+1
			continue
		}
		text, order, words = append(text, id), append(order, words), words+1
	}
	for i := first; i < len(ids); i++ {
		selected = append(selected, int64(i))
	}
	axes := e.backbone.Positions(ids, pictures)
	count := max(len(axes), 1)
	if axes == nil || e.plain {
		axis := make([]int64, len(ids))
		for i := range axis {
			axis[i] = int64(i)
		}
		axes = slices.Repeat([][]int64{axis}, count)
	}
	n, k := int64(len(ids)), int64(len(selected))
	feeds = map[string]*tensor.Dense{
		"text_ids":          vector(text...),
		"order":             vector(order...),
		"image_features":    out["image_features"],
		"position_ids":      tensor.New(tensor.WithShape(count, len(ids)), tensor.WithBacking(slices.Concat(axes...))),
		"group_rows":        vector(n),
		"group_lengths":     vector(n),
		"select":            vector(selected...),
		"select_place":      vector(selected...),
		"group_select_rows": vector(k),
		"group_select_each": vector(k),
	}
	for name, v := range more {
		feeds[name] = v
	}
	if out, err = e.graphs[graph].Run(t.Context(), feeds); err != nil {
		t.Fatal(err)
	}
	return out
}

// state runs score.onnx and reads the state of the last token.
func (e *export) state(t *testing.T, ids []int64, sample *batch.Sample) map[string]*tensor.Dense {
	t.Helper()
	rows := map[string]*tensor.Dense{"score_rows": vector[int64](0)}
	return e.run(t, "score", ids, sample.Pictures, sample.Tokens.Pictures, len(ids)-1, rows)
}

// fuse runs fusion.onnx over the outputs of one edit's passes.
func (e *export) fuse(t *testing.T, outputs map[string][]float32) map[string]*tensor.Dense {
	t.Helper()
	feeds := map[string]*tensor.Dense{}
	for name, v := range outputs {
		feeds[name] = tensor.New(tensor.WithShape(1, len(v)), tensor.WithBacking(v))
	}
	out, err := e.graphs["fusion"].Run(t.Context(), feeds)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func number(out map[string]*tensor.Dense, name string) float64 {
	if out[name] == nil {
		return math.NaN()
	}
	return float64(out[name].Data().([]float32)[0])
}

// TestExportEditReward: two passes of score.onnx, combined by fusion.onnx, return the fixtures' numbers.
func TestExportEditReward(t *testing.T) {
	long.Test(t)
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		exports, scorers := map[string]*export{}, map[string]*model.Scorer{}
		for _, c := range all.Cases {
			if scorers[c.Config] == nil {
				scorers[c.Config] = open(t, "editreward", released.Options{
					Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"), Prompts: filepath.Join(dir, "prompts"),
					Config: filepath.Join(dir, c.Config),
				})
				exports[c.Config] = openExport(t, scorers[c.Config])
			}
			e, scorer := exports[c.Config], scorers[c.Config]
			sample := prepare(t, scorer, c.pair(t, s))
			outputs := map[string][]float32{}
			for i, r := range readings(t, scorer, sample) {
				want := c.Passes[i]
				if id := e.judge.Passes[i].TokenID; id == nil || *id != r.IDs[r.At] || e.judge.Passes[i].Name != want.Name {
					t.Fatalf("graphs.json has %+v for pass %s", e.judge.Passes[i], want.Name)
				}
				out := e.state(t, r.IDs[:r.At+1], sample)
				z := out["head."+want.Name].Data().([]float32)
				near(t, "mu", float64(z[0]), want.Mu)
				near(t, "log sigma", float64(z[1]), want.LogSigma)
				outputs["head."+want.Name] = z
			}
			out := e.fuse(t, outputs)
			near(t, "score", number(out, "score01"), c.Score)
			near(t, "log of sigma", math.Log(number(out, "sigma01")), c.Fused[c.Pooling][1])
		}
	})
}

// tokens returns the tokens of an exported pass for an instruction, made only from the export.
func (e *export) tokens(t *testing.T, pass model.ExportedPass, instruction string, counts []int) []int64 {
	t.Helper()
	p, err := text.Open(e.dir, pass.Token, int64(e.backbone.Decoder().Vocab), text.WithOwnToken())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	asked := strings.ReplaceAll(pass.Text, model.InstructionMark, instruction)
	got, err := p.EncodePrompt(asked, "", e.backbone.Placeholder(), counts)
	if err != nil {
		t.Fatal(err)
	}
	return got.IDs
}

// TestExportHPSv3: one pass is one graph.
func TestExportHPSv3(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		scorer, all := openHPS(t, s)
		e := openExport(t, scorer)
		if len(e.graphs) != 2 {
			t.Errorf("graphs %v, want vision and score", e.graphs)
		}
		for _, c := range all.Cases {
			sample := prepare(t, scorer, &edit.Edit{Output: s.picture(t, c.Picture), Instruction: c.Text})
			if got := e.tokens(t, e.judge.Passes[0], c.Text, c.Tokens); !slices.Equal(got, c.IDs) {
				t.Errorf("graphs.json has the tokens %v, want %v", got, c.IDs)
			}
			out := e.state(t, c.IDs[:c.At+1], sample)
			near(t, "score", number(out, "score01"), c.Score)
			near(t, "log of sigma", math.Log(number(out, "sigma01")), c.LogSigma)
		}
	})
}

// TestExportADIEE generates with score.onnx as graphs.json describes: the likeliest token each time.
func TestExportADIEE(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		for _, kind := range []string{"classifier", "regressor"} {
			dir := filepath.Join(s.dir, "adiee", kind)
			all := oracle.Read[adieeSuite](t, filepath.Join(dir, "cases.json"))
			o := released.Options{Weights: dir, PairSize: all.PairSize, Prompts: filepath.Join(t.TempDir(), "question.txt")}
			if err := os.WriteFile(o.Prompts, []byte(all.Questions[0]), 0o666); err != nil {
				t.Fatal(err)
			}
			free := open(t, "adiee", o)
			config, e := free.Config(), openExport(t, free)
			pass := e.judge.Passes[0]
			for _, c := range all.Cases {
				if c.Question != strings.ReplaceAll(all.Questions[0], "{instruction}", c.Instruction) {
					continue
				}
				sample := prepare(t, free, edit.New(s.picture(t, c.Source), s.picture(t, c.Edited), c.Instruction))
				var said []int64
				score, found := 0.0, false
				for len(said) < pass.Steps && (len(said) == 0 || !slices.Contains(pass.End, said[len(said)-1])) {
					out := e.state(t, slices.Concat(c.IDs, said), sample)
					id := out["said"].Data().([]int64)[0]
					if said = append(said, id); id == *pass.TokenID || !found {
						score, found = number(out, "score01"), found || id == *pass.TokenID
					}
				}
				if !slices.Equal(said, c.Said) {
					t.Errorf("%s says %v, want %v", kind, said, c.Said)
				}
				near(t, "score", config.ScoreRange.Of(score), c.Score)
			}
		}
	})
}

// TestExportChoices: choices of one token are one graph; joint ones have the likelihoods of their tokens.
func TestExportChoices(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "logits")
		for name, c := range oracle.Read[map[string]*choicesJudge](t, filepath.Join(dir, "judges.json")) {
			o := c.options(t, s, dir)
			scorer := open(t, "choices", o)
			e := openExport(t, scorer)
			o.Joint = true
			several := openExport(t, open(t, "choices", o))
			if name == "yes_no" { // one choice begins the other
				o.Choices, o.Values = []string{"it is", "it is so"}, []float64{0, 1}
				ended := openExport(t, open(t, "choices", o)).judge.Heads["question"].Choices
				if want := []string{"it is<|eot_id|>", "it is so<|eot_id|>"}; !slices.Equal(ended, want) {
					t.Errorf("exported choices: got %q, want %q", ended, want)
				}
			}
			for i, q := range c.Cases[:min(len(c.Cases), 2)] {
				pair := &edit.Edit{
					Sources: []edit.Picture{s.picture(t, q.Source)}, Output: s.picture(t, q.Edited),
					Instruction: q.Instruction, Requirement: q.Requirement,
				}
				sample := prepare(t, scorer, pair)
				near(t, name, number(e.state(t, sample.IDs, sample), "score01"), q.Score)
				var logs []float32
				for _, choice := range c.AnswerIDs {
					ids := slices.Concat(sample.IDs, []int64{choice}) // one token each, in these fixtures
					out := several.run(t, "joint", ids, sample.Pictures, sample.Tokens.Pictures, len(ids)-2,
						map[string]*tensor.Dense{"predict_rows": vector[int64](0), "target_ids": vector(choice)})
					logs = append(logs, float32(-number(out, "token_nll")))
				}
				got := number(several.fuse(t, map[string][]float32{"log_likelihoods.question": logs}), "score01")
				near(t, name+" by joint likelihoods", got, q.Score)
				if i == 0 && several.graphs["score"] != nil {
					t.Error("joint choices read no state")
				}
			}
		}
	})
}
