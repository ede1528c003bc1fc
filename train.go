package assay

import (
	"context"
	"errors"
	"fmt"

	"assay/internal/labeling"
	"assay/internal/table"
	"assay/internal/trainer"
	"assay/internal/trainer/bybenchmark"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
)

// Training is the input of [Train] and [DryRun]. File or Config is needed.
type Training struct {
	File   string          // YAML file, as `train --config` takes it; docs/training-keys.md has every key
	Config *TrainingConfig // instead of File: as [LoadTraining] gives it, or changed

	Fresh bool // begin anew, even if there are checkpoints to go on from

	// DeviceMemory makes DryRun plan for a GPU of that many bytes, which need not be here; 0: for the configured device.
	// Train refuses it.
	DeviceMemory int64

	// Progress starts the display of a phase by name, length and unit; nil: none.
	Progress func(what string, total int64, unit string) TrainingProgress
	Warn     func(text string) // nil: not called
}

// TrainingConfig is what the YAML file of a training says.
type TrainingConfig = config.Config

// TrainingProgress displays one phase of a training.
type TrainingProgress = dataset.Progress

// TrainingPlan is what [DryRun] says of a training.
type TrainingPlan = models.Plan

// TrainingResult is what [Train] made.
type TrainingResult = trainer.Result

// LoadTraining reads the YAML file of a training. All its problems are reported at once, with lines.
func LoadTraining(file string) (*TrainingConfig, error) { return config.Load(file) }

// Train trains a scorer, or resumes from the newest checkpoint of the run directory. The result names the scorer
// directory, which [Open] opens.
//
// When ctx is cancelled the run saves its state after the current step, and the error wraps ctx's: the same call
// resumes. All problems of a configuration file are reported at once, with lines.
func Train(ctx context.Context, t Training) (*TrainingResult, error) {
	c, err := t.config()
	if err != nil {
		return nil, err
	}
	if t.DeviceMemory != 0 {
		return nil, errors.New("a run uses the memory that is there: Training.DeviceMemory is for DryRun")
	}
	r, err := trainer.Train(ctx, trainer.Options{
		Config:   c,
		Factory:  models.Open,
		Fresh:    t.Fresh,
		Progress: t.Progress,
		Warn:     t.Warn,

		Benchmark: bybenchmark.Open,
	})
	return r, ended(ctx, err)
}

// DryRun plans what [Train] would do and need: steps, tokens, trainable weights, memory. It reads every row of the
// tables, and trains and writes nothing. The backbone's weights may be absent. The plan's Err is why the run would
// fail.
func DryRun(ctx context.Context, t Training) (*TrainingPlan, error) {
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
		models.OpenPlanFor(t.DeviceMemory),
		trainer.PlanOptions{Progress: t.Progress, Benchmark: bybenchmark.Open},
	)
	return p, ended(ctx, err)
}

// config is Config, or read from File.
func (t Training) config() (*TrainingConfig, error) {
	switch {
	case t.Config != nil:
		return t.Config, nil
	case t.File == "":
		return nil, errors.New("nothing says what to train: Training.File or Training.Config is needed")
	}
	return config.Load(t.File)
}

// Labeling is the input of [Label]. File or Config is needed.
type Labeling struct {
	File   string          // YAML file, as `label --config` takes it; docs/label.md has every key
	Config *LabelingConfig // instead of File: as [LoadLabeling] gives it, or changed

	// Progress is told how many samples of all are measured; nil: not called.
	Progress func(done, total int)
	Warn     func(text string) // nil: not called
}

// LabelingConfig is what the YAML file of a labeling says.
type LabelingConfig = labeling.Config

// LabelingReport counts what [Label] did with the rows.
type LabelingReport = labeling.Report

// LoadLabeling reads the YAML file of a labeling.
func LoadLabeling(file string) (*LabelingConfig, error) { return labeling.Load(file) }

// Label makes a label table from data sets of edits: it measures similarities with CLIP and DINOv2 and applies the
// rules. Table and report are written to the output folder of the configuration; the report is returned.
//
// When ctx is cancelled the error wraps ctx's, and the same call resumes.
func Label(ctx context.Context, l Labeling) (*LabelingReport, error) {
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
