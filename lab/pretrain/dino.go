package main

import (
	"context"
	"math/rand/v2"
	"runtime"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/workers"
	"assay/lab/internal/miniature"
	"assay/model/fresh"
)

func init() { app.Register(newDINOCommand) }

func newDINOCommand() *cobra.Command {
	const about = `dino trains an image encoder from scratch to recognise views of the same picture: crops of
it, a little brighter or darker, with noise (SimCLR). A batch holds sources and edits of them as
different pictures. Validation compares DINO-I, the cosine of an edit and its target, with the true
degree of success. l1 of a training step is the share of views whose other view is not the nearest.`
	return newEncoderCommand("dino", "Train an image encoder in DINOv2's architecture on pictures only", about,
		"miniature views 1",
		course{steps: 800, batch: 24, lr: 1e-3, every: 200},
		func(c *config.Config, world *miniature.World, size int) (*encoderModel, error) {
			return newDINOModel(c, world, dinoSizes(size))
		})
}

// dinoSizes make 1.5 MB.
func dinoSizes(size int) fresh.DINOSizes {
	return fresh.DINOSizes{Picture: size, Patch: 8,
		Transformer: fresh.Transformer{Hidden: 96, Layers: 3, Heads: 4, Intermediate: 384}}
}

func newDINOModel(c *config.Config, world *miniature.World, sizes fresh.DINOSizes) (*encoderModel, error) {
	m, err := openEncoder(c.Backbone, func(dir string) error { return fresh.CreateDINO(dir, sizes, c.Seed) }, c)
	if err != nil {
		return nil, err
	}
	m.rows = views
	m.contrast = func(ctx context.Context, batch []dataset.Example, weights []float64) (*encoders.Contrast, error) {
		pictures := make([]*data.Picture, len(weights))
		err := workers.Each(len(batch), runtime.NumCPU(), func(i int) error {
			return drawViews(world, generator(c.Seed, forTraining, batch[i].Index), pictures[i*views:(i+1)*views])
		})
		if err != nil {
			return nil, err
		}
		return m.Views(ctx, pictures, weights)
	}
	m.score = func(ctx context.Context, batch []dataset.Example) ([]float64, error) {
		edits, err := drawEdits(world, c.Seed, batch)
		if err != nil {
			return nil, err
		}
		var pictures []*data.Picture
		for _, e := range edits {
			pictures = append(pictures, e.edit, e.target)
		}
		x, err := m.Images(ctx, pictures)
		if err != nil {
			return nil, err
		}
		scores := make([]float64, len(batch))
		for i := range scores {
			scores[i] = heuristics.Cosine(x[2*i], x[2*i+1])
		}
		return scores, nil
	}
	return m, nil
}

// views is the number of pictures per example: two of a source, two of an edit of it.
const views = 4

func drawViews(world *miniature.World, rng *rand.Rand, into []*data.Picture) error {
	t, err := world.Task(rng, "")
	if err != nil {
		return err
	}
	for i, p := range []*data.Picture{t.Source, t.Target(rng).Picture} {
		into[2*i], into[2*i+1] = view(rng, p), view(rng, p)
	}
	return nil
}

// view returns a square crop of 75 to 100 % of the side, resized to the full size, with gains, brightness and noise.
func view(rng *rand.Rand, p *data.Picture) *data.Picture {
	uniform := func(low, high float64) float64 { return low + rng.Float64()*(high-low) }
	side := int(uniform(0.75, 1) * float64(p.Width))
	x := p.Crop(rng.IntN(p.Width-side+1), rng.IntN(p.Height-side+1), side, side).Resize(p.Width, p.Height, data.Bilinear)
	all, bright, noise := uniform(0.9, 1.1), uniform(-12, 12), uniform(0, 6)
	gains := [3]float64{all * uniform(0.95, 1.05), all * uniform(0.95, 1.05), all * uniform(0.95, 1.05)}
	for i, v := range x.Pix {
		x.Pix[i] = byte(min(max(float64(float64(v)*gains[i%3])+bright+float64(noise*rng.NormFloat64())+0.5, 0), 255))
	}
	return x
}
