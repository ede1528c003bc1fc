package released_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
	_ "assay/model/families"
	"assay/released"
)

// suite is the fixtures of released judges in one fixture folder.
type suite struct {
	dir    string // released/
	folder string // its parent, with images and llavanext
}

// each runs f on every fixture folder; in the repository the judges are packed, without the weights under flat names.
func each(t *testing.T, f func(t *testing.T, s suite)) {
	oracle.Each(t, func(t *testing.T, folder string) {
		f(t, suite{oracle.Released(t, folder), folder})
	})
}

// picture reads a picture that a case names relative to its own folder.
func (s suite) picture(t *testing.T, path string) *data.Picture {
	t.Helper()
	if path == "" {
		return nil
	}
	p, err := data.Open(filepath.Join(s.folder, "images", filepath.Base(path)), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t *testing.T, kind string, o released.Options) *model.Scorer {
	t.Helper()
	o.Out = filepath.Join(t.TempDir(), "scorer")
	if _, err := released.Import(kind, o); err != nil {
		t.Fatal(err)
	}
	return openDir(t, o.Out, "")
}

func openDir(t *testing.T, dir, dimension string) *model.Scorer {
	t.Helper()
	s, err := model.OpenScorer(dir, model.Options{Dimension: dimension})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func prepare(t *testing.T, s *model.Scorer, p *edit.Edit) *batch.Sample {
	t.Helper()
	sample, err := s.Sample(p, model.Ask{Pixels: true})
	if err != nil {
		t.Fatal(err)
	}
	return sample
}

func judge(t *testing.T, s *model.Scorer, sample *batch.Sample) edit.Score {
	t.Helper()
	j, err := s.ScoreSamples(t.Context(), []*batch.Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	return j[0]
}

func gradient(t *testing.T, s *model.Scorer, e *edit.Edit) *edit.Gradient {
	t.Helper()
	all, err := s.Gradients(t.Context(), []*edit.Edit{e})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func readings(t *testing.T, s *model.Scorer, sample *batch.Sample) []model.Reading {
	t.Helper()
	r, err := s.Readings(t.Context(), sample)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near compares one number to 1e-4.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-4) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// floats compares with a tensor of the fixtures, if it is there.
func floats(t *testing.T, expect map[string]*tensor.Dense, name string, got []float32) {
	t.Helper()
	if expect[name] != nil {
		oracle.Close(t, name, got, oracle.Floats(t, expect, name), 1e-4, 1e-4)
	}
}

// pixels compares the pictures as the tower sees them, and the gradient of the score with respect to them.
func pixels(t *testing.T, s *model.Scorer, expect map[string]*tensor.Dense, name string, sample *batch.Sample) {
	t.Helper()
	if expect[name+".pixel_values"] != nil {
		var all []float32
		for _, p := range sample.Pictures {
			all = append(all, p.Pixels...)
		}
		want := unpadded(oracle.Floats(t, expect, name+".pixel_values"), sample.Pictures)
		if !slices.Equal(all, want) {
			oracle.Close(t, name+".pixel_values", all, want, 0, 1e-6)
		}
	}
	if expect[name+".dscore_dpixel_values"] == nil {
		return
	}
	score, g, err := s.PixelGradient(t.Context(), sample)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "score with its gradient", score, judge(t, s, sample).Score01)
	want := unpadded(oracle.Floats(t, expect, name+".dscore_dpixel_values"), sample.Pictures)
	oracle.Close(t, name+".dscore_dpixel_values", g.Data().([]float32), want, 0, 1e-4)
}

// unpadded leaves out the tiles of zeros by which transformers makes the pictures of a LLaVA-NeXT batch equally large.
func unpadded(all []float32, pictures []*backbone.Picture) (values []float32) {
	total := 0
	for _, p := range pictures {
		total += len(p.Pixels)
	}
	if total == len(all) {
		return all
	}
	for i, p := range pictures {
		values = append(values, all[i*len(all)/len(pictures):][:len(p.Pixels)]...)
	}
	return values
}

// editCase is a case of editreward.
type editCase struct {
	ID          int
	Source      string
	Edited      string
	Instruction string
	Config      string
	Pooling     string
	Score       float64
	Float32     float64 `json:"score_if_float32_rotary"`
	MRope       float64 `json:"score_if_mrope"`
	ImageTokens []int   `json:"image_tokens"`
	Fused       map[string][2]float64
	Passes      []struct {
		Name     string
		At       int `json:"reward_index"`
		Mu       float64
		LogSigma float64 `json:"log_sigma"`
		IDs      []int64 `json:"input_ids"`
	}
}

type editSuite struct {
	Cases  []editCase
	Rows   int `json:"embedding_rows"`
	Errors []struct{ Instruction, Why string }
}

func (c editCase) pair(t *testing.T, s suite) *edit.Edit {
	return edit.New(s.picture(t, c.Source), s.picture(t, c.Edited), c.Instruction)
}

func TestEditReward(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		expect := oracle.Tensors(t, filepath.Join(dir, "expect.safetensors"))
		flat := filepath.Join(dir, "weights_flat")
		if _, err := os.Stat(flat); err != nil {
			writeFlat(t, filepath.Join(dir, "weights", "model.safetensors"), flat)
		}
		whole := filepath.Join(dir, "weights")
		spellings := []string{whole, filepath.Join(whole, "model.safetensors"), flat}
		if testing.Short() {
			spellings = spellings[:1]
		}
		for _, weights := range spellings {
			scorers := map[string]*model.Scorer{}
			for _, c := range all.Cases {
				if scorers[c.Config] == nil {
					scorers[c.Config] = open(t, "editreward", released.Options{
						Base: filepath.Join(dir, "base"), Weights: weights, Config: filepath.Join(dir, c.Config),
						Prompts: filepath.Join(dir, "prompts"),
					})
				}
				scorer := scorers[c.Config]
				t.Run(fmt.Sprintf("%s/%d", filepath.Base(weights), c.ID), func(t *testing.T) {
					checkEdit(t, scorer, prepare(t, scorer, c.pair(t, s)), c, expect)
				})
			}
			for _, e := range all.Errors {
				scorer := scorers[all.Cases[0].Config]
				pair := all.Cases[0].pair(t, s)
				pair.Instruction = e.Instruction
				if _, err := scorer.Prepare(pair); err == nil || !strings.Contains(err.Error(), "<|Reward|>") {
					t.Errorf("%q: error %v, want one about the token: %s", e.Instruction, err, e.Why)
				}
			}
		}
	})
}

func checkEdit(t *testing.T, s *model.Scorer, sample *batch.Sample, c editCase, expect map[string]*tensor.Dense) {
	name := fmt.Sprintf("case%d", c.ID)
	for i, p := range sample.Pictures {
		if p.Tokens != c.ImageTokens[i] {
			t.Errorf("picture %d has %d tokens, want %d", i, p.Tokens, c.ImageTokens[i])
		}
	}
	rs := readings(t, s, sample)
	if len(rs) != len(c.Passes) {
		t.Fatalf("%d passes, want %d", len(rs), len(c.Passes))
	}
	for i, want := range c.Passes {
		r := rs[i]
		if !slices.Equal(r.IDs, want.IDs) || r.At != want.At || r.Pass != want.Name {
			t.Errorf("pass %s reads state %d of %v, want %s, %d of %v", r.Pass, r.At, r.IDs, want.Name, want.At, want.IDs)
		}
		z := r.Outputs[want.Name]
		near(t, "mu", float64(z[0]), want.Mu)
		near(t, "log sigma", float64(z[1]), want.LogSigma)
		floats(t, expect, name+"."+want.Name+".hidden", r.State)
		floats(t, expect, name+"."+want.Name+".output", z)
	}
	j := judge(t, s, sample)
	near(t, "score", j.Score01, c.Score)
	near(t, "log of sigma", math.Log(j.Sigma), c.Fused[c.Pooling][1])
	config := s.Config()
	if got := config.ScoreRange.Of(j.Score01); got != j.Score01 {
		t.Errorf("%g is reported as %g, though there is no range", j.Score01, got)
	}
	pixels(t, s, expect, name, sample)
}

// writeFlat writes weights as transformers up to 4.51 names them, in two files with an index.
func writeFlat(t *testing.T, from, to string) {
	t.Helper()
	f, err := checkpoints.OpenFile(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Mkdir(to, 0o777); err != nil {
		t.Fatal(err)
	}
	shards := [2][]checkpoints.TensorInfo{}
	names, where := map[string]string{}, []string{}
	for i, stored := range f.Names() {
		info, _ := f.Info(stored)
		info.Name = strings.Replace(stored, "model.language_model.", "model.", 1)
		if strings.HasPrefix(stored, "model.visual.") {
			info.Name = strings.TrimPrefix(stored, "model.")
		}
		names[info.Name] = stored
		shards[i%2] = append(shards[i%2], info)
		where = append(where, fmt.Sprintf("%q: %q", info.Name, shardName(i%2)))
	}
	for k, infos := range shards {
		w, err := checkpoints.NewWriter(filepath.Join(to, shardName(k)), infos, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			raw, err := f.Bytes(names[info.Name])
			if err == nil {
				err = w.Write(info.Name, raw)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	index := `{"weight_map": {` + strings.Join(where, ", ") + `}}`
	if err := os.WriteFile(filepath.Join(to, checkpoints.IndexFile), []byte(index), 0o666); err != nil {
		t.Fatal(err)
	}
}

func shardName(i int) string { return fmt.Sprintf("model-%05d-of-00002.safetensors", i+1) }
