package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"assay/internal/exit"
	"assay/internal/workers"
	"assay/losses"
	"assay/trainer/checkpoint"
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/models"
	"assay/trainer/objective"
	"assay/trainer/records"
)

// step is one update of the parameters: a batch is loaded, its micro-batches run forward and backward, their gradients
// are summed and clipped, and the optimizer applies them. After an error it returns the examples at fault, and nothing
// has changed.
func (t *Trainer) step(ctx context.Context) (failed []dataset.Example, err error) {
	began, s := time.Now(), &t.state
	t.loader.Waited = 0
	batch, err := t.loader.Load(s.Samples)
	if err := t.strategy.Agree("reading a batch", err); err != nil {
		return batch, err
	}
	m := &records.StepMetrics{Kind: "train", Step: s.Step + 1}
	rates := t.optimizer.Rates(m, s.Step, s.Plateaus)
	err = t.optimizer.Begin(ctx)
	if err == nil {
		err = shareTextLoss(t.model, t.strategy, batch, m.Step)
	}
	if err != nil {
		return batch, fmt.Errorf("step %d: %w", m.Step, err)
	}
	b := t.split(batch)
	var notFinite []dataset.Example
	run := func(i int) (*models.StepResult, error) { return b.forwardBackward(ctx, i) }
	show := func(i int, out *models.StepResult) {
		notFinite = append(notFinite, b.measure(m, i, out)...)
		t.objective.Measure(m, out.Terms, b.items[i])
		t.records.Advance(t.loader, s.Train, b.parts[i])
	}
	if at, err := t.strategy.Accumulate(t.optimizer, m.Step, len(b.parts), run, show); err != nil {
		return b.parts[at], fmt.Errorf("step %d, samples %s: %w", m.Step, dataset.IDs(b.parts[at]), err)
	}
	norm, err := t.strategy.Reduce(ctx, t.optimizer)
	if err != nil {
		return nil, err
	}
	m.GradNorm = records.Number(norm)
	switch {
	case len(batch) == 0: // all of them are quarantined
		m.Skipped = true
	case len(notFinite) > 0 || math.IsNaN(norm) || math.IsInf(norm, 0):
		if err := t.strategy.Agree("looking at the step", b.checkSkip(m, batch, notFinite)); err != nil {
			return nil, err
		}
		m.Skipped = true
	default:
		if err := t.strategy.Update(t.optimizer, norm, rates); err != nil {
			return nil, err
		}
	}
	next, groups := t.loader.Next(s.Samples), t.loader.Groups != nil
	if groups {
		s.Edits, m.Groups = s.Edits+t.loader.Count(s.Samples, next), next
	}
	s.Step, s.Before, s.Samples = s.Step+1, s.Samples, next // quarantined rows count
	m.Waited = records.WaitedShare(t.loader.Waited, time.Since(began))
	m.Samples, m.Epoch, m.Seconds = s.Seen(groups), t.loader.Epochs(s.Samples), s.Elapsed()
	s.Train = m
	if err := t.records.Step(m); err != nil {
		return nil, &checkpoint.InconsistentError{Err: err}
	}
	return nil, nil
}

// microBatches are the parts of a batch that run one by one.
type microBatches struct {
	config *config.Config
	model  models.Model
	loader *dataset.Loader
	step   int64 // before this one
	at     int64 // position of the batch

	parts    [][]dataset.Example
	first    []int             // number of each part's first example
	items    [][][]losses.Item // of each part, by term
	examples int
	labelled int
	check    func(out *models.StepResult) error
}

// split cuts a batch into micro-batches, and looks what the terms of the objective compare in them.
func (t *Trainer) split(batch []dataset.Example) *microBatches {
	b := &microBatches{config: t.config, model: t.model, loader: t.loader, step: t.state.Step, at: t.state.Samples,
		parts: t.loader.Split(batch, t.state.MicroBatch), examples: len(batch),
		check: func(out *models.StepResult) error { return t.optimizer.Check(out.Grads) }}
	n := 0
	for _, part := range b.parts {
		b.first, b.items = append(b.first, n), append(b.items, t.objective.Items(part))
		n += len(part)
		for i := range part {
			if part[i].Labelled() {
				b.labelled++
			}
		}
	}
	objective.Normalize(b.items)
	return b
}

// forwardBackward runs the i-th micro-batch, while the next one is prepared.
func (b *microBatches) forwardBackward(ctx context.Context, i int) (out *models.StepResult, err error) {
	if i > 0 {
		b.loader.Join()
	}
	b.loader.Prefetch(b.parts, i, b.step, b.at)
	weight, seed := 1/float64(b.examples), b.config.Seed
	dropout := dataset.Mix(seed, dataset.ForDropout, uint64(b.step), uint64(b.first[i]))
	if len(b.config.Losses) == 0 {
		out, err = b.model.Step(ctx, b.parts[i], weight, dropout)
	} else if c, ok := b.model.(models.Comparer); ok {
		draws := dataset.Mix(seed, dataset.ForDraws, uint64(b.step))
		out, err = c.Compare(ctx, b.parts[i], b.items[i], weight, dropout, draws)
	} else {
		err = errors.New("this model does not train on losses of several terms")
	}
	if err == nil {
		err = exit.Join(out.Check(len(b.parts[i])), b.check(out))
	}
	return out, err
}

// measure counts the i-th micro-batch into the means over the batch, and returns the examples whose loss is not finite.
func (b *microBatches) measure(m *records.StepMetrics, i int, out *models.StepResult) (notFinite []dataset.Example) {
	n := float64(b.examples)
	for i, e := range b.parts[i] {
		if l := out.Loss[i]; math.IsNaN(l) || math.IsInf(l, 0) {
			notFinite = append(notFinite, e)
		}
		m.Loss += records.Number(out.Loss[i] / n)
		m.ScoreLoss += records.Number(out.ScoreLoss[i] / n)
		switch {
		case b.labelled == 0:
			m.L1 = records.Number(math.NaN())
		case e.Labelled():
			m.L1 += records.Number(math.Abs(out.Score[i]-e.Label) / float64(b.labelled))
		}
		if len(out.CE) > 0 {
			if m.Text == nil {
				m.Text = new(records.Number)
			}
			*m.Text += records.Number(out.CE[i] / n)
		}
	}
	m.Tokens += out.Tokens
	return notFinite
}

// checkSkip says whether a batch whose loss or gradient is not finite may be left out. notFinite are the examples whose
// losses are not.
func (b *microBatches) checkSkip(m *records.StepMetrics, batch, notFinite []dataset.Example) error {
	what, which := "the loss is", notFinite
	if len(notFinite) == 0 {
		what, which = "the losses are finite, but the gradient is", batch
	}
	if d, ok := b.model.(interface{ Damage() error }); ok {
		if err := d.Damage(); err != nil { // whatever the samples are
			return fmt.Errorf("step %d: %s not finite: %w", m.Step, what, err)
		}
	}
	if b.config.NonFinite == "stop" {
		return fmt.Errorf("step %d: %s not finite (loss %v, gradient norm %v); samples %s: "+
			"look at them, lower optimizer.lr, or leave such batches out with non_finite: skip",
			m.Step, what, float64(m.Loss), float64(m.GradNorm), dataset.IDs(which))
	}
	return nil
}

// shareTextLoss makes the text loss of a batch the mean over the tokens of all its examples, as torch has it over a
// batch and transformers over the micro-batches of a step. Of several processes each counts the tokens of some.
func shareTextLoss(model models.Model, s Strategy, batch []dataset.Example, step int64) error {
	m, ok := model.(models.Targeter)
	if !ok {
		return nil
	}
	var mu sync.Mutex
	tokens := map[int]int{}
	err := workers.Each(len(batch), runtime.NumCPU(), func(i int) error {
		if !s.Mine(i) {
			return nil
		}
		n, err := m.Targets(&batch[i])
		if err != nil {
			return fmt.Errorf("%s: %w", batch[i].Row.ID, err)
		}
		mu.Lock()
		tokens[i] = n
		mu.Unlock()
		return nil
	})
	if err := s.Union(fmt.Sprintf("tokens of step %d", step), &tokens, err); err != nil {
		return err
	}
	total := 0
	for _, n := range tokens {
		total += n
	}
	for i, n := range tokens {
		if total > 0 {
			batch[i].Share = float64(n*len(batch)) / float64(total)
		}
	}
	return nil
}
