package modeltest

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
)

// prepareFloat is a family's Prepare in floating point, without rounding. It is affine, so its differences are exact.
type prepareFloat = func(t *testing.T, b backbone.Architecture, frames []*oracle.Field) []float64

// Gradients checks backpropagation from a family's pixels to the input pictures, on all cases with gradients in the
// fixtures.
func Gradients(t *testing.T, family string, files []string, prepare prepareFloat) {
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

func gradients(t *testing.T, dir string, c oracle.Case, prepare prepareFloat) {
	s := openScorer(t, filepath.Join(dir, c.Scorer))
	cfg := s.Config()
	b, err := backbone.OpenBackbone(cfg.Backbone)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r := &reference{Case: c, family: dir}
	asked := r.edit(t)
	source, output := decoded(asked)
	all, err := s.Gradients(t.Context(), []*edit.Edit{asked})
	if err != nil {
		t.Fatal(err)
	}
	got := all[0]
	checkScore(t, s, got.Score01, r)
	p := &probe{
		Scorer: s,
		sample: r.sample(t, s),
		source: oracle.FieldOf(source.Width, source.Height, source.Pix),
		edit:   oracle.FieldOf(output.Width, output.Height, output.Pix),
	}
	p.shown = func(source, edit *oracle.Field) (pixels []float64) {
		for _, frames := range oracle.JoinFields(cfg.OnePass().Pair, cfg.PairSize, source, edit) {
			pixels = append(pixels, prepare(t, b.Architecture, frames)...)
		}
		return pixels
	}
	_, g, err := s.PixelGradient(t.Context(), p.sample)
	if err != nil {
		t.Fatal(err)
	}
	p.gradient = g.Data().([]float32)
	rng := rand.New(rand.NewPCG(7, uint64(c.ID)))
	p.check(t, "source", got.Source().Values, rng)
	p.check(t, "edit", got.Output.Values, rng)
}

// probe perturbs the pictures of a sample.
type probe struct {
	*model.Scorer
	sample       *batch.Sample
	source, edit *oracle.Field
	gradient     []float32                                  // of the score with respect to the input of the vision tower
	shown        func(source, edit *oracle.Field) []float64 // input of the vision tower for two pictures
}

// moved returns the input of the vision tower with one picture shifted along a direction.
func (p *probe) moved(which string, step float64, direction []float64) []float64 {
	if which == "source" {
		return p.shown(p.source.Shift(step, direction), p.edit)
	}
	return p.shown(p.source, p.edit.Shift(step, direction))
}

// score returns the score of the sample with other pixels.
func (p *probe) score(t *testing.T, pixels []float64) float64 {
	t.Helper()
	for _, q := range p.sample.Pictures {
		for i := range q.Pixels {
			q.Pixels[i] = float32(pixels[i])
		}
		pixels = pixels[len(q.Pixels):]
	}
	score, _, err := p.PixelGradient(t.Context(), p.sample)
	if err != nil {
		t.Fatal(err)
	}
	return score
}

// check compares the gradient of one of the pictures with finite differences along two directions.
func (p *probe) check(t *testing.T, which string, values []float32, rng *rand.Rand) {
	d := make([]float64, len(values))
	predicted, norm := 0.0, 0.0
	for i, v := range values {
		d[i] = rng.NormFloat64()
		predicted += float64(v) * d[i]
		norm += float64(v) * float64(v) * d[i] * d[i]
	}
	norm = math.Sqrt(norm)
	up, down := p.moved(which, 1, d), p.moved(which, -1, d)
	linear := 0.0
	for i := range up {
		linear += float64(p.gradient[i]) * (up[i] - down[i]) / 2
	}
	if !(math.Abs(predicted-linear) <= 1e-5*norm) {
		t.Errorf("%s: gradient %g, through the float pipeline %g (of length %g)", which, predicted, linear, norm)
	}
	// The whole pipeline up to the score: central differences along the gradient, so that the change is well above
	// rounding.
	predicted = 0
	for i, v := range values {
		d[i] = math.Copysign(1, float64(v))
		predicted += math.Abs(float64(v))
	}
	step := 1e-3 / predicted
	whole := (p.score(t, p.moved(which, step, d)) - p.score(t, p.moved(which, -step, d))) / (2 * step)
	if !(math.Abs(whole-predicted) <= 0.01*predicted) { // the gradient is taken at the rounded pictures
		t.Errorf("%s: gradient %g, finite difference %g", which, predicted, whole)
	}
}
