package model_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/lora"
	"assay/model"
)

// memberConfigs are scorers that members of an ensemble can be of.
func memberConfigs() map[string]*model.ScorerConfig {
	one := &model.OnePassConfig{Format: 1, Backbone: "../backbones/tiny", Question: "Done? [INSTRUCTION]",
		Answer: "It is [SCORE].", ScoreRange: edit.Range{0, 10},
		Head: model.HeadConfig{Hidden: []int{8}, Kind: "classification", Values: []float64{0, 0.5, 1}}}
	several := &model.ScorerConfig{Format: 2, Backbone: "../backbones/tiny",
		Passes: []model.PassConfig{
			{Name: "both", Pictures: []string{"source", "edit"}, Prompt: "Done? [INSTRUCTION]", Position: "last",
				Heads: []string{"a", "mood"}},
			{Name: "edit", Pictures: []string{"edit"}, Prompt: "Is it good?", Position: "last", Heads: []string{"b"}},
		},
		Heads: map[string]model.DimensionConfig{
			"a": {Outputs: model.OutputMuSigma}, "b": {Outputs: model.OutputValue, Hidden: []int{4}},
			"mood": {Outputs: model.OutputClasses, Names: []string{"calm", "awe", "fear"}},
		},
		Score: &model.FusionConfig{Fusion: "product", Of: []string{"a", "b"}}}
	return map[string]*model.ScorerConfig{"format 1": one.Scorer(), "format 2": several}
}

// member creates a scorer directory with an adapter that changes scores.
func member(t *testing.T, c *model.ScorerConfig, l *lora.Config, seed uint64) string {
	t.Helper()
	own := *c
	p, err := model.NewScorerState(&own, l, seed)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range p.Adapter.Targets {
		b := p.Adapter.Tensors[lora.NameB(target.Module)].Float32s()
		for i := range b {
			b[i] = float32(math.Sin(float64(i)*0.7+float64(seed))) / 10
		}
	}
	if token := p.Tensors["score_token.embedding"]; token != nil {
		token.Float32s()[0] += float32(seed)
	}
	dir := t.TempDir()
	if err := p.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openOn(t *testing.T, dir string) *model.Scorer {
	t.Helper()
	s, err := model.OpenScorer(dir, model.Options{Device: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// someEdits are two edits of one source, and one of another, of different sizes.
func someEdits() (out []*edit.Edit) {
	for i, n := range []int{0, 0, 1} {
		source, output := data.NewPicture(56, 56+28*n), data.NewPicture(56, 56)
		for k := range source.Pix {
			source.Pix[k] = byte(k*7 + n)
		}
		for k := range output.Pix {
			output.Pix[k] = byte(k * k / (11 + i))
		}
		out = append(out, edit.New(source, output, fmt.Sprint("blur it ", i)))
	}
	return out
}

// TestEnsemble: an ensemble reports the mean and the spread of its members, whatever they are; and its gradient is the
// mean of their gradients. The members have adapters of different ranks, scales and layers.
func TestEnsemble(t *testing.T) {
	ctx := context.Background()
	adapters := []*lora.Config{
		lora.NewConfig(4, 8, lora.Names{List: []string{"q_proj", "v_proj"}}),
		lora.NewConfig(2, 3, lora.Names{List: []string{"q_proj", "k_proj", "o_proj"}}),
		lora.NewConfig(8, 8, lora.Names{List: []string{"v_proj", "o_proj"}}),
	}
	for name, c := range memberConfigs() {
		t.Run(name, func(t *testing.T) {
			var dirs []string
			var scores [][]edit.Score
			var gradients [][]*edit.Gradient
			edits := someEdits()
			for i, l := range adapters {
				dir := member(t, c, l, uint64(i+1))
				s := openOn(t, dir)
				dirs = append(dirs, dir)
				one, failed, err := edit.ScoreAll(ctx, s, edits...)
				if err != nil || failed != nil && failed[0] != nil {
					t.Fatal(err, failed)
				}
				g, err := s.Gradients(ctx, edits)
				if err != nil {
					t.Fatal(err)
				}
				scores, gradients = append(scores, one), append(gradients, g)
			}
			out := filepath.Join(t.TempDir(), "ensemble")
			if err := model.WriteEnsemble(dirs, "", out); err != nil {
				t.Fatal(err)
			}
			s := openOn(t, out)
			got, _, err := edit.ScoreAll(ctx, s, edits...)
			if err != nil {
				t.Fatal(err)
			}
			g, err := s.Gradients(ctx, edits)
			if err != nil {
				t.Fatal(err)
			}
			for i := range edits {
				var all []edit.Score
				for _, one := range scores {
					all = append(all, one[i])
				}
				checkTogether(t, &got[i], all)
				if !(math.Abs(g[i].Score.Value-got[i].Value) <= 1e-5) || !(math.Abs(g[i].Score.Sigma-got[i].Sigma) <= 1e-5) {
					t.Errorf("edit %d: got score %g +- %g with the gradient, want %g +- %g", i, g[i].Score.Value, g[i].Score.Sigma,
						got[i].Value, got[i].Sigma)
				}
				furthest, largest := 0.0, 0.0
				for k, v := range g[i].Output.Values {
					want := 0.0
					for _, one := range gradients {
						want += float64(one[i].Output.Values[k]) / 3
					}
					furthest, largest = max(furthest, math.Abs(float64(v)-want)), max(largest, math.Abs(want))
				}
				if largest == 0 || !(furthest <= 1e-5*largest) {
					t.Errorf("edit %d: got a gradient %g off the members' mean, whose largest value is %g", i, furthest, largest)
				}
			}
		})
	}
}

// checkTogether compares a score with the members' scores.
func checkTogether(t *testing.T, got *edit.Score, all []edit.Score) {
	t.Helper()
	spread := func(of func(x *edit.Score) (float64, float64)) (mean, sigma float64) {
		n := float64(len(all))
		for i := range all {
			v, s := of(&all[i])
			mean, sigma = mean+v/n, sigma+s*s/n
		}
		for i := range all {
			v, _ := of(&all[i])
			sigma += (v - mean) * (v - mean) / (n - 1)
		}
		return mean, math.Sqrt(sigma)
	}
	check := func(what string, got, gotSigma, want, wantSigma float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-5) || !(math.Abs(gotSigma-wantSigma) <= 1e-5) { // on 0 to 10
			t.Errorf("%s: got %.7f +- %.7f, want %.7f +- %.7f", what, got, gotSigma, want, wantSigma)
		}
	}
	mean, sigma := spread(func(x *edit.Score) (float64, float64) { return x.Value, x.Sigma })
	check("score", got.Value, got.Sigma, mean, sigma)
	if !(sigma >= 1e-3) {
		t.Errorf("got sigma %g: the members agree, and prove nothing", sigma)
	}
	for k := range got.Dimensions {
		d := &got.Dimensions[k]
		if d.Class != "" {
			sum := 0.0
			for _, one := range all {
				sum += one.Dimensions[k].Probabilities[1] / float64(len(all))
			}
			check(d.Name+", second class", d.Probabilities[1], 0, sum, 0)
			continue
		}
		mean, sigma := spread(func(x *edit.Score) (float64, float64) { return x.Dimensions[k].Value, x.Dimensions[k].Sigma })
		check(d.Name, d.Value, d.Sigma, mean, sigma)
	}
}

// TestEnsembleRefused: members must be alike, and an ensemble is neither merged, exported, nor a member.
func TestEnsembleRefused(t *testing.T) {
	c := memberConfigs()["format 1"]
	q := lora.NewConfig(4, 8, lora.Names{List: []string{"q_proj"}})
	other := *c
	other.Passes = []model.PassConfig{c.Passes[0]}
	other.Passes[0].Prompt = "Good? [INSTRUCTION]"
	a, b := member(t, c, q, 1), member(t, c, q, 2)
	dir := filepath.Join(t.TempDir(), "ensemble")
	if err := model.WriteEnsemble([]string{a, b}, "", dir); err != nil {
		t.Fatal(err)
	}
	merge := func(context.Context) error {
		_, err := model.MergeScorer(context.Background(), dir, lora.MergeOptions{Out: filepath.Join(t.TempDir(), "out")})
		return err
	}
	far := func() string { return filepath.Join(t.TempDir(), "x") }
	export := func() error { _, err := openOn(t, dir).Export(far()); return err }
	hidden := func() error { _, err := openOn(t, dir).Hidden(context.Background(), nil); return err }
	tower := lora.NewConfig(4, 8, lora.Names{List: []string{"q_proj", "qkv"}})
	for want, err := range map[string]error{
		"are the same scorer":             model.WriteEnsemble([]string{a, b, a}, "", t.TempDir()),
		"at least two scorers":            model.WriteEnsemble([]string{a}, "", t.TempDir()),
		"ask or read in different ways":   model.WriteEnsemble([]string{a, member(t, &other, q, 3)}, "", t.TempDir()),
		"is itself an ensemble":           model.WriteEnsemble([]string{a, dir}, "", t.TempDir()),
		"share everything outside":        model.WriteEnsemble([]string{a, member(t, c, tower, 3)}, "", far()),
		"which cannot be merged":          merge(context.Background()),
		"which cannot be exported":        export(),
		"an ensemble, or a scorer with 1": hidden(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
		if strings.HasPrefix(want, "share") && (exit.Code(err) != exit.Wrong || strings.Contains(err.Error(), ".tmp")) {
			t.Errorf("got exit code %d of %v, want wrong usage, and no temporary folder", exit.Code(err), err)
		}
	}
}
