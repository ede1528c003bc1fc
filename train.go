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
	Config *TrainingConfig // instead of File: as [LoadTraining] returns it, or modified; its values are checked

	Fresh bool // start over, even if there are checkpoints to resume from

	// DeviceMemory makes DryRun plan for a GPU with that many bytes, which need not be present; 0: for the configured
	// device. Train refuses it.
	DeviceMemory int64

	// Progress starts the display of a phase by name, length and unit; nil: none.
	Progress func(what string, total int64, unit string) TrainingProgress
	Warn     func(text string) // nil: not called
}

// TrainingConfig is the content of a training's YAML file.
type TrainingConfig = config.Config

// TrainingProgress displays one phase of a training.
type TrainingProgress = dataset.Progress

// TrainingPlan is the result of [DryRun].
type TrainingPlan = models.Plan

// TrainingResult is the result of [Train].
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
		return nil, errors.New("Training.DeviceMemory is for DryRun: a run uses the available memory")
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
// tables, and trains and writes nothing. The backbone's weights may be absent. The plan's Err returns why the run
// would fail.
func DryRun(ctx context.Context, t Training) (*TrainingPlan, error) {
	c, err := t.config()
	if err != nil {
		return nil, err
	}
	if t.DeviceMemory < 0 {
		return nil, fmt.Errorf("Training.DeviceMemory: want 0 (the configured device) or more, not %d", t.DeviceMemory)
	}
	p, err := trainer.DryRun(
		ctx,
		c,
		models.OpenPlanFor(t.DeviceMemory),
		trainer.PlanOptions{Progress: t.Progress, Benchmark: bybenchmark.Open},
	)
	return p, ended(ctx, err)
}

// config returns Config, or reads File.
func (t Training) config() (*TrainingConfig, error) {
	switch {
	case t.Config != nil && t.File != "":
		return nil, errors.New("Training.File and Training.Config are both set: set one of them")
	case t.Config != nil:
		return t.Config, t.Config.Check()
	case t.File == "":
		return nil, errors.New("nothing to train: set Training.File or Training.Config")
	}
	return config.Load(t.File)
}

// Labeling is the input of [Label]. File or Config is needed.
type Labeling struct {
	File   string          // YAML file, as `label --config` takes it; docs/label.md has every key
	Config *LabelingConfig // instead of File: as [LoadLabeling] returns it, or modified; its values are checked

	// Progress is called with the number of measured samples and of all samples; nil: not called.
	Progress func(done, total int)
	Warn     func(text string) // nil: not called
}

// LabelingConfig is the content of a labeling's YAML file.
type LabelingConfig = labeling.Config

// LabelingReport counts the rows of [Label] by outcome.
type LabelingReport = labeling.Report

// LoadLabeling reads the YAML file of a labeling.
func LoadLabeling(file string) (*LabelingConfig, error) { return labeling.Load(file) }

// Label builds a label table from data sets of edits: it measures similarities with CLIP and DINOv2 and applies the
// rules. Table and report are written to the output folder of the configuration; the report is returned.
//
// When ctx is cancelled the error wraps ctx's, and the same call resumes.
func Label(ctx context.Context, l Labeling) (*LabelingReport, error) {
	c, err := l.config()
	if err != nil {
		return nil, err
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

func (l Labeling) config() (*LabelingConfig, error) {
	switch {
	case l.Config != nil && l.File != "":
		return nil, errors.New("Labeling.File and Labeling.Config are both set: set one of them")
	case l.Config != nil:
		return l.Config, l.Config.Check()
	case l.File == "":
		return nil, errors.New("nothing to label: set Labeling.File or Labeling.Config")
	}
	return labeling.Load(l.File)
}

// ended makes an error wrap that of ctx if ctx has ended.
func ended(ctx context.Context, err error) error {
	if why := ctx.Err(); err != nil && why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w (%w)", err, why)
	}
	return err
}
