package trainer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"assay/internal/exit"
	"assay/optim"
)

// Progress is told how far a run is.
type Progress interface {
	Add(samples int64, note string)
	Close()
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
	Note     func(text string)                                    // told what is trained; nil: none

	Benchmark BenchmarkOpener // what validate.by: benchmark is opened by; nil: such runs are refused

	Ranks Ranks // those that train together, of which this process is one; nil: it trains alone
}

// Result is what a finished run tells.
type Result struct {
	Scorer     string             `json:"scorer"` // the scorer directory
	Run        string             `json:"run"`    // the run directory
	Trains     Trained            `json:"trains"`
	Resumed    int64              `json:"resumed,omitempty"`
	Steps      int64              `json:"steps"`
	Samples    int64              `json:"samples"`          // edits seen
	Groups     int64              `json:"groups,omitempty"` // likewise, of a run over whole groups
	Early      bool               `json:"early,omitempty"`  // ended by validate.patience
	Loss       number             `json:"loss"`             // of the last step
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

// Train runs the training that the configuration describes, or goes on with it where the newest checkpoint of the run
// directory stands. A cancelled ctx ends the run after the present step with the state saved and an error that wraps
// exit.ErrInterrupted.
//
// With Options.Ranks every rank makes this call. The first one writes and returns the Result, whatever the others do;
// the run directory must be the same for all.
func Train(ctx context.Context, o Options) (result *Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k, err := newRanks(&o, cancel)
	if err != nil {
		return nil, err
	}
	defer func() { k.close(err) }()
	tables := o.Data
	if tables == nil {
		tables, err = OpenData(o.Config)
		if err == nil {
			defer tables.Close()
		}
		if err := k.agree("reading the tables", err); err != nil {
			return nil, err
		}
	}
	unlock, err := k.claim(o.Config.Out)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return trainIn(ctx, &o, k, tables)
}

// trainIn is Train in a run directory that is this job's own.
func trainIn(ctx context.Context, o *Options, k *ranks, tables *Data) (*Result, error) {
	c := o.Config
	r := &run{config: c, ranks: k, data: tables, valid: tables.Validation}
	if err := k.agree("opening the benchmark", r.openBenchmark(o.Benchmark)); err != nil {
		return nil, err
	}
	result, err := r.train(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		agreed := Agreed(err)
		err = fmt.Errorf("%w after step %d of %d in %s: the same command goes on from there", exit.ErrInterrupted, r.savedAt,
			r.total, c.Out)
		if agreed {
			err = &agreedError{err}
		}
	}
	return result, err
}

// joinErrors joins an error with one of tidying up. (errors.Join would hide the list of problems of the first even if
// there is no second.)
func joinErrors(err, second error) error {
	if second == nil {
		return err
	}
	return errors.Join(err, second)
}

func (r *run) train(ctx context.Context, o *Options) (result *Result, err error) {
	old, dir, err := r.findShared(o)
	if err != nil {
		return nil, err
	}
	r.keepSchedules(old, o.Warn)
	if r.model, err = o.Factory(ctx, r.ranks.here(r.config)); err == nil {
		defer func() { err = joinErrors(err, r.model.Close()) }()
	}
	if err := r.ranks.agree("opening the model", err); err != nil {
		return nil, err
	}
	if w, ok := r.model.(interface{ Warn(func(text string)) }); ok {
		w.Warn(o.Warn)
	}
	if err := r.begin(ctx, o, old, dir); err != nil {
		return nil, err
	}
	defer func() { err = joinErrors(err, r.record.close()) }()
	unit := "samples"
	if r.groups != nil {
		unit = "groups"
	}
	r.progress = o.bar("train", r.limit-r.state.Samples, unit)
	defer func() { r.progress.Close() }()
	if err := r.loop(ctx); err != nil {
		return nil, err
	}
	if err := r.sameParams(); err != nil {
		return nil, err
	}
	if err := r.write(r.config.resultPath()); err != nil {
		return nil, err
	}
	return r.result(old), nil
}

// write puts what was trained into a folder of the run directory.
func (r *run) write(dir string) error {
	var err error
	if r.ranks.first() {
		err = replaceDir(dir, r.writeScorer)
	}
	return r.ranks.agree("writing "+filepath.Base(dir), err)
}

// result says what a run that is over did.
func (r *run) result(old *state) *Result {
	s := &r.state
	result := &Result{
		Scorer:     r.config.resultPath(),
		Trains:     r.trains,
		Run:        r.config.Out,
		Steps:      s.Step,
		Samples:    r.seen(),
		Early:      r.early(),
		Seconds:    s.Seconds,
		Validation: s.Last,
		Best:       s.Best,
	}
	if r.groups != nil {
		result.Groups = s.Samples
	}
	if old != nil {
		result.Resumed = old.Step
	}
	if s.Train != nil {
		result.Loss = s.Train.Loss
	}
	if s.Best != nil {
		result.BestScorer = filepath.Join(r.config.Out, BestDir)
	}
	return result
}

// find looks for a checkpoint to go on from.
func (r *run) find(o *Options) (*state, string, error) {
	if o.Fresh {
		return nil, "", nil
	}
	old, dir, problem, err := findState(r.config.Out)
	if err != nil {
		return nil, "", fmt.Errorf("%w; repair it, or begin anew with --fresh", err)
	}
	if problem != nil && o.Warn != nil {
		o.Warn(fmt.Sprintf("%v; going on from %s", problem, filepath.Base(dir)))
	}
	if old == nil && o.Resume {
		return nil, "", exit.Usagef("--resume: there is no checkpoint in %s", filepath.Join(r.config.Out, CheckpointsDir))
	}
	return old, dir, nil
}

// begin sets up parameters, optimizer and records: as the model gives them, or as the checkpoint has them.
func (r *run) begin(ctx context.Context, o *Options, old *state, dir string) error {
	r.params = r.model.Params()
	if err := optim.Check(r.params); err != nil {
		return err
	}
	var err error
	if err = r.shareOut(); err != nil {
		return err
	}
	if err := r.describe(); err != nil {
		return err
	}
	r.announce(o)
	if err := r.sameRun(o); err != nil {
		return err
	}
	if err := r.takeOver(ctx, o, old, dir); err != nil {
		return err
	}
	if r.ranks.first() {
		err = r.occupy(o, old == nil)
	}
	if err := r.ranks.agree("beginning the run directory", err); err != nil {
		return err
	}
	if err := r.prepare(ctx, o); err != nil {
		return err
	}
	if err := r.ranks.agree("choosing a micro-batch", r.chooseMicroBatch(ctx)); err != nil {
		return err
	}
	if err := r.sameMicroBatch(); err != nil {
		return err
	}
	warnings := append(r.config.undigestedInit(), r.data.Warnings...)
	for _, text := range warnings {
		if o.Warn != nil && r.ranks.first() {
			o.Warn(text)
		}
	}
	r.idle(o.Warn)
	r.began, r.before = time.Now(), r.state.Seconds
	r.saved()
	return r.ranks.agree("opening the records", r.openRecords())
}

// takeOver takes over what the checkpoint holds, if there is one, and looks at the tables.
func (r *run) takeOver(ctx context.Context, o *Options, old *state, dir string) (err error) {
	if old != nil {
		err = r.compare(old, dir, o)
	} else if r.ranks.first() {
		err = r.checkVacant(o)
	}
	if err := r.ranks.agree("comparing with the checkpoint", err); err != nil {
		return err
	}
	if err := r.ranks.agree("checking the rows", r.checkRows(ctx, o, old == nil)); err != nil {
		return err
	}
	r.makeGrads()
	if old != nil {
		if err := r.ranks.agree("reading the checkpoint", r.restore(dir, old)); err != nil {
			return err
		}
		r.adopt(old)
	}
	if err := r.sameRows(); err != nil {
		return err
	}
	if err := r.ranks.agree("making the order", r.length()); err != nil {
		return err
	}
	return r.ranks.agree("looking at what is compared", r.checkComparable(o.Warn))
}

// openRecords begins what a run writes as it goes.
func (r *run) openRecords() (err error) {
	if !r.ranks.first() {
		return nil
	}
	if err := r.writePlan(); err != nil {
		return err
	}
	r.record, err = newRecorder(r.config.Out, r.state.EventsFile, r.state.Metrics, r.state.Events)
	return err
}

// occupy writes what a run directory has from its beginning. Nothing can be wrong with the run any more that its tables
// or its configuration would have to answer for: one that is refused leaves the directory as it was.
func (r *run) occupy(o *Options, fresh bool) error {
	if fresh {
		if err := removeRun(r.config.Out); err != nil {
			return fmt.Errorf("clearing the run directory: %w", err)
		}
	}
	if err := r.recordRows(o, fresh); err != nil {
		return err
	}
	return writeConfig(r.config)
}

// announce tells what will be trained.
func (r *run) announce(o *Options) {
	if o.Note == nil {
		return
	}
	o.Note("trains " + r.trains.String())
	for _, text := range r.trains.Ways {
		o.Note(text)
	}
	for _, g := range r.trains.Groups {
		o.Note(g.String())
	}
	if r.config.Init != "" {
		o.Note("goes on from " + r.config.Init)
	}
	for _, d := range r.trains.Departures {
		o.Note("changes what that says: " + d)
	}
}

// prepare lets a model that wants to see all examples do so.
func (r *run) prepare(ctx context.Context, o *Options) error {
	p, ok := r.model.(Preparer)
	if !ok {
		return nil
	}
	c := r.config
	total := int64(r.data.Train.Len()*len(c.Question)*len(c.Answer) + r.valid.Len())
	bar := o.bar("hidden states", total, "samples")
	defer bar.Close()
	examples := func(yield func(Example, error) bool) {
		_ = r.eachPrompt(r.data.Train, c.Question, c.Answer, yield) &&
			r.eachPrompt(r.valid, c.Question[:1], c.Answer[:1], yield)
	}
	if err := r.prepareShare(ctx, p, examples, func(int) {}); err != nil {
		return err
	}
	return r.ranks.agree("hidden states", p.Prepare(ctx, examples, func(n int) { bar.Add(int64(n), "") }))
}

// eachPrompt yields every sample with every pair of templates. It is false when the consumer wants no more.
func (r *run) eachPrompt(s Examples, questions, answers []string, yield func(Example, error) bool) bool {
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

// chooseMicroBatch resolves auto once per run: a resumed one keeps the number, since sums of other parts round
// otherwise.
func (r *run) chooseMicroBatch(ctx context.Context) error {
	batch := r.config.BatchSize
	n := int(r.config.MicroBatch)
	if r.config.MicroBatch == Auto {
		if n = r.state.MicroBatch; n == 0 {
			n = batch
			if p, ok := r.model.(Planner); ok {
				plan, err := r.plan(ctx, p)
				if err != nil {
					return err
				}
				n = plan.MicroBatch
			}
		}
	}
	r.state.MicroBatch = min(max(n, 1), batch)
	return nil
}
