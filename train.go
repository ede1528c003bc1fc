package assay

import (
	"context"
	"errors"
	"fmt"

	"assay/labeling"
	"assay/table"
	"assay/trainer"
	"assay/trainer/bybenchmark"
)

// Training is what [Train] trains and [DryRun] plans. File or Config is needed.
type Training struct {
	File   string          // YAML file, as `train --config` takes it; docs/training-keys.md has every key
	Config *trainer.Config // instead of File: as trainer.Load gives it, or changed

	Fresh bool // begin anew, even if there are checkpoints to go on from

	// DeviceMemory makes DryRun plan for a GPU of that many bytes, which need not be here; 0: for the device of the
	// configuration. Train uses what is there, and refuses it.
	DeviceMemory int64

	// Progress begins the display of a part of the work: its name, its length and the unit of that; nil: none.
	Progress func(what string, total int64, unit string) trainer.Progress
	Warn     func(text string) // nil: not called
}

// Train trains a scorer, or goes on from the newest checkpoint of the run directory. The result names the scorer
// directory, which [Open] opens.
//
// When ctx is cancelled the run ends after the present step with its state saved, and the error wraps ctx's: the same
// call goes on from there. What is wrong with a file is told all at once, with lines.
func Train(ctx context.Context, t Training) (*trainer.Result, error) {
	c, err := t.config()
	if err != nil {
		return nil, err
	}
	if t.DeviceMemory != 0 {
		return nil, errors.New("a run uses the memory that is there: Training.DeviceMemory is for DryRun")
	}
	r, err := trainer.Train(ctx, trainer.Options{
		Config:   c,
		Factory:  trainer.OpenModel,
		Fresh:    t.Fresh,
		Progress: t.Progress,
		Warn:     t.Warn,

		Benchmark: bybenchmark.Open,
	})
	return r, ended(ctx, err)
}

// DryRun says what [Train] would do and need: steps, tokens, what trains, memory. It looks at every row of the tables,
// and trains and writes nothing. The backbone's weights may be absent. The plan's Err says whether the run would fail.
func DryRun(ctx context.Context, t Training) (*trainer.Plan, error) {
	c, err := t.config()
	if err != nil {
		return nil, err
	}
	if t.DeviceMemory < 0 {
		return nil, fmt.Errorf("want 0 (the device that is here) or more as Training.DeviceMemory, not %d", t.DeviceMemory)
	}
	p, err := trainer.DryRun(
		ctx,
		c,
		trainer.PlanModelFor(t.DeviceMemory),
		trainer.PlanOptions{Progress: t.Progress, Benchmark: bybenchmark.Open},
	)
	return p, ended(ctx, err)
}

// config is what File says, or Config.
func (t Training) config() (*trainer.Config, error) {
	switch {
	case t.Config != nil:
		return t.Config, nil
	case t.File == "":
		return nil, errors.New("nothing says what to train: Training.File or Training.Config is needed")
	}
	return trainer.Load(t.File)
}

// Labeling is what [Label] labels. File or Config is needed.
type Labeling struct {
	File   string           // YAML file, as `label --config` takes it; docs/label.md has every key
	Config *labeling.Config // instead of File: as labeling.Load gives it, or changed

	// Progress is told how many samples of all are measured; nil: not called.
	Progress func(done, total int)
	Warn     func(text string) // nil: not called
}

// Label makes a label table of data sets of edits: it measures similarities with CLIP and DINOv2 and applies the
// rules. The table and the report are in the output folder of the configuration; the result is the report.
//
// When ctx is cancelled the error wraps ctx's, and the same call goes on from the parts that are measured.
func Label(ctx context.Context, l Labeling) (*labeling.Report, error) {
	c := l.Config
	if c == nil && l.File == "" {
		return nil, errors.New("nothing says what to label: Labeling.File or Labeling.Config is needed")
	}
	if c == nil {
		var err error
		if c, err = labeling.Load(l.File); err != nil {
			return nil, err
		}
	}
	job, err := labeling.Open(ctx, c)
	if err != nil {
		return nil, ended(ctx, err)
	}
	defer job.Close()
	if err := job.Measure(ctx, table.Options{Progress: l.Progress}, l.Warn); err != nil {
		return nil, ended(ctx, err)
	}
	r, err := job.Merge(ctx)
	return r, ended(ctx, err)
}

// ended makes the error of work that ctx ended wrap ctx's.
func ended(ctx context.Context, err error) error {
	if why := ctx.Err(); err != nil && why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w (%w)", err, why)
	}
	return err
}
