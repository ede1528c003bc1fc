package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"assay/losses"
)

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
	notFinite, failed, err := r.passes(ctx, m, batch)
	if err != nil {
		return failed, err
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

// passes runs the parts of a batch one after the other, and sums up their gradients. It returns the examples whose
// losses are not finite and, with an error, those that it was at.
func (r *run) passes(ctx context.Context, m *StepMetrics, batch []Example) (notFinite, failed []Example, err error) {
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
			return nil, part, fmt.Errorf("step %d, samples %s: %w", m.Step, ids(part), err)
		}
		if err := r.add(out, len(part)); err != nil {
			return nil, nil, fmt.Errorf("step %d: %w", m.Step, err)
		}
		r.release(out)
		notFinite = append(notFinite, m.add(out, part, len(batch), labelled)...)
		r.addTerms(m, out, items[i])
		r.tell(part)
	}
	return notFinite, nil, nil
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
