package trainer

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"assay/internal/exit"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
	"assay/internal/trainer/records"
	"assay/internal/workers"
	"assay/losses"
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
	if batch, err = t.complete(ctx, batch, m); err != nil {
		return batch, fmt.Errorf("step %d: %w", m.Step, err)
	}
	b := t.split(batch, m)
	if at, err := t.strategy.Accumulate(ctx, t.optimizer, b); err != nil {
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
	case len(b.notFinite) > 0 || math.IsNaN(norm) || math.IsInf(norm, 0):
		if err := t.strategy.Agree("looking at the step", b.checkSkip(batch)); err != nil {
			return nil, err
		}
		m.Skipped = true
	default:
		if err := t.strategy.Update(t.optimizer, norm, rates); err != nil {
			return nil, err
		}
	}
	next, groups := t.loader.Next(s.Samples), t.loader.Groups != nil
	if m.Step%t.config.Iterations() != 0 { // the same rows again
		next = s.Samples
	} else {
		s.Completions = nil
	}
	if groups {
		s.Edits, m.Groups = s.Edits+t.loader.Count(s.Samples, next), next
	}
	s.Step, s.Before, s.Samples = s.Step+1, s.Samples, next // quarantined rows count
	m.Waited = records.WaitedShare(t.loader.Waited, time.Since(began))
	m.Samples, m.Epoch, m.Seconds = s.Seen(groups), t.loader.Epochs(s.Samples), s.Elapsed()
	s.Train = m
	if n := b.Len(); n > 0 {
		b.advance(n - 1)
	}
	if err := t.records.Step(m); err != nil {
		return nil, &checkpoint.InconsistentError{Err: err}
	}
	return nil, nil
}

// microBatches are the parts of a step's batch, which run one by one.
type microBatches struct {
	*Trainer
	metrics   *records.StepMetrics
	parts     [][]dataset.Example
	first     []int             // number of each part's first example
	items     [][][]losses.Item // by part and term
	examples  int
	labelled  int
	notFinite []dataset.Example // examples with a non-finite loss
	answers   *answerSums
}

// split cuts a batch into micro-batches, and finds what the terms of the objective compare in them.
func (t *Trainer) split(batch []dataset.Example, m *records.StepMetrics) *microBatches {
	b := &microBatches{Trainer: t, metrics: m, parts: t.loader.Split(batch, t.state.MicroBatch), examples: len(batch),
		answers: newAnswerSums(t.config.GRPO, m, batch)}
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

// Step returns the number of the step.
func (b *microBatches) Step() int64 { return b.metrics.Step }

// Len returns the number of micro-batches.
func (b *microBatches) Len() int { return len(b.parts) }

// Run runs the i-th micro-batch forward and backward, while the next one is prepared.
func (b *microBatches) Run(ctx context.Context, i int) (out *models.StepResult, err error) {
	if i > 0 {
		b.loader.Join()
	}
	step, part := uint64(b.state.Step), b.parts[i]
	b.loader.Prefetch(b.parts, i, b.state.Step, b.state.Samples)
	out, err = b.model.Step(ctx, part, models.StepInput{
		Items:  b.items[i],
		Weight: 1 / float64(b.examples),
		Seed:   dataset.Mix(b.config.Seed, dataset.ForDropout, step, uint64(b.first[i])),
		Draws:  dataset.Mix(b.config.Seed, dataset.ForDraws, step),
	})
	if err == nil {
		err = exit.Join(out.Check(len(part)), b.optimizer.Check(out.Grads))
	}
	return out, err
}

// Done adds the results of the i-th micro-batch to the batch's means, and advances the progress bar.
func (b *microBatches) Done(i int, out *models.StepResult) {
	m, n := b.metrics, float64(b.examples)
	for i, e := range b.parts[i] {
		if l := out.Loss[i]; math.IsNaN(l) || math.IsInf(l, 0) {
			b.notFinite = append(b.notFinite, e)
		}
		m.Loss += records.Number(out.Loss[i] / n)
		m.ScoreLoss += records.Number(out.ScoreLoss[i] / n)
		switch {
		case b.labelled == 0:
			m.L1 = records.None
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
	b.answers.done(b.parts[i], out)
	b.objective.Measure(m, out.Terms, b.items[i])
	if i < b.Len()-1 { // the last one counts when the step is done, with its loss
		b.advance(i)
	}
}

// advance counts the i-th micro-batch as done. Further steps over the same rows are not progress.
func (b *microBatches) advance(i int) {
	if (b.metrics.Step-1)%b.config.Iterations() == 0 {
		b.records.Advance(b.loader, b.state.Train, b.parts[i])
	}
}

// checkSkip returns an error if a batch whose loss or gradient is not finite may not be skipped.
func (b *microBatches) checkSkip(batch []dataset.Example) error {
	m, what, which := b.metrics, "the loss is", b.notFinite
	if len(which) == 0 {
		what, which = "the losses are finite, but the gradient is", batch
	}
	if d, ok := b.model.(models.Graph); ok {
		if err := d.Damage(); err != nil { // whatever the samples are
			return fmt.Errorf("step %d: %s not finite: %w", m.Step, what, err)
		}
	}
	if b.config.NonFinite == "stop" {
		return fmt.Errorf("step %d: %s not finite (loss %v, gradient norm %v); samples %s: "+
			"look at them, lower optimizer.lr, or skip such batches with non_finite: skip",
			m.Step, what, float64(m.Loss), float64(m.GradNorm), dataset.IDs(which))
	}
	return nil
}

// shareTextLoss makes the text loss of a batch the mean over the tokens of all its examples, as torch does over a
// batch and transformers over the micro-batches of a step. Each process counts the tokens of a share of the examples.
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
			return fmt.Errorf("%s: %w", batch[i].Edit.ID, err)
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
