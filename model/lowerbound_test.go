package model_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/calibration"
	"assay/model"
	_ "assay/model/families"
)

// boundScorer opens a scorer with two one-layer heads, a and b, with log sigma = slope mu - 1, whose score is k
// standard deviations below the fusion of both, or of some of them.
func boundScorer(t *testing.T, fusion string, k, slope float64, of ...string) *model.Scorer {
	t.Helper()
	return openBound(t, boundDir(t, fusion, k, slope, of...), "")
}

// boundDir writes such a scorer.
func boundDir(t *testing.T, fusion string, k, slope float64, of ...string) (dir string) {
	t.Helper()
	head := model.DimensionConfig{Activation: "relu", Outputs: model.OutputMuSigma}
	p, err := model.NewScorerState(&model.ScorerConfig{
		Format: 2, Backbone: "../backbones/tiny",
		Passes: []model.PassConfig{{Name: "all", Pictures: []string{"source", "edit"}, Prompt: "Done? [INSTRUCTION]",
			Position: "last", Heads: []string{"a", "b"}}},
		Heads: map[string]model.DimensionConfig{"a": head, "b": head},
		Score: &model.FusionConfig{Fusion: fusion, LowerBound: k, Of: of},
	}, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		prefix := "heads." + name + ".layers.0."
		weight := p.Tensors[prefix+"weight"].Data().([]float32)
		for i, mu := range weight[:len(weight)/2] {
			weight[len(weight)/2+i] = float32(slope) * mu
		}
		bias := p.Tensors[prefix+"bias"].Data().([]float32)
		bias[1] = float32(slope)*bias[0] - 1
	}
	dir = t.TempDir()
	if err := p.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openBound(t *testing.T, dir, dimension string) *model.Scorer {
	t.Helper()
	s, err := model.OpenScorer(dir, model.Options{Device: "cpu", Threads: 1, Dimension: dimension})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestLowerBound: the score is mu - k sigma. With log sigma = c mu - 1 of the only head that counts, its gradient is
// (1 - k c sigma) d mu.
func TestLowerBound(t *testing.T) {
	source, output := data.NewPicture(56, 56), data.NewPicture(56, 56)
	for i := range output.Pix {
		source.Pix[i], output.Pix[i] = byte(i*7), byte(i*i/11)
	}
	of := func(s *model.Scorer) *edit.Gradient {
		all, err := s.Gradients(context.Background(), []*edit.Edit{edit.New(source, output, "blur it")})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	const slope = 0.5
	for _, fusion := range []string{"mean", "sum", "min"} {
		for _, k := range []float64{0.5, 2} {
			t.Run(fmt.Sprintf("%s, %g", fusion, k), func(t *testing.T) {
				plain, bound := of(boundScorer(t, fusion, 0, slope)), of(boundScorer(t, fusion, k, slope))
				sigma := plain.Sigma / 10 // on 0 to 1
				if got, want := bound.Score01, plain.Score01-k*sigma; !(math.Abs(got-want) <= 1e-6) || sigma == 0 {
					t.Errorf("got score01 %g, want %g; sigma is %g", got, want, sigma)
				}
				if bound.Sigma != plain.Sigma {
					t.Errorf("got sigma %g, want %g", bound.Sigma, plain.Sigma)
				}
				// d sigma / d mu_i by fusion: mean (log sigma is a mean) has slope sigma / 2, and 1 / 2 for the score.
				want := make([]float64, len(plain.Output.Values))
				add := func(g *edit.Gradient, factor float64) {
					for i, v := range g.Output.Values {
						want[i] += factor * float64(v)
					}
				}
				if fusion == "sum" { // slope sigma_i^2 / sigma, and 1 for the score: another factor for each head
					for _, name := range []string{"a", "b"} {
						one := of(boundScorer(t, fusion, 0, slope, name))
						add(one, 1-k*slope*one.Sigma*one.Sigma/100/sigma)
					}
				} else {
					add(plain, 1-k*slope*sigma)
				}
				most, size := 0.0, 0.0
				for i, v := range want {
					most = max(most, math.Abs(float64(bound.Output.Values[i])-v))
					size = max(size, math.Abs(v))
				}
				if size == 0 || !(most <= 1e-4*size) {
					t.Errorf("gradients differ from (1 - k c sigma) d mu by up to %g, of %g", most, size)
				}
			})
		}
	}
}

// TestLowerBoundCalibrated: the map of mu - k sigma is not that of its dimension mu, and the reverse.
func TestLowerBoundCalibrated(t *testing.T) {
	output := data.NewPicture(56, 56)
	for i := range output.Pix {
		output.Pix[i] = byte(i * i / 11)
	}
	dir := boundDir(t, "mean", 2, 0.5, "a")
	score := func(dimension string) edit.Score {
		all, errs, err := edit.ScoreAll(context.Background(), openBound(t, dir, dimension),
			edit.New(data.NewPicture(56, 56), output, "blur it"))
		if err != nil || errs[0] != nil {
			t.Fatal(err, errs)
		}
		return all[0]
	}
	raw, mu := score(""), score("a")
	state, err := model.LoadScorerState(dir)
	if err != nil {
		t.Fatal(err)
	}
	maps := &calibration.Calibration{Format: 1, Scorer: state.Digest()}
	install := func(key string, y float64) calibration.Map {
		m := calibration.Map{Dimension: key, Method: calibration.Isotonic, X: []float64{-10, 10}, Y: []float64{y, y + 0.1}}
		maps = maps.With(m)
		if err := state.InstallCalibration(maps); err != nil {
			t.Fatal(err)
		}
		return m
	}
	check := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-9) {
			t.Errorf("%s: got %g, want %g", what, got, want)
		}
	}
	m := install(state.Config.CalibrationKey(), 0.2)
	want, _ := m.At(raw.Score01)
	check("the calibrated score", score("").Score01, want)
	both := score("")
	check("its dimension", both.ByName()["a"].Value, mu.Value)
	check("the dimension alone", score("a").Score01, mu.Score01)
	n := install("a", 0.7)
	check("the score beside a calibrated dimension", score("").Score01, want)
	want, _ = n.At(mu.Score01)
	check("the calibrated dimension", score("a").Score01, want)
}

// TestLowerBoundRefused: without sigma a lower bound is refused.
func TestLowerBoundRefused(t *testing.T) {
	for _, c := range []struct {
		name, outputs, fusion string
		k                     float64
	}{
		{"values", model.OutputValue, "mean", 1},
		{"product", model.OutputMuSigma, "product", 1},
		{"negative", model.OutputMuSigma, "mean", -1},
		{"infinite", model.OutputMuSigma, "mean", math.Inf(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := model.DimensionConfig{Outputs: c.outputs}
			config := &model.ScorerConfig{
				Format: 2, Backbone: "../backbones/tiny",
				Passes: []model.PassConfig{{Name: "all", Pictures: []string{"edit"}, Prompt: "Done?", Position: "last",
					Heads: []string{"a", "b"}}},
				Heads: map[string]model.DimensionConfig{"a": head, "b": head},
				Score: &model.FusionConfig{Fusion: c.fusion, LowerBound: c.k},
			}
			if err := config.Normalize(); err == nil {
				t.Errorf("lower_bound %g over %s of %s was accepted", c.k, c.fusion, c.outputs)
			}
		})
	}
}
