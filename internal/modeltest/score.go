package modeltest

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/oracle"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
)

// inputs compares tokens, pixels and positions.
func (f Family) inputs(t *testing.T) {
	each(t, f, openScorer, func(t *testing.T, r *reference, s *model.Scorer) {
		got := r.sample(t, s)
		if !slices.Equal(got.IDs, r.InputIDs) || got.AnswerStart != r.AnswerStart || got.ScoreIndex != r.ScoreIndex {
			t.Errorf("tokens differ: answer starts at %d, want %d; score token at %d, want %d\n got %v\nwant %v",
				got.AnswerStart, r.AnswerStart, got.ScoreIndex, r.ScoreIndex, got.IDs, r.InputIDs)
		}
		if got.IDs[got.ScoreIndex] != r.ScoreTokenID {
			t.Errorf("the score token's id is %d, want %d", got.IDs[got.ScoreIndex], r.ScoreTokenID)
		}
		if len(got.Pictures) != len(r.ImageTokens) {
			t.Fatalf("%d pictures, want %d", len(got.Pictures), len(r.ImageTokens))
		}
		r.checkSizes(t, got.Pictures)
		for i, pixels := range f.Split(r.floats(t, "pixel_values"), got.Pictures) {
			oracle.Close(t, fmt.Sprintf("pixels of picture %d", i), got.Pictures[i].Pixels, pixels, 1e-6, 0)
		}
		want := r.expect[r.name("position_ids")]
		if want == nil {
			return
		}
		b, err := backbone.OpenBackbone(s.Config().Backbone)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if axes := b.Positions(got.IDs, got.Pictures); !slices.Equal(slices.Concat(axes...), want.Data().([]int64)) {
			t.Errorf("positions are %v, want %v", axes, want)
		}
	})
}

func (f Family) score(t *testing.T, open opener) {
	each(t, f, open, func(t *testing.T, r *reference, s *model.Scorer) {
		samples := []*batch.Sample{r.sample(t, s)}
		scores, err := s.Score01(context.Background(), samples)
		if err != nil {
			t.Fatal(err)
		}
		checkScore(t, s, scores[0], r)
		h, err := s.Hidden(context.Background(), samples)
		if err != nil {
			t.Fatal(err)
		}
		oracle.Close(t, "hidden state", h[0], r.floats(t, "hidden_score"), 0, 1e-4)
	})
}

// before reads the hidden state before the score token, which must predict that token with the reference's logits.
func (f Family) before(t *testing.T) {
	open := func(t *testing.T, dir string) *model.Scorer {
		t.Helper()
		p, err := model.LoadScorerState(dir)
		if err != nil {
			t.Fatal(err)
		}
		p.Config.Passes[0].Position = "before"
		s, err := model.NewScorer(p, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	each(t, f, open, func(t *testing.T, r *reference, s *model.Scorer) {
		h, err := s.Hidden(context.Background(), []*batch.Sample{r.sample(t, s)})
		if err != nil {
			t.Fatal(err)
		}
		b, err := backbone.OpenBackbone(s.Config().Backbone)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		table, err := b.Weights.Dense(b.Keys().Output)
		if err != nil {
			t.Fatal(err)
		}
		row := oracle.Floats(t, oracle.Tensors(t, filepath.Join(r.scorer(), "head.safetensors")), "score_token.lm_head")
		weights := slices.Concat(table.Float32s(), row)
		width, columns := len(h[0]), len(weights)/len(h[0])
		got := make([]float32, columns)
		for i := range got {
			for k, v := range h[0] {
				got[i] += v * weights[i*width+k]
			}
		}
		want := r.floats(t, "answer_logits")[(r.ScoreIndex-r.AnswerStart)*columns:]
		oracle.Close(t, "logits before the score token", got, want[:columns], 1e-5, 1e-4)
	})
}

func checkScore(t *testing.T, s *model.Scorer, score01 float64, r *reference) {
	t.Helper()
	c := s.Config()
	if got := c.ScoreRange.Of(score01); !(math.Abs(got-r.Score) <= 1e-4) {
		t.Errorf("case %d: score %g, want %g", r.ID, got, r.Score)
	}
}

// batch scores all cases of a scorer in one call, with pictures of several sizes and sequences of several lengths: a
// score is the same number in any batch.
func (f Family) batch(t *testing.T, open opener) {
	f.eachFile(t, func(t *testing.T, rs []*reference) {
		byScorer := map[string][]*reference{}
		for _, r := range rs {
			byScorer[r.scorer()] = append(byScorer[r.scorer()], r, r, r, r, r)
		}
		for dir, rs := range byScorer {
			s, alone := open(t, dir), open(t, dir)
			var samples []*batch.Sample
			for _, r := range rs {
				samples = append(samples, r.sample(t, s))
			}
			together, err := s.Score01(context.Background(), samples)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range rs {
				if want := scoreOf(t, alone, r); together[i] != want {
					t.Errorf("case %d: %v alone, %v in a batch", r.ID, want, together[i])
				}
			}
		}
	})
}

func (f Family) pixelGradient(t *testing.T, open opener) {
	each(t, f, open, func(t *testing.T, r *reference, s *model.Scorer) {
		if r.Gradients {
			f.checkPixelGradient(t, r, s, r.sample(t, s), "dscore01_dpixel_values")
		}
	})
}

// checkPixelGradient compares the gradient with respect to a sample's pixels with a tensor of the reference.
func (f Family) checkPixelGradient(t *testing.T, r *reference, s *model.Scorer, sample *batch.Sample, name string) {
	t.Helper()
	score, g, err := s.PixelGradient(context.Background(), sample)
	if err != nil {
		t.Fatal(err)
	}
	checkScore(t, s, score, r)
	got := g.Data().([]float32)
	for i, want := range f.Split(r.floats(t, name), sample.Pictures) {
		oracle.Close(t, fmt.Sprintf("gradient of picture %d", i), got[:len(want)], want, 0, 1e-4)
		got = got[len(want):]
	}
}

// checkSizes compares sizes and tokens of prepared pictures.
func (r *reference) checkSizes(t *testing.T, pictures []*backbone.Picture) {
	t.Helper()
	for i, p := range pictures {
		if p.Tokens != r.ImageTokens[i] || p.Height != r.ImageSizes[i][0] || p.Width != r.ImageSizes[i][1] {
			t.Errorf("picture %d: %dx%d with %d tokens, want %v with %d", i, p.Height, p.Width, p.Tokens, r.ImageSizes[i],
				r.ImageTokens[i])
		}
	}
}
