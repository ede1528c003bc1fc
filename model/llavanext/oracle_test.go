package llavanext_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"assay/data"
	"assay/internal/oracle"
	"assay/model"
	_ "assay/model/llavanext"
)

// files holds the fixtures' case files with the tensors beside them.
var files = [][2]string{{"cases.json", "expect.safetensors"}, {"cases_adiee.json", "expect_adiee.safetensors"}}

func open(t *testing.T, path string) *data.Picture {
	t.Helper()
	p, err := data.Open(path, data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func prepare(t *testing.T, family string, c oracle.Case, s interface {
	Prepare(model.Pair) (*model.Sample, error)
}) *model.Sample {
	t.Helper()
	sample, err := s.Prepare(model.Pair{Source: open(t, filepath.Join(family, c.Source)), Edit: open(t, filepath.Join(family, c.Edited)), Instruction: c.Instruction, Pixels: true})
	if err != nil {
		t.Fatal(err)
	}
	return sample
}

// eachCase opens the scorers of a case file and calls f for every case.
func eachCase(t *testing.T, f func(t *testing.T, family string, c oracle.Case, s *model.Scorer, want func(name string) []float32)) {
	oracle.Each(t, func(t *testing.T, folder string) {
		family := filepath.Join(folder, "llavanext")
		for _, file := range files {
			expect := oracle.Tensors(t, filepath.Join(family, file[1]))
			scorers := map[string]*model.Scorer{}
			for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(family, file[0])) {
				s := scorers[c.Scorer]
				if s == nil {
					var err error
					if s, err = model.OpenScorer(filepath.Join(family, c.Scorer), model.Options{}); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { s.Close() })
					scorers[c.Scorer] = s
				}
				t.Run(fmt.Sprintf("%s/%d", c.Scorer, c.ID), func(t *testing.T) {
					f(t, family, c, s, func(name string) []float32 {
						return oracle.Floats(t, expect, fmt.Sprintf("case%d.%s", c.ID, name))
					})
				})
			}
		}
	})
}

func TestInputs(t *testing.T) {
	eachCase(t, func(t *testing.T, family string, c oracle.Case, s *model.Scorer, want func(string) []float32) {
		got := prepare(t, family, c, s)
		if !slices.Equal(got.IDs, c.InputIDs) || got.AnswerStart != c.AnswerStart || got.ScoreIndex != c.ScoreIndex {
			t.Errorf("tokens differ: answer starts at %d, want %d; score token at %d, want %d\n got %v\nwant %v", got.AnswerStart, c.AnswerStart, got.ScoreIndex, c.ScoreIndex, got.IDs, c.InputIDs)
		}
		pixels := want("pixel_values") // [pictures, most tiles, 3, S, S], padded with zeros
		per := len(pixels) / len(got.Pictures)
		for i, p := range got.Pictures {
			if p.Tokens != c.ImageTokens[i] || p.Height != c.ImageSizes[i][0] || p.Width != c.ImageSizes[i][1] {
				t.Errorf("picture %d: %dx%d with %d tokens, want %v with %d", i, p.Height, p.Width, p.Tokens, c.ImageSizes[i], c.ImageTokens[i])
			}
			oracle.Close(t, fmt.Sprintf("pixels of picture %d", i), p.Pixels, pixels[i*per:i*per+len(p.Pixels)], 1e-6, 0)
		}
	})
}

func TestScore(t *testing.T) {
	eachCase(t, func(t *testing.T, family string, c oracle.Case, s *model.Scorer, want func(string) []float32) {
		sample := prepare(t, family, c, s)
		scores, err := s.Score(context.Background(), []*model.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.Config()
		if d := math.Abs(cfg.Range(scores[0]) - c.Score); !(d <= 1e-4) {
			t.Errorf("score %g, want %g", cfg.Range(scores[0]), c.Score)
		}
		h, err := s.Hidden(context.Background(), []*model.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		oracle.Close(t, "hidden state", h[0], want("hidden_score"), 0, 1e-4)
	})
}

func TestPixelGradient(t *testing.T) {
	eachCase(t, func(t *testing.T, family string, c oracle.Case, s *model.Scorer, want func(string) []float32) {
		if !c.Gradients {
			return
		}
		sample := prepare(t, family, c, s)
		_, g, err := s.PixelGradient(context.Background(), sample)
		if err != nil {
			t.Fatal(err)
		}
		got, all := g.Data().([]float32), want("dscore01_dpixel_values")
		per := len(all) / len(sample.Pictures)
		for i, p := range sample.Pictures { // the fixture pads pictures to the same number of tiles
			n := len(p.Pixels)
			oracle.Close(t, fmt.Sprintf("gradient of picture %d", i), got[:n], all[i*per:i*per+n], 0, 1e-4)
			got = got[n:]
		}
	})
}
