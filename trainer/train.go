// Package trainer trains scorers. Train brings a run to its first step (setup), or to that of the checkpoint that it
// resumes from, and then loops: a batch is loaded, its micro-batches run forward and backward, their gradients are summed
// and clipped, the optimizer updates the parameters, and validation, checkpoint and metrics follow where they are due.
//
// The parts are packages below this one: config, dataset, objective, models, optimizer, checkpoint, records. What
// several processes do together is behind Strategy; trainer/distributed is the one of MPI jobs.
package trainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/exit"
	"assay/optim"
	"assay/trainer/checkpoint"
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/models"
	"assay/trainer/objective"
	"assay/trainer/optimizer"
	"assay/trainer/records"
)

// Trainer is one run: its parts, each with a state of its own. step.go is what it does.
type Trainer struct {
	config      *config.Config
	model       models.Model
	data        *dataset.Data            // rows to learn from, rows to validate on
	loader      *dataset.Loader          // batches in the order of the run
	objective   *objective.Objective     // what the terms of the loss compare
	optimizer   *optimizer.Optimizer     // parameters, gradients, moments, learning rates
	strategy    Strategy                 // how processes divide the work
	benchmark   Benchmark                // of validate.by; nil: none
	checkpoints *checkpoint.Checkpointer // when the state is saved, and where
	records     *records.Recorder        // metrics, TensorBoard, progress
	state       checkpoint.State         // what a checkpoint holds besides tensors
	trains      models.Trained           // what the run trains, for people
	searched    bool                     // the weights were searched for values that are not finite
}

// Options say how a run is begun or resumed.
type Options struct {
	Config  *config.Config
	Factory models.Factory
	Data    *dataset.Data // nil: the tables of the configuration
	Fresh   bool          // remove what is in the run directory, and begin anew
	Resume  bool          // it is an error if there is no checkpoint to resume from
	Force   bool          // resume although configuration, backbone or data differ

	Progress func(what string, total int64, unit string) dataset.Progress // nil: none
	Warn     func(text string)                                            // nil: none
	Note     func(text string)                                            // says what is trained; nil: none

	Benchmark BenchmarkOpener // opens what validate.by: benchmark names; nil: such runs are refused

	// Strategy begins the training of several processes, which divide the work; nil: this one trains alone. See
	// trainer/distributed.
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
	Groups     int64                      `json:"groups,omitempty"` // whole groups seen, if the run keeps them whole
	Early      bool                       `json:"early,omitempty"`  // ended by validate.patience
	Loss       records.Number             `json:"loss"`             // of the last step
	Seconds    float64                    `json:"seconds"`
	Validation *records.ValidationMetrics `json:"validation,omitempty"`
	Best       *records.ValidationMetrics `json:"best,omitempty"`
	BestScorer string                     `json:"best_scorer,omitempty"`
}

type silent struct{}

func (silent) Add(int64, string) {}
func (silent) Close()            {}

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
// directory. A cancelled ctx ends the run after the present step with the state saved and an error that wraps
// exit.ErrInterrupted.
//
// With Options.Strategy every process makes this call. The first one writes and returns the Result, whatever the others do;
// the run directory must be the same for all.
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
	if err := s.run(ctx); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	if err := t.train(ctx); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	if err := t.strategy.Same(fmt.Sprintf("parameters after step %d", t.state.Step), t.optimizer.Digest); err != nil {
		return nil, err
	}
	if err := t.write(t.config.ResultPath()); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	return t.result(s.old), nil
}

// interrupted makes the error of a run that ctx ended say where it stands.
func (t *Trainer) interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) || t.checkpoints == nil {
		return err
	}
	var steps int64
	if t.loader != nil {
		steps = t.loader.Steps
	}
	ended := fmt.Errorf("%w after step %d of %d in %s: the same command goes on from there", exit.ErrInterrupted,
		t.checkpoints.Step, steps, t.config.Out)
	return t.strategy.Rephrase(err, ended)
}

// setup brings a run to its first step.
type setup struct {
	*Trainer
	o       *Options
	here    *config.Config    // for the device of this process
	old     *checkpoint.State // of the checkpoint that the run resumes from; nil: it begins
	dir     string            // that checkpoint
	closers []func() error
}

func (s *setup) close() (err error) {
	for _, c := range slices.Backward(s.closers) {
		err = exit.Join(err, c())
	}
	return err
}

// stage is a part of the setup. An error of one process is that of all.
type stage struct {
	what string // "": all processes have the same error anyway
	do   func() error
}

// run goes through the stages.
func (s *setup) run(ctx context.Context) error {
	t, o, main := s.Trainer, s.o, s.strategy.Main()
	onMain := func(do func() error) func() error { // on the main process alone
		return func() error {
			if !main {
				return nil
			}
			return do()
		}
	}
	fresh := func() bool { return s.old == nil }
	for _, stage := range []stage{
		{"reading the tables", s.openData},
		{"taking the run directory", onMain(s.claim)},
		{"opening the benchmark", func() error { t.checkpoints = &checkpoint.Checkpointer{}; return t.openBenchmark(o.Benchmark) }},
		{"looking for a checkpoint", onMain(s.findCheckpoint)},
		{"", s.shareCheckpoint},
		{"opening the model", func() error { return s.openModel(ctx) }},
		{"describing the run", t.describe},
		{"", func() error { s.announce(); return t.sameRun(o) }},
		{"comparing with the checkpoint", func() error { return s.compare(main) }},
		{"checking the rows", func() error { return t.checkRows(ctx, o, fresh()) }},
		{"reading the checkpoint", s.restore},
		{"", t.sameRows},
		{"making the order", t.order},
		{"looking at what is compared", func() error { return t.checkComparable(o.Warn) }},
		{"beginning the run directory", onMain(func() error { return t.occupy(o, fresh()) })},
		{"hidden states", func() error { return t.prepare(ctx, o) }},
		{"choosing a micro-batch", func() error { return t.chooseMicroBatch(ctx) }},
		{"", s.beginClock},
		{"opening the records", onMain(s.openRecords)},
	} {
		err := stage.do()
		if stage.what != "" {
			err = t.strategy.Agree(stage.what, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) openData() (err error) {
	if s.data != nil {
		return nil
	}
	if s.data, err = dataset.Open(s.config); err == nil {
		s.closers = append(s.closers, func() error { s.data.Close(); return nil })
	}
	return err
}

// claim takes the run directory for the job, and tidies it.
func (s *setup) claim() error {
	out := s.config.Out
	if err := os.MkdirAll(out, 0o777); err != nil {
		return fmt.Errorf("the run directory %s: %w", out, err)
	}
	unlock, err := checkpoint.Lock(out)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { unlock(); return nil })
	if err := checkpoint.Tidy(out); err != nil {
		return fmt.Errorf("the run directory %s: %w", out, err)
	}
	return nil
}

// findCheckpoint looks for a checkpoint to resume from.
func (s *setup) findCheckpoint() error {
	if s.o.Fresh {
		return nil
	}
	old, dir, problem, err := checkpoint.Find(s.config.Out)
	if err != nil {
		return fmt.Errorf("%w; repair it, or begin anew with --fresh", err)
	}
	if problem != nil {
		s.o.warn(fmt.Sprintf("%v; going on from %s", problem, filepath.Base(dir)))
	}
	if old == nil && s.o.Resume {
		return exit.Usagef("--resume: there is no checkpoint in %s", filepath.Join(s.config.Out, config.CheckpointsDir))
	}
	s.old, s.dir = old, dir
	return nil
}

// shareCheckpoint makes the checkpoint that the main process found that of all.
func (s *setup) shareCheckpoint() error {
	found := struct {
		Old *checkpoint.State
		Dir string
	}{s.old, s.dir}
	err := s.strategy.Share("the checkpoint's state", &found)
	if s.old, s.dir = found.Old, found.Dir; err == nil && s.old != nil {
		config.KeepSchedules(s.config, s.old.Config, s.o.warn)
	}
	return err
}

// openModel makes the model, and the optimizer of its parameters.
func (s *setup) openModel(ctx context.Context) (err error) {
	t := s.Trainer
	if t.model, err = s.o.Factory(ctx, s.here); err != nil {
		return err
	}
	s.closers = append(s.closers, t.model.Close)
	if w, ok := t.model.(interface{ Warn(func(text string)) }); ok {
		w.Warn(s.o.Warn)
	}
	params := t.model.Params()
	if err := optim.Check(params); err != nil {
		return err
	}
	t.optimizer, err = optimizer.New(s.config, t.model, params, t.strategy.Shard(params))
	return err
}

// announce says what will be trained.
func (s *setup) announce() {
	note := s.o.Note
	if note == nil {
		return
	}
	note("trains " + s.trains.String())
	for _, text := range s.trains.Ways {
		note(text)
	}
	for _, g := range s.trains.Groups {
		note(g.String())
	}
	if s.config.Init != "" {
		note("goes on from " + s.config.Init)
	}
	for _, d := range s.trains.Departures {
		note("changes what that says: " + d)
	}
}

// compare makes sure that the run can resume from the checkpoint or, without one, overwrites nothing.
func (s *setup) compare(main bool) error {
	if s.old != nil {
		return s.Trainer.compare(s.old, s.dir, s.o)
	}
	if !main {
		return nil
	}
	return s.checkVacant(s.o)
}

// restore reads the checkpoint, if there is one.
func (s *setup) restore() error {
	s.optimizer.MakeGrads()
	if s.old == nil {
		return nil
	}
	here := s.optimizer.Tensors()
	n, err := s.strategy.Tensors(here)
	if err != nil {
		return err
	}
	if err := s.optimizer.Restore(s.dir, here, n, s.old.Updates); err != nil {
		return err
	}
	s.adopt(s.old)
	return nil
}

// order makes the batches, which the schedule depends on, too.
func (t *Trainer) order() (err error) {
	t.loader, err = dataset.NewLoader(t.config, t.data.Train, t.state.Step, t.state.Samples)
	if err != nil {
		return err
	}
	t.objective = objective.New(t.config.Losses, t.loader.Groups)
	if t.optimizer != nil { // a plan has none
		t.optimizer.Steps = t.loader.Steps
	}
	return nil
}

// occupy writes what a run directory has from its beginning. A run that is refused for its tables or configuration has
// been by now: it leaves the directory as it was.
func (t *Trainer) occupy(o *Options, fresh bool) error {
	if fresh {
		if err := checkpoint.RemoveRun(t.config.Out); err != nil {
			return fmt.Errorf("clearing the run directory: %w", err)
		}
	}
	if bad := t.data.BadRows(); len(bad) > 0 {
		o.warn(fmt.Sprintf("%d rows cannot be used and are set aside: %s lists them", len(bad),
			filepath.Join(t.config.Out, dataset.BadRowsFile)))
	}
	if err := t.data.SaveRows(t.config.Out, fresh); err != nil {
		return err
	}
	return checkpoint.WriteConfig(t.config)
}

// beginClock shares the micro-batch, warns, and begins to count time.
func (s *setup) beginClock() (err error) {
	t, batch := s.Trainer, s.config.BatchSize
	warnings := slices.Concat(models.UndigestedInit(s.config), s.data.Warnings)
	for _, text := range warnings {
		if s.strategy.Main() {
			s.o.warn(text)
		}
	}
	if t.loader.Groups != nil {
		batch = 0
	}
	if t.state.MicroBatch, err = t.strategy.MicroBatch(t.state.MicroBatch, batch, s.o.warn); err != nil {
		return err
	}
	t.loader.MicroBatch = t.state.MicroBatch
	if _, alone := t.strategy.(single); alone { // several processes prepare their own micro-batches as they come
		t.loader.Prefetches(t.model)
	}
	t.state.Begin()
	t.checkpoints = &checkpoint.Checkpointer{Step: t.state.Step, Time: time.Now()}
	return nil
}

// openRecords opens what a run writes as it goes.
func (s *setup) openRecords() (err error) {
	t := s.Trainer
	if err := t.writePlan(); err != nil {
		return err
	}
	t.records, err = records.New(t.config.Out, t.state.EventsFile, t.state.Metrics, t.state.Events)
	if err != nil {
		return err
	}
	unit := "samples"
	if t.loader.Groups != nil {
		unit = "groups"
	}
	t.records.Progress = s.o.bar("train", t.loader.Limit-t.state.Samples, unit)
	s.closers = append(s.closers, t.records.Close)
	return nil
}

// write puts what was trained into a folder of the run directory.
func (t *Trainer) write(dir string) error {
	var err error
	if t.strategy.Main() {
		err = checkpoint.ReplaceDir(dir, t.writeScorer)
	}
	return t.strategy.Agree("writing "+filepath.Base(dir), err)
}

// result says what a finished run did.
func (t *Trainer) result(old *checkpoint.State) *Result {
	s := &t.state
	result := &Result{Scorer: t.config.ResultPath(), Trains: t.trains, Run: t.config.Out, Steps: s.Step,
		Samples: s.Seen(t.loader.Groups != nil), Early: t.early(), Seconds: s.Seconds, Validation: s.Last, Best: s.Best}
	if t.loader.Groups != nil {
		result.Groups = s.Samples
	}
	if old != nil {
		result.Resumed = old.Step
	}
	if s.Train != nil {
		result.Loss = s.Train.Loss
	}
	if s.Best != nil {
		result.BestScorer = filepath.Join(t.config.Out, config.BestDir)
	}
	return result
}

// prepare shows all examples to a model that wants to see them before the run. Of several processes each prepares a
// share first: what one computes all find in the store.
func (t *Trainer) prepare(ctx context.Context, o *Options) error {
	p, ok := t.model.(models.Preparer)
	if !ok {
		return nil
	}
	c := t.config
	total := int64(t.data.Train.Len()*len(c.Question)*len(c.Answer) + t.data.Validation.Len())
	bar := o.bar("hidden states", total, "samples")
	defer bar.Close()
	examples := func(mine func(i int) bool) func(yield func(dataset.Example, error) bool) {
		return func(yield func(dataset.Example, error) bool) {
			i := -1
			some := func(e dataset.Example, err error) bool {
				i++
				return !mine(i) || yield(e, err)
			}
			_ = t.eachPrompt(t.data.Train, c.Question, c.Answer, some) &&
				t.eachPrompt(t.data.Validation, c.Question[:1], c.Answer[:1], some)
		}
	}
	if _, alone := t.strategy.(single); !alone {
		err := p.Prepare(ctx, examples(t.strategy.Mine), func(int) {})
		if err := t.strategy.Agree("computing hidden states", err); err != nil {
			return err
		}
	}
	return p.Prepare(ctx, examples(func(int) bool { return true }), func(n int) { bar.Add(int64(n), "") })
}

// eachPrompt yields every sample with every pair of templates. It is false when the consumer wants no more.
func (t *Trainer) eachPrompt(s dataset.Examples, questions, answers []string, yield func(dataset.Example, error) bool) bool {
	for i := range s.Len() {
		if !dataset.Usable(s, i) {
			continue
		}
		e, err := s.Example(i)
		if err != nil {
			return yield(e, err)
		}
		for _, e.Question = range questions {
			for _, e.Answer = range answers {
				if !yield(e, nil) {
					return false
				}
			}
		}
	}
	return true
}

// chooseMicroBatch resolves auto once per run: a resumed one keeps the number, since other micro-batches round their
// sums otherwise.
func (t *Trainer) chooseMicroBatch(ctx context.Context) error {
	batch := t.config.BatchSize
	n := int(t.config.MicroBatch)
	if t.config.MicroBatch == config.Auto {
		if n = t.state.MicroBatch; n == 0 {
			n = batch
			if p, ok := t.model.(models.Planner); ok {
				plan, err := t.plan(ctx, p)
				if err != nil {
					return err
				}
				n = plan.MicroBatch
			}
		}
	}
	t.state.MicroBatch = min(max(n, 1), batch)
	return nil
}
