package modeltest

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/internal/oracle"
	"assay/model"
)

// Gradients checks the way from a family's pixels back to the given pictures, on all cases with gradients in the
// fixtures. prepare is the family's Prepare in floating point, without any rounding: since it is affine, its
// differences are exact.
func Gradients(
	t *testing.T,
	family string,
	files []string,
	prepare func(t *testing.T, b model.Architecture, frames []*oracle.Field) []float64,
) {
	oracle.Each(t, func(t *testing.T, folder string) {
		dir := filepath.Join(folder, family)
		for _, file := range files {
			for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(dir, file)) {
				if c.Gradients {
					t.Run(file+"/"+c.Instruction, func(t *testing.T) { gradients(t, dir, c, prepare) })
				}
			}
		}
	})
}

func gradients(
	t *testing.T,
	dir string,
	c oracle.Case,
	prepare func(t *testing.T, b model.Architecture, frames []*oracle.Field) []float64,
) {
	s, err := model.OpenScorer(filepath.Join(dir, c.Scorer), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cfg := s.Config()
	b, err := model.OpenBackbone(cfg.Backbone)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var pair model.Pair
	pair.Instruction, pair.Pixels = c.Instruction, true
	for path, p := range map[string]**data.Picture{c.Source: &pair.Source, c.Edited: &pair.Edit} {
		if *p, err = data.Open(filepath.Join(dir, path), data.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	got, err := s.Gradient(ctx, pair)
	if err != nil {
		t.Fatal(err)
	}
	if d := math.Abs(cfg.Range(got.Score01) - c.Score); d > 1e-4 {
		t.Errorf("score %g, want %g", cfg.Range(got.Score01), c.Score)
	}
	sample, err := s.Prepare(pair)
	if err != nil {
		t.Fatal(err)
	}
	_, g, err := s.PixelGradient(ctx, sample)
	if err != nil {
		t.Fatal(err)
	}
	gradient := g.Data().([]float32)

	// shown returns what the tower would see of the pictures moved along the two directions.
	source, edit := oracle.FieldOf(pair.Source), oracle.FieldOf(pair.Edit)
	shown := func(step float64, ds, de []float64) (pixels []float64) {
		for _, frames := range oracle.JoinFields(cfg.Pair, cfg.PairSize, source.Shift(step, ds), edit.Shift(step, de)) {
			pixels = append(pixels, prepare(t, b.Architecture, frames)...)
		}
		return pixels
	}
	score := func(pixels []float64) float64 {
		for _, p := range sample.Pictures {
			for i := range p.Pixels {
				p.Pixels[i] = float32(pixels[i])
			}
			pixels = pixels[len(p.Pixels):]
		}
		score, _, err := s.PixelGradient(ctx, sample)
		if err != nil {
			t.Fatal(err)
		}
		return score
	}
	rng := rand.New(rand.NewPCG(7, uint64(c.ID)))
	for _, which := range []string{"source", "edit"} {
		ds, de := make([]float64, len(source.V)), make([]float64, len(edit.V))
		pictureGradient, d := got.Source, ds
		if which == "edit" {
			pictureGradient, d = got.Edit, de
		}
		for i := range d {
			d[i] = rng.NormFloat64()
		}
		predicted, norm := 0.0, 0.0
		for i, v := range pictureGradient.Values {
			predicted += float64(v) * d[i]
			norm += float64(v) * float64(v) * d[i] * d[i]
		}
		up, down := shown(1, ds, de), shown(-1, ds, de)
		linear := 0.0
		for i := range up {
			linear += float64(gradient[i]) * (up[i] - down[i]) / 2
		}
		norm = math.Sqrt(norm)
		if math.Abs(predicted-linear) > 1e-5*norm {
			t.Errorf("%s: gradient %g, through the float pipeline %g (of length %g)", which, predicted, linear, norm)
		}
		// down to the score itself: central differences of the whole, along the gradient so that the change is well above
		// rounding
		for i, v := range pictureGradient.Values {
			d[i] = math.Copysign(1, float64(v))
		}
		predicted = 0
		for _, v := range pictureGradient.Values {
			predicted += math.Abs(float64(v))
		}
		step := 1e-3 / predicted
		whole := (score(shown(step, ds, de)) - score(shown(-step, ds, de))) / (2 * step)
		if math.Abs(whole-predicted) > 0.01*predicted { // the gradient is that of the rounded pictures
			t.Errorf("%s: gradient %g, finite difference %g", which, predicted, whole)
		}
	}
}
