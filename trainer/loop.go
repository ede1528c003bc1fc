package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"assay/optim"
)

// run is one training run in progress.
type run struct {
	config    *Config
	model     Model
	params    []optim.Param
	trains    Trained
	ranks     *ranks      // nil: this process trains alone
	hasLedger bool        // the order of the rows is that of the run directory's list
	ledger    []ledgerRow // that list
	repaired  bool        // a repair of the tables changed what it says
	excluded  []sampleRow // set aside when the run began: not in the order

	weightsChecked bool // for values that are not finite
	data           *Data
	valid          Examples
	benchmark      Benchmark // that validate.by names; nil: none

	own       ownership
	optimizer optim.Groups
	schedule  optim.Schedule
	order     *Order
	groups    *groups // nil: batches are cut between rows
	total     int64   // steps
	edits     int64   // over the whole run; with whole groups alone, whose positions count groups
	limit     int64   // samples over the whole run

	state    state
	record   *recorder
	progress Progress
	grads    [][]float32 // of the batch, of the parameters that the optimizer updates here
	released int64       // bytes of gradients of runs, since they were collected

	ahead  *ahead        // what is being made ready beside the step; nil: nothing
	waited time.Duration // of the present step, for its examples

	began    time.Time // of this process's training
	before   float64   // seconds trained in earlier ones
	lastSave time.Time
	savedAt  int64 // step of the last checkpoint
}

// length sets the order, and how many steps and samples the run has in all, counted from where it stands.
func (r *run) length() error {
	c, done := r.config, &r.state
	r.order = newOrder(c.Seed, r.data.Train.Groups(), c.Data.Sampling)
	weights, err := c.drawn(r.data.Train)
	if err != nil {
		return err
	}
	r.order.weigh(weights)
	batch := int64(c.BatchSize)
	r.groups = nil
	if c.Data.Sampling == WholeGroups {
		r.wholeGroups()
		return nil
	}
	if c.Steps > 0 {
		r.total, r.limit = c.Steps, done.Samples+(c.Steps-done.Step)*batch
	} else {
		r.limit = int64(c.Epochs) * r.order.Len()
		r.total = done.Step + max(0, r.limit-done.Samples+batch-1)/batch
	}
	r.schedule = c.schedule(r.total)
	return nil
}

// wholeGroups is length for batches of whole groups, whose numbers of edits differ: positions and samples are groups.
func (r *run) wholeGroups() {
	c, done := r.config, &r.state
	rows, _ := r.data.Train.(*Samples)
	bound := c.Data.GroupEdits
	if bound == 0 {
		bound = c.BatchSize
	}
	r.groups = newGroups(r.order, rows, bound)
	r.total, r.limit = c.Steps, math.MaxInt64
	if c.Steps == 0 {
		r.total, r.limit = math.MaxInt64, int64(c.Epochs)*r.order.Len()
	}
	step, at := done.Step, done.Samples
	r.edits = 0
	for step < r.total && at < r.limit {
		next := r.groups.cut(r.order, at, r.limit, c.BatchSize)
		r.edits += r.groups.edits(r.order, at, next)
		at = next
		step++
	}
	r.total, r.limit = step, at
	r.schedule = c.schedule(r.total)
}

// next is the position after the present step.
func (r *run) next() int64 { return r.nextAfter(r.state.Samples) }

// nextAfter is the position after the step that begins at another.
func (r *run) nextAfter(at int64) int64 {
	if r.groups != nil {
		return r.groups.cut(r.order, at, r.limit, r.config.BatchSize)
	}
	return min(at+int64(r.config.BatchSize), r.limit)
}

// seen is the number of edits that the run has seen.
func (r *run) seen() int64 {
	if r.groups != nil {
		return r.state.Edits
	}
	return r.state.Samples
}

func (r *run) seconds() float64 { return r.before + time.Since(r.began).Seconds() }

func (r *run) saved() { r.lastSave, r.savedAt = time.Now(), r.state.Step }

// loop trains until all steps are done, or saves and returns context.Canceled's error when ctx is over: the step at
// hand is finished first.
func (r *run) loop(ctx context.Context) error {
	defer r.ready()
	for {
		if r.validationDue() {
			if err := r.validate(ctx); err != nil {
				return r.stop(ctx, err)
			}
		}
		if r.state.Step >= r.total || r.exhausted() {
			return r.stop(ctx, nil)
		}
		if err := r.stopped(ctx); err != nil {
			return r.stop(ctx, err)
		}
		if err := r.step(context.WithoutCancel(ctx)); err != nil {
			return r.fail(err)
		}
		due, err := r.saveDue()
		if err == nil && due {
			err = r.save()
		}
		if err != nil {
			return err
		}
	}
}

// exhausted tells whether as many validations as validate.patience were no better than the best one before them.
func (r *run) exhausted() bool {
	n := r.config.Validate.Patience
	return n > 0 && r.state.Worse >= n
}

// early tells whether the run ended before its time.
func (r *run) early() bool { return r.exhausted() && r.state.Step < r.total }

// unrecorded is an error that came after the parameters had changed: what the state says would not be in the metrics.
type unrecorded struct{ error }

func (e *unrecorded) Unwrap() error { return e.error }

// fail saves what was reached before an error. The step that failed changed nothing, so that a run goes on from there.
func (r *run) fail(err error) error {
	var lost *unrecorded
	if errors.As(err, &lost) || r.state.Step == r.savedAt {
		return err
	}
	if r.own.only && !Agreed(err) { // the state is put together by all ranks, which have lost each other
		return err
	}
	if saving := r.save(); saving != nil {
		return errors.Join(err, saving)
	}
	return fmt.Errorf("%w\n%d steps are saved in %s: the same command goes on from there", err, r.state.Step, r.config.Out)
}

// stop saves at the end, when the user interrupted, and after an error.
func (r *run) stop(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		return r.fail(err)
	}
	if saving := r.save(); saving != nil {
		return saving
	}
	return err
}

// batch gives the examples of the present step; those in front of an error with it.
func (r *run) batch() ([]Example, error) { return r.read(r.places(r.state.Samples, r.next())) }

// first is the row that seeds the draws of an example: its own, or the first one of its whole group, whose edits are
// asked about in the same words.
func (r *run) first(unit, row int) int {
	if r.groups != nil {
		return r.order.Units[unit][0]
	}
	return row
}

// draw chooses templates and augmentation.
func (r *run) draw(e *Example, epoch int64, row uint64) {
	c, seed := r.config, r.config.Seed
	e.Question = c.Question[pick(mix(seed, forQuestion, uint64(epoch), row), len(c.Question))]
	e.Answer = c.Answer[pick(mix(seed, forAnswer, uint64(epoch), row), len(c.Answer))]
	if c.Augment != "none" {
		e.Augment = max(1, mix(seed, forAugment, uint64(epoch), row))
	}
	if e.Said.none() && e.Talk == nil { // all that is known of what a program made
		e.Said.Labels = map[string]float64{"": e.Label}
	}
}

// parts cuts a batch into micro-batches, which hold whole groups where the run has them: one with more edits than a
// micro-batch is one by itself.
func (r *run) parts(batch []Example) (parts [][]Example) {
	lo := 0
	for i := range batch {
		begins := r.groups == nil || i == 0 || batch[i].Unit != batch[i-1].Unit
		end := i + 1
		for r.groups != nil && end < len(batch) && batch[end].Unit == batch[i].Unit {
			end++
		}
		if begins && i > lo && end-lo > r.state.MicroBatch {
			parts = append(parts, batch[lo:i])
			lo = i
		}
	}
	if lo < len(batch) {
		parts = append(parts, batch[lo:])
	}
	return parts
}
