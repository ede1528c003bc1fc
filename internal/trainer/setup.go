package trainer

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/exit"
	"assay/internal/jsonfile"
	"assay/internal/optim"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/mlflow"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
	"assay/internal/trainer/optimizer"
	"assay/internal/trainer/records"
)

// setup brings a run to its first step.
type setup struct {
	*Trainer
	o       *Options
	here    *config.Config    // for the device of this process
	old     *checkpoint.State // state of the checkpoint that the run resumes from; nil: a new run
	dir     string            // folder of that checkpoint
	trains  models.Trained    // what the run trains, for the user
	mlflow  *mlflow.Settings  // nil: nothing is sent to MLflow
	tracker *mlflow.Tracker   // sends the records to MLflow; nil: off
	closers []func() error
}

func (s *setup) close() (err error) {
	for _, c := range slices.Backward(s.closers) {
		err = exit.Join(err, c())
	}
	return err
}

// stage is a part of the setup. An error in one process ends all of them.
type stage struct {
	what string // "": all processes have the same error anyway
	do   func() error
}

// run runs the stages in order.
func (s *setup) run(ctx context.Context) error {
	main := s.strategy.Main()
	onMain := func(do func() error) func() error { // on the main process only
		return func() error {
			if !main {
				return nil
			}
			return do()
		}
	}
	for _, stage := range []stage{
		{"reading MLflow's settings", onMain(s.readTracking)},
		{"reading the tables", s.openData},
		{"locking the run directory", onMain(s.claim)},
		{"opening the benchmark", s.openBenchmark},
		{"looking for a checkpoint", onMain(s.findCheckpoint)},
		{"tidying the run directory", onMain(s.tidy)}, // if it is one
		{"", s.shareCheckpoint},
		{"opening the model", func() error { return s.open(ctx) }},
		{"describing the run", s.describe},
		{"", func() error { s.announce(); return s.sameRun() }},
		{"comparing with the checkpoint", func() error { return s.compare(main) }},
		{"checking the rows", func() error { return s.quarantine.check(ctx, s.o, s.old == nil) }},
		{"reading the checkpoint", s.restore},
		{"", s.sameRows},
		{"ordering the samples", s.order},
		{"checking the comparisons", func() error { return s.checkComparable(s.o.Warn) }},
		{"preparing the run directory", onMain(s.occupy)},
		{"hidden states", func() error { return s.prepare(ctx) }},
		{"choosing a micro-batch", func() error { return s.chooseMicroBatch(ctx) }},
		{"", s.beginClock},
		{"opening the records", onMain(s.openRecords)},
	} {
		err := stage.do()
		if stage.what != "" {
			err = s.strategy.Agree(stage.what, err)
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

// claim locks the run directory for this job.
func (s *setup) claim() error {
	out := s.config.Out
	if err := os.MkdirAll(out, 0o777); err != nil {
		return fmt.Errorf("the run directory %s: %w", out, err)
	}
	held, err := checkpoint.Lock(out)
	if err != nil {
		return err
	}
	s.held = held
	s.closers = append(s.closers, func() error { held.Close(); return nil })
	return nil
}

// tidy removes what a process left in the run directory that ended while it wrote.
func (s *setup) tidy() error {
	if err := checkpoint.Tidy(s.config.Out); err != nil {
		return fmt.Errorf("the run directory %s: %w", s.config.Out, err)
	}
	return nil
}

// openBenchmark opens the data of the benchmark that validate.by names. From here on the error of an interrupted run
// names the step that it reached.
func (s *setup) openBenchmark() (err error) {
	s.checkpoints = &checkpoint.Checkpointer{}
	s.validator = &validator{config: s.config, data: s.data, strategy: s.strategy}
	s.validator.benchmark, err = openBenchmark(s.config.Validate.Benchmark, s.o.Benchmark)
	return err
}

// openModel opens the model, and creates what depends on it.
func (s *setup) openModel(ctx context.Context) (err error) {
	if kept := kernels(s.here, s.old); kept != s.here.DeviceOptions.Kernels {
		here := *s.here
		here.DeviceOptions.Kernels, s.here = kept, &here
	}
	if s.model, err = s.o.Factory(ctx, s.here); err != nil {
		return err
	}
	s.closers = append(s.closers, s.model.Close)
	s.quarantine = newQuarantine(s.config, s.data, s.model, s.strategy)
	s.validator.model, s.validator.quarantine = s.model, s.quarantine
	s.trains = models.Describe(s.config, s.model)
	return nil
}

// kernels returns the kernels setting of a run. A run resumed on a GPU keeps the kernels that auto chose: others
// round differently.
func kernels(c *config.Config, old *checkpoint.State) string {
	want := c.DeviceOptions.Kernels
	if old == nil || (want != "" && want != "auto") || !models.OnCUDA(c) {
		return want
	}
	return cmp.Or(old.Kernels, "plain")
}

// makeOptimizer creates the optimizer for the model's parameters.
func (s *setup) makeOptimizer() (err error) {
	if w, ok := s.model.(interface{ Warn(func(text string)) }); ok {
		w.Warn(s.o.Warn)
	}
	params := s.model.Params()
	if err := optim.Check(params); err != nil {
		return err
	}
	s.optimizer, err = optimizer.New(s.config, s.model, params, s.strategy.Shard(params))
	s.validator.optimizer = s.optimizer
	return err
}

// open opens the model and creates its optimizer.
func (s *setup) open(ctx context.Context) error {
	if err := s.openModel(ctx); err != nil {
		return err
	}
	return s.makeOptimizer()
}

// onCUDA returns the model if its steps run on a GPU, or nil.
func (s *setup) onCUDA() models.Graph {
	if m, ok := s.model.(models.Graph); ok && strings.HasPrefix(m.Resolved()["device"], "cuda") {
		return m
	}
	return nil
}

// announce reports what will be trained.
func (s *setup) announce() {
	note := s.o.Note
	if note == nil {
		return
	}
	note("trains " + s.trains.String())
	if m := s.onCUDA(); m != nil {
		note("computes with " + m.Kernels().String() + " kernels")
	}
	for _, text := range s.trains.Ways {
		note(text)
	}
	for _, g := range s.trains.Groups {
		note(g.String())
	}
	if s.config.Init != "" {
		note("starts from " + s.config.Init)
	}
	for _, d := range s.trains.Departures {
		note("differs from init: " + d)
	}
}

// order sets up the batches, on which the learning rate schedule depends as well.
func (s *setup) order() (err error) {
	s.loader, err = dataset.NewLoader(s.config, s.data.Train, s.state.Step, s.state.Samples)
	if err != nil {
		return err
	}
	s.objective = objective.New(s.config.Losses, s.loader.Groups)
	if s.optimizer != nil { // a plan has none
		s.optimizer.Steps = s.loader.Steps
	}
	return nil
}

// checkComparable finds before the first step what would end a run later, or leave it with nothing to learn from. It
// warns (warn may be nil) of rows that the run does not learn from.
func (s *setup) checkComparable(warn func(text string)) error {
	if err := s.config.CheckSchedules(s.loader.Steps, warn); err != nil {
		return err
	}
	if train := s.data.Train; !train.Made() && len(s.config.Losses) > 0 {
		if err := train.CheckContrary("data.train", s.config.Compared()); err != nil {
			return err
		}
		if err := s.objective.CheckTerms(s.data, warn); err != nil {
			return err
		}
	}
	if valid := s.data.Validation; !valid.Made() {
		if err := valid.CheckContrary("data.validation", []string{""}); err != nil {
			return err
		}
		return s.validator.check(valid)
	}
	return nil
}

// occupy writes the initial files of a run directory. A run whose tables or configuration are refused has ended
// before this, and leaves the directory as it was.
func (s *setup) occupy() error {
	fresh := s.old == nil
	if fresh {
		if err := s.writePlan(); err != nil {
			return err
		}
		if err := checkpoint.RemoveRun(s.config.Out); err != nil {
			return fmt.Errorf("clearing the run directory: %w", err)
		}
	}
	if bad := s.data.BadRows(); len(bad) > 0 {
		s.o.warn(fmt.Sprintf("%d rows cannot be used and are set aside: %s lists them", len(bad),
			filepath.Join(s.config.Out, dataset.BadRowsFile)))
	}
	if err := s.data.SaveRows(s.config.Out, fresh); err != nil {
		return err
	}
	return checkpoint.WriteConfig(s.config)
}

// prepare passes all examples to a model that must see them before the run. If there are several processes, each
// prepares a share first: what one computes, all find in the store.
func (s *setup) prepare(ctx context.Context) error {
	p, ok := s.model.(models.Preparer)
	if !ok {
		return nil
	}
	c := s.config
	total := int64(s.data.Train.Len()*len(c.Question)*len(c.Answer) + s.data.Validation.Len())
	bar := s.o.bar("hidden states", total, "samples")
	defer bar.Close()
	examples := func(mine func(i int) bool) func(yield func(dataset.Example, error) bool) {
		return func(yield func(dataset.Example, error) bool) {
			i := -1
			some := func(e dataset.Example, err error) bool {
				i++
				return !mine(i) || yield(e, err)
			}
			_ = eachPrompt(s.data.Train, c.Question, c.Answer, some) &&
				eachPrompt(s.data.Validation, c.Question[:1], c.Answer[:1], some)
		}
	}
	if processes, _ := s.strategy.Place(); processes > 1 {
		err := p.Prepare(ctx, examples(s.strategy.Mine), func(int) {})
		if err := s.strategy.Agree("computing hidden states", err); err != nil {
			return err
		}
	}
	return p.Prepare(ctx, examples(func(int) bool { return true }), func(n int) { bar.Add(int64(n), "") })
}

// eachPrompt yields every sample with every pair of templates. It returns false once the consumer stops.
func eachPrompt(s *dataset.Samples, questions, answers []string, yield func(dataset.Example, error) bool) bool {
	for i := range s.Len() {
		if !s.Usable(i) {
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

// chooseMicroBatch resolves auto once per run: a resumed run keeps the number, since other micro-batches round their
// sums differently. Which layers are recomputed does not change a bit of the results, and is chosen again. A run on
// CUDA always plans, to reserve memory.
func (s *setup) chooseMicroBatch(ctx context.Context) error {
	batch := s.config.BatchSize
	n, resumed := int(s.config.MicroBatch), 0
	if s.config.MicroBatch == config.Auto {
		resumed = s.state.MicroBatch
		n = resumed
	}
	p, ok := s.model.(models.Planner)
	switch {
	case ok && (n == 0 || s.config.Recompute == config.RecomputeAuto || s.onCUDA() != nil):
		plan, err := s.plan(ctx, p, resumed)
		if err != nil {
			return err
		}
		n = plan.MicroBatch
	case n == 0:
		n = batch
	}
	s.state.MicroBatch = min(max(n, 1), batch)
	return nil
}

// beginClock agrees on the micro-batch, prints the warnings, and starts the clock.
func (s *setup) beginClock() (err error) {
	batch := s.config.BatchSize
	warnings := slices.Concat(models.UndigestedInit(s.config), s.warnings())
	for _, text := range warnings {
		if s.strategy.Main() {
			s.o.warn(text)
		}
	}
	if s.loader.Groups != nil {
		batch = 0
	}
	if s.state.MicroBatch, err = s.strategy.MicroBatch(s.state.MicroBatch, batch, s.o.warn); err != nil {
		return err
	}
	s.loader.MicroBatch = s.state.MicroBatch
	if processes, _ := s.strategy.Place(); processes == 1 { // several processes prepare their micro-batches as they come
		s.loader.Prefetches(s.model)
	}
	s.state.Begin()
	s.checkpoints = &checkpoint.Checkpointer{Step: s.state.Step, Time: time.Now()}
	return nil
}

// writePlan records what is trained, and what auto resolved to so far.
func (s *setup) writePlan() error {
	plan := models.Resolved{Trains: s.trains, MicroBatch: s.state.MicroBatch}
	if m, ok := s.model.(models.Graph); ok {
		plan.Auto = m.Resolved()
	}
	return jsonfile.Write(filepath.Join(s.config.Out, config.PlanFile), plan)
}

// openRecords opens the files that a run writes as it goes.
func (s *setup) openRecords() (err error) {
	if err := s.writePlan(); err != nil {
		return err
	}
	s.records, err = records.New(s.config.Out, s.state.EventsFile, s.state.Metrics, s.state.Events,
		!s.config.Reports(config.ReportNone))
	if err != nil {
		return err
	}
	unit := "samples"
	if s.loader.Groups != nil {
		unit = "groups"
	}
	s.records.Progress = s.o.bar("train", s.loader.Limit-s.state.Samples, unit)
	s.closers = append(s.closers, s.records.Close)
	return s.track()
}

// result returns what a finished run did.
func (s *setup) result() *Result {
	state := &s.state
	result := &Result{Scorer: s.config.ResultPath(), Trains: s.trains, Run: s.config.Out, Steps: state.Step,
		Samples: state.Seen(s.loader.Groups != nil), Early: endedEarly(s.Trainer), Seconds: state.Seconds,
		Validation: state.Last, Best: state.Best}
	if s.loader.Groups != nil {
		result.Groups = state.Samples
	}
	if s.old != nil {
		result.Resumed = s.old.Step
	}
	if state.Train != nil {
		result.Loss = state.Train.Loss
	}
	if state.Best != nil {
		result.BestScorer = filepath.Join(s.config.Out, config.BestDir)
	}
	return result
}

// endedEarly reports whether a run ended before its last step.
func endedEarly(t *Trainer) bool {
	return t.state.Exhausted(t.config.Validate.Patience) && t.state.Step < t.loader.Steps
}
