// Package trainer trains scorers. Train sets a run up for its first step, or for the step of the checkpoint that it
// resumes from, and then loops: a batch is loaded, its micro-batches run forward and backward, their gradients are
// summed and clipped, the optimizer updates the parameters, and validation, checkpoints and metrics follow when they
// are due.
//
// The parts are packages below this one: config, dataset, objective, models, optimizer, checkpoint, records, mlflow.
// Strategy hides how several processes work together; internal/trainer/distributed implements it for MPI jobs.
package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"assay/edit"
	"assay/internal/exit"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
	"assay/internal/trainer/optimizer"
	"assay/internal/trainer/records"
	"assay/internal/trainer/report"
)

// Trainer is a run at some step: its parts, each with its own state.
type Trainer struct {
	config      *config.Config
	model       models.Model
	data        *dataset.Data            // rows to learn from, rows to validate on
	loader      *dataset.Loader          // batches in the order of the run
	objective   *objective.Objective     // what the terms of the loss compare
	optimizer   *optimizer.Optimizer     // parameters, gradients, moments, learning rates
	strategy    Strategy                 // how processes divide the work
	quarantine  *quarantine              // rows that cannot be used
	validator   *validator               // metrics, and the benchmark
	checkpoints *checkpoint.Checkpointer // when the state was saved
	held        *checkpoint.Held         // the run directory; nil except on the main process
	records     *records.Recorder        // metrics, TensorBoard, progress; nil except on the main process
	state       checkpoint.State         // what a checkpoint holds besides tensors
}

// Options configure how a run is started or resumed.
type Options struct {
	Config  *config.Config
	Factory models.Factory
	Data    *dataset.Data // nil: the tables of the configuration
	Fresh   bool          // delete what is in the run directory, and start over
	Resume  bool          // fail if there is no checkpoint to resume from
	Force   bool          // resume although configuration, backbone or data differ

	Progress func(what string, total int64, unit string) dataset.Progress // nil: none
	Warn     func(text string)                                            // nil: none
	Note     func(text string)                                            // receives what is trained; nil: none

	Benchmark BenchmarkOpener // opens the benchmark of validate.by: benchmark; nil: such runs are refused

	// Strategy opens the strategy of several processes that divide the work; nil: this process trains alone. See
	// internal/trainer/distributed.
	Strategy StrategyOpener
}

// Result is what a finished run did.
type Result struct {
	Scorer     string                     `json:"scorer"` // the scorer directory
	Run        string                     `json:"run"`    // the run directory
	Trains     models.Trained             `json:"trains"`
	Resumed    int64                      `json:"resumed,omitempty"`
	Steps      int64                      `json:"steps"`
	Samples    int64                      `json:"samples"`          // edits seen
	Groups     int64                      `json:"groups,omitempty"` // groups seen, if the run keeps groups whole
	Early      bool                       `json:"early,omitempty"`  // ended by validate.patience
	Loss       records.Number             `json:"loss"`             // of the last step
	Seconds    float64                    `json:"seconds"`
	Validation *records.ValidationMetrics `json:"validation,omitempty"`
	Best       *records.ValidationMetrics `json:"best,omitempty"`
	BestScorer string                     `json:"best_scorer,omitempty"`
}

type silent struct{}

func (silent) Add(int64, string) {}

func (silent) Close() {}

func (o *Options) bar(what string, total int64, unit string) dataset.Progress {
	if o.Progress == nil {
		return silent{}
	}
	return o.Progress(what, total, unit)
}

func (o *Options) warn(text string) {
	if o.Warn != nil {
		o.Warn(text)
	}
}

// Train runs the training that the configuration describes, or resumes it from the newest checkpoint of the run
// directory. A cancelled ctx ends the run after the current step with the state saved and an error that wraps
// exit.ErrInterrupted.
//
// With Options.Strategy every process makes this call. The main process writes the results; the run directory must be
// the same for all.
func Train(ctx context.Context, o Options) (result *Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &Trainer{config: o.Config, data: o.Data, strategy: single{}}
	here := config.OnDevice(o.Config, o.Config.Ranks, 0)
	if o.Strategy != nil {
		if t.strategy, err = o.Strategy(o.Config, cancel); err != nil {
			return nil, err
		}
		defer func() { t.strategy.Close(err) }()
		if !t.strategy.Main() {
			o.Progress, o.Note, o.Warn = nil, nil, t.strategy.Warn
		}
		processes, local := t.strategy.Place()
		here = config.OnDevice(o.Config, processes, local)
	}
	s := &setup{Trainer: t, o: &o, here: here}
	defer func() { err = exit.Join(err, s.close()) }()
	defer func() { s.tracker.Close(ctx, trackedStatus(result, err)) }()
	if err := s.run(ctx); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	if err := t.loop(ctx); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	if err := t.strategy.Same(fmt.Sprintf("parameters after step %d", t.state.Step), t.optimizer.Digest); err != nil {
		return nil, err
	}
	if err := t.write(t.config.ResultPath()); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	if t.strategy.Main() {
		if err := t.report(); err != nil { // not fatal: the scorer is written
			o.warn(fmt.Sprintf("%s: %v", report.File, err))
		}
		if o.Note != nil && t.config.Reports(config.ReportWandB) {
			o.Note("for Weights & Biases: python -m assay_reward.wandb_run " + t.config.Out)
		}
	}
	return s.result(), nil
}

// report writes the HTML report of the run, with edits from the last validation.
func (t *Trainer) report() error {
	r, err := report.Read(t.config.Out)
	if err != nil {
		return err
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	r.Finished = true
	r.Facts = append(r.Facts, report.Fact{Name: "memory", Value: fmt.Sprintf("%.2f GB of CPU memory at peak",
		float64(used.Maxrss)*1024/1e9)})
	if err := r.Choose(func(row int) (*edit.Edit, error) {
		e, err := t.data.Validation.Example(row)
		return &e.Edit, err
	}); err != nil {
		return err
	}
	return r.Write()
}

// loop runs steps until all are done. When ctx ends, it finishes the current step, saves, and returns ctx's error.
// Rows that a step cannot use are quarantined, and the step is retried without them.
func (t *Trainer) loop(ctx context.Context) error {
	defer t.loader.Discard()
	s := &t.state
	for {
		if t.validator.due(s, t.loader) {
			if err := t.validate(ctx); err != nil {
				return t.stop(ctx, err)
			}
		}
		if s.Step >= t.loader.Steps || s.Exhausted(t.config.Validate.Patience) {
			return t.stop(ctx, nil)
		}
		if err := t.strategy.Agree(fmt.Sprintf("after step %d", s.Step), ctx.Err()); err != nil {
			return t.stop(ctx, err)
		}
		failed, err := t.step(context.WithoutCancel(ctx))
		if err != nil {
			t.loader.Discard() // the rows of the next batch may change
			if err := t.quarantine.setAside(failed, false, s.Step+1, err); err != nil {
				return t.fail(err)
			}
			continue
		}
		if err := t.saveIfDue(); err != nil {
			return err
		}
	}
}

// validate measures the current model, and saves it if it is the best so far.
func (t *Trainer) validate(ctx context.Context) error {
	best := filepath.Join(t.config.Out, config.BestDir)
	if err := t.validator.validate(ctx, &t.state, func() error { return t.write(best) }); err != nil {
		return err
	}
	if err := t.records.Validation(t.state.Last); err != nil {
		return err
	}
	t.state.Validated = t.state.Step
	return nil
}

// saveIfDue writes a checkpoint if one is due.
func (t *Trainer) saveIfDue() (err error) {
	c := &t.config.Checkpoint
	due := t.checkpoints.Due(c, t.state.Step)
	if c.Minutes > 0 { // if all processes write it, the main one checks its clock
		due, err = t.strategy.Due(due)
	}
	if err != nil || !due {
		return err
	}
	return t.save()
}

// save writes a checkpoint of parameters, moments and state.
func (t *Trainer) save() error {
	s := &t.state
	write := func(tensors []checkpoint.Slice, each func(put checkpoint.Putter) error) (err error) {
		if err := t.held.Check(); err != nil {
			return err
		}
		if s.Metrics, s.Events, s.EventsFile, err = t.records.Sync(); err != nil {
			return err
		}
		s.Updates, s.Seconds = t.optimizer.Groups.Updates(), s.Elapsed()
		return checkpoint.Write(t.config, s, tensors, each)
	}
	err := t.strategy.Save(t.optimizer, write)
	if err == nil {
		t.checkpoints = &checkpoint.Checkpointer{Step: s.Step, Time: time.Now()}
	}
	return err
}

// fail saves the state before returning an error. The failed step changed nothing, so that the run can resume from
// there.
func (t *Trainer) fail(err error) error {
	var lost *checkpoint.InconsistentError
	if errors.As(err, &lost) || t.state.Step == t.checkpoints.Step || !t.strategy.Knows(err) {
		return err
	}
	if saving := t.save(); saving != nil {
		return errors.Join(err, saving)
	}
	return fmt.Errorf("%w\n%d steps are saved in %s: run the same command to resume", err, t.state.Step, t.config.Out)
}

// stop saves at the end, after an interrupt, and after an error.
func (t *Trainer) stop(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		return t.fail(err)
	}
	return cmp.Or(t.save(), err)
}

// write writes the trained model into a folder of the run directory.
func (t *Trainer) write(dir string) error {
	var err error
	if t.strategy.Main() {
		err = checkpoint.ReplaceDir(dir, func(dir string) error { return writeScorer(t, dir) })
	}
	return t.strategy.Agree("writing "+filepath.Base(dir), err)
}

// interrupted adds the step reached to the error of a run that ctx ended.
func (t *Trainer) interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) || t.checkpoints == nil {
		return err
	}
	var steps int64
	if t.loader != nil {
		steps = t.loader.Steps
	}
	ended := fmt.Errorf("%w after step %d of %d in %s: run the same command to resume", exit.ErrInterrupted,
		t.checkpoints.Step, steps, t.config.Out)
	return t.strategy.Rephrase(err, ended)
}
