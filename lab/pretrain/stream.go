package main

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/trainer"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/lab/internal/miniature"
)

// course holds the flags that all models share.
type course struct {
	photos  string
	held    []string
	out     string
	size    int
	seed    uint64
	steps   int64
	batch   int
	lr      float64
	threads int
	every   int64
}

func (o *course) flags(c *cobra.Command, d course) {
	f := c.Flags()
	f.StringVar(&o.photos, "photos", "examples/photos", "folder of photographs")
	f.StringSliceVar(&o.held, "held", []string{"tissue", "rocket"}, "photographs to hold out")
	f.StringVar(&o.out, "out", d.out, "run directory")
	f.IntVar(&o.size, "size", miniature.DefaultSize, "side of the pictures, pixels")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all random choices")
	f.Int64Var(&o.steps, "steps", d.steps, "optimizer steps")
	f.IntVar(&o.batch, "batch", d.batch, "examples per step")
	f.Float64Var(&o.lr, "lr", d.lr, "peak learning rate")
	f.IntVar(&o.threads, "threads", 0, "CPU threads; 0: all cores")
	f.Int64Var(&o.every, "validate-every", d.every, "steps between validations")
}

// world opens the photographs.
func (o *course) world(augment bool) (*miniature.World, error) {
	photos, err := miniature.OpenPhotos(o.photos, o.size, miniature.Selection{Held: o.held})
	if err != nil {
		return nil, err
	}
	return miniature.New(photos, o.size, augment)
}

// config returns the configuration of the training: AdamW, a short warm-up, then a cosine schedule.
func (o *course) config() *config.Config {
	c := config.Default()
	c.Mode, c.Out, c.Seed = "full", o.out, o.seed
	c.Steps, c.Epochs = o.steps, 0
	c.BatchSize, c.MicroBatch = o.batch, config.MicroBatch(o.batch)
	c.Threads, c.Device = o.threads, "cpu"
	c.Threads = cmp.Or(c.Threads, runtime.NumCPU())
	c.Optimizer.LR, c.Optimizer.Betas, c.Optimizer.WeightDecay = o.lr, []float64{0.9, 0.98}, 0.03
	c.Schedule = config.ScheduleConfig{Kind: "cosine", Warmup: 100, MinLR: o.lr / 30}
	c.Checkpoint.Minutes, c.Validate.Every = 3, o.every
	return c
}

// train trains a model that draws its own examples by index.
func (o *course) train(
	c *cobra.Command, config *config.Config, model models.Factory, validation drawn, what string,
) error {
	known := map[string]string{"data": what, "photos": o.photos, "held": fmt.Sprint(o.held), "size": fmt.Sprint(o.size)}
	r, err := trainer.Train(c.Context(), trainer.Options{Config: config, Factory: model,
		Data: dataset.New(drawn{n: 1 << 20}, validation, known),
		Progress: func(what string, total int64, unit string) dataset.Progress {
			return cli.NewProgress(c, what, total, unit)
		}})
	if err != nil {
		return err
	}
	return cli.Print(c, r, func(w io.Writer) {
		fmt.Fprintf(w, "%d steps, %d examples, %.0f s: %s\n", r.Steps, r.Samples, r.Seconds, r.Scorer)
	})
}

// drawn is a data set of which only the number of examples is known here.
type drawn struct {
	n     int
	label func(i int) (float64, error) // nil: none
}

func (d drawn) Len() int         { return d.n }
func (d drawn) Groups() []string { return make([]string, d.n) }

func (d drawn) Example(i int) (dataset.Example, error) {
	var e dataset.Example
	e.Edit.ID = fmt.Sprintf("example %d", i)
	if d.label == nil {
		return e, nil
	}
	var err error
	e.Label, err = d.label(i)
	return e, err
}

// Streams of random numbers.
const (
	forTraining = iota + 1
	forValidation
)

// generator returns the generator of one example.
func generator(seed uint64, stream, index int) *rand.Rand {
	return rand.New(rand.NewPCG(seed*8+uint64(stream), uint64(index)*0x9e3779b97f4a7c15))
}
