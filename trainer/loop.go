package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"assay/losses"
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
	r.order = NewOrder(c.Seed, r.data.Train.Groups(), c.Data.Sampling)
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

// first is the row that the draws of an example are made by: its own, or the first one of its whole group, whose edits
// are asked about in the same words.
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

// step does one update: gradients of the mean loss over the batch, summed over micro-batches, clipped, AdamW.
func (r *run) step(ctx context.Context) error {
	began := time.Now()
	r.waited = 0
	for {
		batch, err := r.take()
		err = r.ranks.agree("reading a batch", err)
		failed := batch
		if err == nil {
			failed, err = r.update(ctx, batch, began)
		}
		if err == nil {
			return nil
		}
		r.ready() // what comes next may be other rows now
		if err := r.aside(failed, false, err); err != nil {
			return err
		}
	}
}

// update is step for a batch; after an error it returns the examples that it was at, and nothing has changed.
func (r *run) update(ctx context.Context, batch []Example, began time.Time) ([]Example, error) {
	s := &r.state
	lrs, lr := r.lrs()
	m := &StepMetrics{Kind: "train", Step: s.Step + 1, LR: lr}
	m.rates(r.optimizer, lrs)
	err := r.beginSums(ctx)
	if err == nil {
		err = r.share(batch)
	}
	if err != nil {
		return batch, fmt.Errorf("step %d: %w", m.Step, err)
	}
	var notFinite []Example // by their losses
	parts, labelled := r.parts(batch), 0
	for i := range batch {
		if batch[i].labelled() {
			labelled++
		}
	}
	items := make([][][]losses.Item, len(parts))
	for i, part := range parts {
		items[i] = r.items(part)
	}
	normalise(items)
	for i, part := range parts {
		if i > 0 {
			since := time.Now()
			r.ready()
			r.wait(since)
		}
		r.lookAhead(parts, i)
		out, err := r.pass(ctx, batch, parts, items, i)
		if err != nil {
			return part, fmt.Errorf("step %d, samples %s: %w", m.Step, ids(part), err)
		}
		if err := r.add(out, len(part)); err != nil {
			return nil, fmt.Errorf("step %d: %w", m.Step, err)
		}
		notFinite = append(notFinite, m.add(out, part, len(batch), labelled)...)
		r.addTerms(m, out, items[i])
		r.tell(part)
	}
	if err := r.reduced(ctx); err != nil {
		return nil, err
	}
	n, err := r.norm()
	if err != nil {
		return nil, err
	}
	m.GradNorm = number(n)
	switch {
	case len(batch) == 0: // all of them were set aside
		m.Skipped = true
	case len(notFinite) > 0 || math.IsNaN(n) || math.IsInf(n, 0):
		if err := r.ranks.agree("looking at the step", r.checkSkip(m, batch, notFinite)); err != nil {
			return nil, err
		}
		m.Skipped = true
	default:
		if err := r.apply(n, lrs); err != nil {
			return nil, err
		}
	}
	r.ranks.logStep(m.Step)
	s.Step, s.Before, s.Samples = s.Step+1, s.Samples, r.next() // those that were set aside count
	if r.groups != nil {
		s.Edits, m.Groups = s.Edits+r.groups.edits(r.order, s.Before, s.Samples), s.Samples
	}
	m.Waited = waiting(r.waited, time.Since(began))
	m.Samples, m.Epoch, m.Seconds = r.seen(), float64(s.Samples)/float64(r.order.Len()), r.seconds()
	s.Train = m
	if err := r.record.step(m); err != nil {
		return nil, &unrecorded{err}
	}
	return nil, nil
}

// tell shows how far the run is after a part of a batch.
func (r *run) tell(part []Example) {
	note := ""
	if t := r.state.Train; t != nil {
		note = fmt.Sprintf("loss %.4f", t.Loss)
		if t.Waited >= 0.01 {
			note += fmt.Sprintf(", %.0f %% waiting", 100*float64(t.Waited))
		}
	}
	if r.groups == nil {
		r.progress.Add(int64(len(part)), note)
	} else {
		r.progress.Add(int64(part[len(part)-1].Unit-part[0].Unit+1), note)
	}
}

// forward runs the model, forward and backward, over a part of a batch.
func (r *run) forward(ctx context.Context, batch, part []Example, items [][]losses.Item) (*StepResult, error) {
	s, weight := &r.state, 1/float64(len(batch))
	lo := 0
	for &batch[lo] != &part[0] {
		lo++
	}
	seed := mix(r.config.Seed, forDropout, uint64(s.Step), uint64(lo))
	if len(r.config.Losses) == 0 {
		return r.model.Step(ctx, part, weight, seed)
	}
	m, ok := r.model.(Comparer)
	if !ok {
		return nil, errors.New("this model does not train on losses of several terms")
	}
	return m.Compare(ctx, part, items, weight, seed, mix(r.config.Seed, forDraws, uint64(s.Step)))
}

// addTerms counts a micro-batch's terms into the means over the batch.
func (r *run) addTerms(m *StepMetrics, out *StepResult, items [][]losses.Item) {
	if len(items) > 0 && m.Terms == nil {
		m.Terms, m.Items = map[string]number{}, map[string]int{}
	}
	for t := range items {
		name := r.config.termName(t)
		for i, it := range items[t] {
			m.Terms[name] += number(it.Weight * out.Terms[t][i])
		}
		if n := len(items[t]); n > 0 {
			m.Items[name] += n
		}
	}
}

// checkSkip says whether a batch whose loss or gradient is not finite may be left out. notFinite are the examples whose
// losses are not.
func (r *run) checkSkip(m *StepMetrics, batch, notFinite []Example) error {
	what, which := "the loss is", notFinite
	if len(notFinite) == 0 {
		what, which = "the losses are finite, but the gradient is", batch
	}
	if d, ok := r.model.(interface{ Damage() error }); ok && !r.weightsChecked { // whatever the samples are
		r.weightsChecked = true
		if err := d.Damage(); err != nil {
			return fmt.Errorf("step %d: %s not finite: %w", m.Step, what, err)
		}
	}
	if r.config.NonFinite == "stop" {
		return fmt.Errorf("step %d: %s not finite (loss %v, gradient norm %v); samples %s: "+
			"look at them, lower optimizer.lr, or leave such batches out with non_finite: skip",
			m.Step, what, float64(m.Loss), float64(m.GradNorm), ids(which))
	}
	return nil
}

// add sums a micro-batch's gradients into the batch's, after a look at their shapes. Several ranks have done so.
func (r *run) add(out *StepResult, n int) error {
	if r.ranks != nil {
		return nil
	}
	if err := r.checkGrads(out, n); err != nil || r.accumulator() != nil {
		return err
	}
	r.sum(out)
	return nil
}

// checkGrads looks at the shapes of what the model gave for n samples.
func (r *run) checkGrads(out *StepResult, n int) error {
	grads := len(r.params)
	if r.accumulator() != nil {
		grads = 0
	}
	if len(out.Grads) != grads || len(out.Loss) != n || len(out.ScoreLoss) != n || len(out.Score) != n ||
		len(out.CE) != 0 && len(out.CE) != n {
		return fmt.Errorf("the model gave %d losses and %d gradients for %d samples and %d parameters", len(out.Loss),
			len(out.Grads), n, len(r.params))
	}
	for i, g := range out.Grads {
		if g == nil || len(g.Float32s()) != len(r.params[i].Floats()) {
			return fmt.Errorf("the gradient of %s has not the shape of the parameter", r.params[i].Name)
		}
	}
	return nil
}

// add counts a micro-batch into the means over n samples, of which some are labelled, and returns the examples whose
// loss is not finite.
func (m *StepMetrics) add(out *StepResult, part []Example, n, labelled int) (notFinite []Example) {
	for i, e := range part {
		if l := out.Loss[i]; math.IsNaN(l) || math.IsInf(l, 0) {
			notFinite = append(notFinite, e)
		}
		m.Loss += number(out.Loss[i] / float64(n))
		m.ScoreLoss += number(out.ScoreLoss[i] / float64(n))
		switch {
		case labelled == 0:
			m.L1 = number(math.NaN())
		case e.labelled():
			m.L1 += number(math.Abs(out.Score[i]-e.Label) / float64(labelled))
		}
		if len(out.CE) > 0 {
			if m.Text == nil {
				m.Text = new(number)
			}
			*m.Text += number(out.CE[i] / float64(n))
		}
	}
	m.Tokens += out.Tokens
	return notFinite
}

// ids lists the ids of examples for people.
func ids(examples []Example) string {
	var out []string
	for i, e := range examples {
		if i == 16 {
			out = append(out, fmt.Sprintf("and %d more", len(examples)-i))
			break
		}
		out = append(out, e.Row.ID)
	}
	return strings.Join(out, ", ")
}
