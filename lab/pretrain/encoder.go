package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/encoders"
	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/workers"
	"assay/lab/internal/miniature"
)

// encoderModel is the trained model: an encoder with a contrastive loss; examples are drawn by their index.
type encoderModel struct {
	*encoders.Tuner
	params []optim.Param
	rows   int // pictures per example
	// contrast runs forward and backward pass over the pictures of some examples, with a weight for each row.
	contrast func(ctx context.Context, batch []dataset.Example, weights []float64) (*encoders.Contrast, error)
	// score returns a number for each of some validation examples.
	score func(ctx context.Context, batch []dataset.Example) ([]float64, error)
}

// newEncoderCommand returns a command that trains an encoder, which open opens for a picture size.
func newEncoderCommand(
	name, short, long, what string, defaults course,
	open func(c *config.Config, world *miniature.World, size int) (*encoderModel, error),
) *cobra.Command {
	var o course
	c := &cobra.Command{
		Use: name, Short: short, Long: long, Args: cobra.NoArgs,
		Example: "  pretrain " + name + " --photos examples/photos --out build/pretrain/" + name,
		RunE: func(c *cobra.Command, _ []string) error {
			world, err := o.world(true)
			if err != nil {
				return err
			}
			run := o.config()
			run.Backbone = filepath.Join(o.out, "fresh")
			return o.train(c, run, func(_ context.Context, c *config.Config) (models.Model, error) {
				return open(c, world, o.size)
			}, drawn{400, degreeOf(world, o.seed)}, what)
		},
	}
	defaults.out = "build/pretrain/" + name
	o.flags(c, defaults)
	return c
}

// openEncoder opens the checkpoint in dir, and makes it first with make if it does not exist.
func openEncoder(dir string, make func(dir string) error, c *config.Config) (*encoderModel, error) {
	if !exists(filepath.Join(dir, "config.json")) {
		if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
			return nil, err
		}
		if err := make(dir); err != nil {
			return nil, err
		}
	}
	t, err := encoders.NewTuner(dir, encoders.Options{Device: c.Device, Threads: c.Threads, Batch: 64})
	if err != nil {
		return nil, err
	}
	return &encoderModel{Tuner: t, params: optim.NewParams(t.Params())}, nil
}

func (m *encoderModel) Params() []optim.Param { return m.params }

// Step reports as score the share of an example's pictures that are not matched to their partner, so the metric l1 is
// 1 - top-1.
func (m *encoderModel) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	weights := make([]float64, len(batch)*m.rows)
	for i := range weights {
		weights[i] = in.Weight / float64(m.rows)
	}
	r, err := m.contrast(ctx, batch, weights)
	if err != nil {
		return nil, err
	}
	out := &models.StepResult{
		Loss:  make([]float64, len(batch)),
		Score: make([]float64, len(batch)),
		Grads: optim.Gradients(m.params, r.Grads),
	}
	for i, found := range r.Found {
		out.Loss[i/m.rows] += r.Loss[i] / float64(m.rows)
		if !found {
			out.Score[i/m.rows] += 1 / float64(m.rows)
		}
	}
	out.ScoreLoss = out.Loss
	return out, nil
}

func (m *encoderModel) Score(ctx context.Context, batch []dataset.Example) ([]float64, error) {
	return m.score(ctx, batch)
}

func (m *encoderModel) SaveScorer(dir string) error { return m.SaveInto(dir) }

func (m *encoderModel) Fingerprint() map[string]string {
	return map[string]string{"encoder": m.Tuner.Fingerprint()}
}

// edit is a validation example of an encoder: a pair of any kind, and the target.
type edit struct {
	source, edit, target *data.Picture
	before, after        string // captions of source and target
	degree               float64
}

func drawEdit(world *miniature.World, rng *rand.Rand) (edit, error) {
	t, err := world.Task(rng, "")
	if err != nil {
		return edit{}, err
	}
	p := t.Pair(rng, 1)
	target := t.Target(rng)
	return edit{p.Source, p.Edit, target.Picture, p.SourceCaption, t.Caption(target), p.Questions[0].Degree}, nil
}

// drawEdits draws the edits of a validation batch.
func drawEdits(world *miniature.World, seed uint64, batch []dataset.Example) ([]edit, error) {
	edits := make([]edit, len(batch))
	return edits, workers.Each(len(batch), runtime.NumCPU(), func(i int) (err error) {
		edits[i], err = drawEdit(world, generator(seed, forValidation, batch[i].Index))
		return err
	})
}

// degreeOf returns a function for the labels of the validation examples.
func degreeOf(world *miniature.World, seed uint64) func(i int) (float64, error) {
	return func(i int) (float64, error) {
		e, err := drawEdit(world, generator(seed, forValidation, i))
		return e.degree, err
	}
}
