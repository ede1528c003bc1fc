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
)

// Trainer is one run: its parts, each with a state of its own. step.go is what it does.
type Trainer struct {
	config      *Config
	model       Model
	data        *Data         // rows to learn from, rows to validate on
	loader      *Loader       // batches in the order of the run
	objective   *objective    // what the terms of the loss compare
	optimizer   *optimizer    // parameters, gradients, moments, learning rates
	strategy    strategy      // how processes divide the work
	benchmark   Benchmark     // of validate.by; nil: none
	checkpoints *checkpointer // when the state is saved, and where
	records     *recorder     // metrics, TensorBoard, progress
	state       state         // what a checkpoint holds besides tensors
	trains      Trained       // what the run trains, for people
}

// Options say how a run is begun or resumed.
type Options struct {
	Config  *Config
	Factory Factory
	Data    *Data // nil: the tables of the configuration
	Fresh   bool  // remove what is in the run directory, and begin anew
	Resume  bool  // it is an error if there is no checkpoint to resume from
	Force   bool  // resume although configuration, backbone or data differ

	Progress func(what string, total int64, unit string) Progress // nil: none
	Warn     func(text string)                                    // nil: none
	Note     func(text string)                                    // says what is trained; nil: none

	Benchmark BenchmarkOpener // opens what validate.by: benchmark names; nil: such runs are refused

	Ranks Ranks // the processes that train together, this one among them; nil: it trains alone
}

// Result is what a finished run did.
type Result struct {
	Scorer     string             `json:"scorer"` // the scorer directory
	Run        string             `json:"run"`    // the run directory
	Trains     Trained            `json:"trains"`
	Resumed    int64              `json:"resumed,omitempty"`
	Steps      int64              `json:"steps"`
	Samples    int64              `json:"samples"`          // edits seen
	Groups     int64              `json:"groups,omitempty"` // whole groups seen, if the run keeps them whole
	Early      bool               `json:"early,omitempty"`  // ended by validate.patience
	Loss       Number             `json:"loss"`             // of the last step
	Seconds    float64            `json:"seconds"`
	Validation *ValidationMetrics `json:"validation,omitempty"`
	Best       *ValidationMetrics `json:"best,omitempty"`
	BestScorer string             `json:"best_scorer,omitempty"`
}

type silent struct{}

func (silent) Add(int64, string) {}
func (silent) Close()            {}

func (o *Options) bar(what string, total int64, unit string) Progress {
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
// With Options.Ranks every rank makes this call. The first one writes and returns the Result, whatever the others do;
// the run directory must be the same for all.
func Train(ctx context.Context, o Options) (result *Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &Trainer{config: o.Config, data: o.Data, strategy: single{}}
	here := onDevice(o.Config, o.Config.Ranks, 0)
	if o.Ranks != nil && o.Ranks.Size() > 1 {
		k, failed := newRanks(&o, cancel)
		if failed != nil {
			return nil, failed
		}
		defer func() { k.close(err) }()
		t.strategy, here = k, onDevice(o.Config, k.Size(), k.Local())
	}
	s := &setup{Trainer: t, o: &o, here: here}
	defer func() { err = errorsOf(err, s.close()) }()
	if err := s.run(ctx); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	if err := t.train(ctx); err != nil {
		return nil, t.interrupted(ctx, err)
	}
	if err := t.strategy.same(fmt.Sprintf("parameters after step %d", t.state.Step), t.optimizer.digest); err != nil {
		return nil, err
	}
	if err := t.write(t.config.resultPath()); err != nil {
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
		t.checkpoints.step, steps, t.config.Out)
	if Agreed(err) {
		return &agreedError{ended}
	}
	return ended
}

// errorsOf joins an error with one of tidying up. (errors.Join would hide the list of problems of the first even if
// there is no second.)
func errorsOf(err, second error) error {
	if second == nil {
		return err
	}
	return errors.Join(err, second)
}

// setup brings a run to its first step.
type setup struct {
	*Trainer
	o       *Options
	here    *Config // for the device of this process
	old     *state  // of the checkpoint that the run resumes from; nil: it begins
	dir     string  // that checkpoint
	closers []func() error
}

func (s *setup) close() (err error) {
	for _, c := range slices.Backward(s.closers) {
		err = errorsOf(err, c())
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
	t, o, main := s.Trainer, s.o, s.strategy.main()
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
		{"opening the benchmark", func() error { t.checkpoints = &checkpointer{}; return t.openBenchmark(o.Benchmark) }},
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
			err = t.strategy.agree(stage.what, err)
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
	if s.data, err = OpenData(s.config); err == nil {
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
	unlock, err := lock(out)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { unlock(); return nil })
	if err := tidy(out); err != nil {
		return fmt.Errorf("the run directory %s: %w", out, err)
	}
	return nil
}

// findCheckpoint looks for a checkpoint to resume from.
func (s *setup) findCheckpoint() error {
	if s.o.Fresh {
		return nil
	}
	old, dir, problem, err := findState(s.config.Out)
	if err != nil {
		return fmt.Errorf("%w; repair it, or begin anew with --fresh", err)
	}
	if problem != nil {
		s.o.warn(fmt.Sprintf("%v; going on from %s", problem, filepath.Base(dir)))
	}
	if old == nil && s.o.Resume {
		return exit.Usagef("--resume: there is no checkpoint in %s", filepath.Join(s.config.Out, CheckpointsDir))
	}
	s.old, s.dir = old, dir
	return nil
}

// shareCheckpoint makes the checkpoint that the main process found that of all.
func (s *setup) shareCheckpoint() error {
	found := struct {
		Old *state
		Dir string
	}{s.old, s.dir}
	err := s.strategy.share("the checkpoint's state", &found)
	if s.old, s.dir = found.Old, found.Dir; err == nil {
		keepSchedules(s.config, s.old, s.o.warn)
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
	t.optimizer, err = newOptimizer(s.config, t.model, params, t.strategy.shard(params))
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
	s.optimizer.makeGrads()
	if s.old == nil {
		return nil
	}
	if err := s.optimizer.restore(s.dir, s.old, s.strategy); err != nil {
		return err
	}
	s.adopt(s.old)
	return nil
}

// order makes the batches, which the schedule depends on, too.
func (t *Trainer) order() (err error) {
	t.loader, err = NewLoader(t.config, t.data.Train, t.state.Step, t.state.Samples)
	if err != nil {
		return err
	}
	t.objective = &objective{t.config.Losses, t.loader.Groups}
	if t.optimizer != nil { // a plan has none
		t.optimizer.steps = t.loader.Steps
	}
	return nil
}

// occupy writes what a run directory has from its beginning. A run that is refused for its tables or configuration has
// been by now: it leaves the directory as it was.
func (t *Trainer) occupy(o *Options, fresh bool) error {
	if fresh {
		if err := removeRun(t.config.Out); err != nil {
			return fmt.Errorf("clearing the run directory: %w", err)
		}
	}
	if bad := t.data.BadRows(); len(bad) > 0 {
		o.warn(fmt.Sprintf("%d rows cannot be used and are set aside: %s lists them", len(bad),
			filepath.Join(t.config.Out, BadRowsFile)))
	}
	if err := t.data.SaveRows(t.config.Out, fresh); err != nil {
		return err
	}
	return writeConfig(t.config)
}

// beginClock shares the micro-batch, warns, and begins to count time.
func (s *setup) beginClock() (err error) {
	t, batch := s.Trainer, s.config.BatchSize
	warnings := slices.Concat(s.config.undigestedInit(), s.data.Warnings)
	for _, text := range warnings {
		if s.strategy.main() {
			s.o.warn(text)
		}
	}
	if t.loader.Groups != nil {
		batch = 0
	}
	if t.state.MicroBatch, err = t.strategy.microBatch(t.state.MicroBatch, batch, s.o.warn); err != nil {
		return err
	}
	t.loader.MicroBatch = t.state.MicroBatch
	if _, alone := t.strategy.(single); alone { // several processes prepare their own micro-batches as they come
		t.loader.Prefetches(t.model)
	}
	t.state.began, t.state.before = time.Now(), t.state.Seconds
	t.checkpoints = &checkpointer{step: t.state.Step, time: time.Now()}
	return nil
}

// openRecords opens what a run writes as it goes.
func (s *setup) openRecords() (err error) {
	t := s.Trainer
	if err := t.writePlan(); err != nil {
		return err
	}
	t.records, err = newRecorder(t.config.Out, t.state.EventsFile, t.state.Metrics, t.state.Events)
	if err != nil {
		return err
	}
	unit := "samples"
	if t.loader.Groups != nil {
		unit = "groups"
	}
	t.records.progress = s.o.bar("train", t.loader.Limit-t.state.Samples, unit)
	s.closers = append(s.closers, t.records.close)
	return nil
}

// write puts what was trained into a folder of the run directory.
func (t *Trainer) write(dir string) error {
	var err error
	if t.strategy.main() {
		err = replaceDir(dir, t.writeScorer)
	}
	return t.strategy.agree("writing "+filepath.Base(dir), err)
}

// result says what a finished run did.
func (t *Trainer) result(old *state) *Result {
	s := &t.state
	result := &Result{Scorer: t.config.resultPath(), Trains: t.trains, Run: t.config.Out, Steps: s.Step,
		Samples: s.seen(t.loader), Early: t.early(), Seconds: s.Seconds, Validation: s.Last, Best: s.Best}
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
		result.BestScorer = filepath.Join(t.config.Out, BestDir)
	}
	return result
}

// prepare shows all examples to a model that wants to see them before the run. Of several processes each prepares a
// share first: what one computes all find in the store.
func (t *Trainer) prepare(ctx context.Context, o *Options) error {
	p, ok := t.model.(Preparer)
	if !ok {
		return nil
	}
	c := t.config
	total := int64(t.data.Train.Len()*len(c.Question)*len(c.Answer) + t.data.Validation.Len())
	bar := o.bar("hidden states", total, "samples")
	defer bar.Close()
	examples := func(mine func(i int) bool) func(yield func(Example, error) bool) {
		return func(yield func(Example, error) bool) {
			i := -1
			some := func(e Example, err error) bool {
				i++
				return !mine(i) || yield(e, err)
			}
			_ = t.eachPrompt(t.data.Train, c.Question, c.Answer, some) &&
				t.eachPrompt(t.data.Validation, c.Question[:1], c.Answer[:1], some)
		}
	}
	if _, alone := t.strategy.(single); !alone {
		err := p.Prepare(ctx, examples(t.strategy.mine), func(int) {})
		if err := t.strategy.agree("computing hidden states", err); err != nil {
			return err
		}
	}
	return p.Prepare(ctx, examples(func(int) bool { return true }), func(n int) { bar.Add(int64(n), "") })
}

// eachPrompt yields every sample with every pair of templates. It is false when the consumer wants no more.
func (t *Trainer) eachPrompt(s Examples, questions, answers []string, yield func(Example, error) bool) bool {
	for i := range s.Len() {
		if !usable(s, i) {
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
	if t.config.MicroBatch == Auto {
		if n = t.state.MicroBatch; n == 0 {
			n = batch
			if p, ok := t.model.(Planner); ok {
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
