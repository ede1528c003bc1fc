package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"assay/internal/workers"
	"assay/optim"
)

// run is one training run in progress.
type run struct {
	config    *Config
	model     Model
	params    []optim.Param
	trains    Trained
	hasLedger bool        // the order of the rows is that of the run directory's list
	ledger    []ledgerRow // that list
	repaired  bool        // a repair of the tables changed what it says
	excluded  []sampleRow // set aside when the run began: not in the order

	weightsChecked bool // for values that are not finite
	data           *Data
	valid          Examples

	optimizer *optim.AdamW
	schedule  optim.Schedule
	order     *Order
	total     int64 // steps
	limit     int64 // samples over the whole run

	state    state
	record   *recorder
	progress Progress
	grads    [][]float32 // of the batch

	began    time.Time // of this process's training
	before   float64   // seconds trained in earlier ones
	lastSave time.Time
	savedAt  int64 // step of the last checkpoint
}

// length sets the order, and how many steps and samples the run has in all, counted from where it stands.
func (r *run) length() {
	c, done := r.config, &r.state
	r.order = NewOrder(c.Seed, r.data.Train.Groups(), c.Data.Sampling)
	batch := int64(c.BatchSize)
	if c.Steps > 0 {
		r.total, r.limit = c.Steps, done.Samples+(c.Steps-done.Step)*batch
	} else {
		r.limit = int64(c.Epochs) * r.order.Len()
		r.total = done.Step + max(0, r.limit-done.Samples+batch-1)/batch
	}
	r.schedule = c.schedule(r.total)
}

func (r *run) seconds() float64 { return r.before + time.Since(r.began).Seconds() }

func (r *run) saved() { r.lastSave, r.savedAt = time.Now(), r.state.Step }

// loop trains until all steps are done, or saves and returns context.Canceled's error when ctx is over: the step at
// hand is finished first.
func (r *run) loop(ctx context.Context) error {
	for {
		if r.validationDue() {
			if err := r.validate(ctx); err != nil {
				return r.stop(ctx, err)
			}
		}
		if r.state.Step >= r.total {
			return r.stop(ctx, nil)
		}
		if err := ctx.Err(); err != nil {
			return r.stop(ctx, err)
		}
		if err := r.step(context.WithoutCancel(ctx)); err != nil {
			return r.fail(err)
		}
		c := r.config.Checkpoint
		if c.Steps > 0 && r.state.Step-r.savedAt >= c.Steps ||
			c.Minutes > 0 && time.Since(r.lastSave).Minutes() >= c.Minutes {
			if err := r.save(); err != nil {
				return err
			}
		}
	}
}

// unrecorded is an error that came after the parameters had changed: what the state says would not be in the metrics.
type unrecorded struct{ error }

func (e *unrecorded) Unwrap() error { return e.error }

// fail saves what was reached before an error. The step that failed changed nothing, so that a run goes on from there.
func (r *run) fail(err error) error {
	var lost *unrecorded
	if errors.As(err, &lost) || r.state.Step == r.savedAt {
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
func (r *run) batch() ([]Example, error) {
	last := min(r.state.Samples+int64(r.config.BatchSize), r.limit)
	var out []Example
	for at := r.state.Samples; at < last; at++ {
		row, epoch := r.order.At(at)
		if !usable(r.data.Train, row) { // set aside: it keeps its place, which stays empty
			continue
		}
		e, err := r.data.Train.Example(row)
		e.Index = row
		if err != nil { // the row itself is bad: setAside finds out
			return []Example{e}, err
		}
		c, seed := r.config, r.config.Seed
		e.Question = c.Question[pick(mix(seed, forQuestion, uint64(epoch), uint64(row)), len(c.Question))]
		e.Answer = c.Answer[pick(mix(seed, forAnswer, uint64(epoch), uint64(row)), len(c.Answer))]
		if c.Augment != "none" {
			e.Augment = max(1, mix(seed, forAugment, uint64(epoch), uint64(row)))
		}
		out = append(out, e)
	}
	return out, nil
}

// step does one update: gradients of the mean loss over the batch, summed over micro-batches, clipped, AdamW.
func (r *run) step(ctx context.Context) error {
	for {
		batch, err := r.batch()
		failed := batch
		if err == nil {
			failed, err = r.update(ctx, batch)
		}
		if err == nil {
			return nil
		}
		if err := r.setAside(failed, false, err); err != nil {
			return err
		}
	}
}

// update is step for a batch; after an error it returns the examples that it was at, and nothing has changed.
func (r *run) update(ctx context.Context, batch []Example) ([]Example, error) {
	s := &r.state
	m := &StepMetrics{Kind: "train", Step: s.Step + 1, LR: r.schedule.LR(s.Step)}
	for i := range r.grads {
		clear(r.grads[i])
	}
	var notFinite []Example // by their losses
	for lo := 0; lo < len(batch); lo += s.MicroBatch {
		part := batch[lo:min(lo+s.MicroBatch, len(batch))]
		out, err := r.model.Step(ctx, part, 1/float64(len(batch)), mix(r.config.Seed, forDropout, uint64(s.Step), uint64(lo)))
		if err != nil {
			return part, fmt.Errorf("step %d, samples %s: %w", m.Step, ids(part), err)
		}
		if err := r.add(out, len(part)); err != nil {
			return nil, fmt.Errorf("step %d: %w", m.Step, err)
		}
		notFinite = append(notFinite, m.add(out, part, len(batch))...)
		note := ""
		if t := s.Train; t != nil {
			note = fmt.Sprintf("loss %.4f", t.Loss)
		}
		r.progress.Add(int64(len(part)), note)
	}
	n := optim.Norm(r.grads)
	m.GradNorm = number(n)
	switch {
	case len(batch) == 0: // all of them were set aside
		m.Skipped = true
	case len(notFinite) > 0 || math.IsNaN(n) || math.IsInf(n, 0):
		if err := r.checkSkip(m, batch, notFinite); err != nil {
			return nil, err
		}
		m.Skipped = true
	default:
		optim.Clip(r.grads, n, r.config.ClipNorm)
		r.optimizer.Update(r.params, r.grads, m.LR)
	}
	s.Step++
	s.Samples = min(s.Samples+int64(r.config.BatchSize), r.limit) // those that were set aside count
	m.Samples, m.Epoch, m.Seconds = s.Samples, float64(s.Samples)/float64(r.order.Len()), r.seconds()
	s.Train = m
	if err := r.record.step(m); err != nil {
		return nil, &unrecorded{err}
	}
	return nil, nil
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

// add sums a micro-batch's gradients into the batch's, after a look at their shapes.
func (r *run) add(out *StepResult, n int) error {
	if len(out.Grads) != len(r.params) || len(out.Loss) != n || len(out.ScoreLoss) != n || len(out.Score) != n ||
		len(out.CE) != 0 && len(out.CE) != n {
		return fmt.Errorf("the model gave %d losses and %d gradients for %d samples and %d parameters", len(out.Loss),
			len(out.Grads), n, len(r.params))
	}
	for i, g := range out.Grads {
		if g == nil || len(g.Float32s()) != len(r.grads[i]) {
			return fmt.Errorf("the gradient of %s has not the shape of the parameter", r.params[i].Name)
		}
	}
	workers.Do(len(r.params), func(i int) {
		sum := r.grads[i]
		for j, v := range out.Grads[i].Float32s() {
			sum[j] += v
		}
	})
	return nil
}

// add counts a micro-batch into the means over n samples, and returns the examples whose loss is not finite.
func (m *StepMetrics) add(out *StepResult, part []Example, n int) (notFinite []Example) {
	for i, e := range part {
		if l := out.Loss[i]; math.IsNaN(l) || math.IsInf(l, 0) {
			notFinite = append(notFinite, e)
		}
		m.Loss += number(out.Loss[i] / float64(n))
		m.ScoreLoss += number(out.ScoreLoss[i] / float64(n))
		m.L1 += number(math.Abs(out.Score[i]-e.Label) / float64(n))
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
