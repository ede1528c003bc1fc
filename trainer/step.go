package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"assay/checkpoints"
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

// train runs steps until all are done, or saves and returns context.Canceled's error when ctx ends: the present step is
// finished first.
func (t *Trainer) train(ctx context.Context) error {
	defer t.loader.Discard()
	for {
		if t.validationDue() {
			if err := t.validate(ctx); err != nil {
				return t.stop(ctx, err)
			}
		}
		if t.state.Step >= t.loader.Steps || t.exhausted() {
			return t.stop(ctx, nil)
		}
		if err := t.strategy.Agree(fmt.Sprintf("after step %d", t.state.Step), ctx.Err()); err != nil {
			return t.stop(ctx, err)
		}
		if err := t.step(context.WithoutCancel(ctx)); err != nil {
			return t.fail(err)
		}
		if err := t.saveIfDue(); err != nil {
			return err
		}
	}
}

// step is one update of the parameters: a batch is loaded, its micro-batches run forward and backward, their gradients
// are summed and clipped, and the optimizer applies them. Rows that cannot be used are quarantined, and the step is
// tried again without them.
func (t *Trainer) step(ctx context.Context) error {
	began := time.Now()
	t.loader.Waited = 0
	for {
		batch, err := t.loader.Load(t.state.Samples)
		err = t.strategy.Agree("reading a batch", err)
		failed := batch
		if err == nil {
			failed, err = t.update(ctx, batch, began)
		}
		if err == nil {
			return nil
		}
		t.loader.Discard() // the rows of the next batch may change
		if err := t.quarantine(failed, false, err); err != nil {
			return err
		}
	}
}

// update is step for a batch. After an error it returns the examples at fault, and nothing has changed.
func (t *Trainer) update(ctx context.Context, batch []dataset.Example, began time.Time) ([]dataset.Example, error) {
	s := &t.state
	m := &records.StepMetrics{Kind: "train", Step: s.Step + 1}
	rates := t.optimizer.Rates(m, s.Step, s.Plateaus)
	err := t.optimizer.Begin(ctx)
	if err == nil {
		err = t.shareTextLoss(batch)
	}
	if err != nil {
		return batch, fmt.Errorf("step %d: %w", m.Step, err)
	}
	notFinite, failed, err := t.backward(ctx, m, batch)
	if err != nil {
		return failed, err
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
		if err := t.strategy.Agree("looking at the step", t.checkSkip(m, batch, notFinite)); err != nil {
			return nil, err
		}
		m.Skipped = true
	default:
		if err := t.strategy.Update(t.optimizer, norm, rates); err != nil {
			return nil, err
		}
	}
	next := t.loader.Next(s.Samples)
	if t.loader.Groups != nil {
		s.Edits, m.Groups = s.Edits+t.loader.Count(s.Samples, next), next
	}
	s.Step, s.Before, s.Samples = s.Step+1, s.Samples, next // quarantined rows count
	m.Waited = records.WaitedShare(t.loader.Waited, time.Since(began))
	m.Samples, m.Seconds = s.Seen(t.loader.Groups != nil), s.Elapsed()
	m.Epoch = float64(s.Samples) / float64(t.loader.Order.Len())
	s.Train = m
	if err := t.records.Step(m); err != nil {
		return nil, &checkpoint.InconsistentError{Err: err}
	}
	return nil, nil
}

// backward runs the micro-batches of a batch forward and backward and sums their gradients. It returns the examples
// whose losses are not finite and, with an error, those at fault.
func (t *Trainer) backward(
	ctx context.Context, m *records.StepMetrics, batch []dataset.Example,
) (notFinite, failed []dataset.Example, err error) {
	s, parts := &t.state, t.loader.Split(batch, t.state.MicroBatch)
	labelled, first, items := 0, make([]int, len(parts)), make([][][]losses.Item, len(parts))
	for i := range batch {
		if batch[i].Labelled() {
			labelled++
		}
	}
	for i, part := range parts {
		items[i] = t.objective.Items(part)
		if i > 0 {
			first[i] = first[i-1] + len(parts[i-1])
		}
	}
	objective.Normalize(items)
	weight := 1 / float64(len(batch))
	run := func(i int) (*models.StepResult, error) {
		if i > 0 {
			t.loader.Join()
		}
		t.loader.Prefetch(parts, i, s.Step, s.Samples)
		dropout := dataset.Mix(t.config.Seed, dataset.ForDropout, uint64(s.Step), uint64(first[i]))
		var out *models.StepResult
		var err error
		if len(t.config.Losses) == 0 {
			out, err = t.model.Step(ctx, parts[i], weight, dropout)
		} else if c, ok := t.model.(models.Comparer); ok {
			out, err = c.Compare(ctx, parts[i], items[i], weight, dropout, dataset.Mix(t.config.Seed, dataset.ForDraws, uint64(s.Step)))
		} else {
			err = errors.New("this model does not train on losses of several terms")
		}
		if err == nil {
			err = exit.Join(out.Check(len(parts[i])), t.optimizer.Check(out.Grads))
		}
		return out, err
	}
	show := func(i int, out *models.StepResult) {
		notFinite = append(notFinite, count(m, out, parts[i], len(batch), labelled)...)
		t.objective.Measure(m, out.Terms, items[i])
		t.records.Advance(t.loader, s.Train, parts[i])
	}
	if at, err := t.strategy.Accumulate(t.optimizer, m.Step, len(parts), run, show); err != nil {
		return nil, parts[at], fmt.Errorf("step %d, samples %s: %w", m.Step, dataset.IDs(parts[at]), err)
	}
	return notFinite, nil, nil
}

// checkSkip says whether a batch whose loss or gradient is not finite may be left out. notFinite are the examples whose
// losses are not.
func (t *Trainer) checkSkip(m *records.StepMetrics, batch, notFinite []dataset.Example) error {
	what, which := "the loss is", notFinite
	if len(notFinite) == 0 {
		what, which = "the losses are finite, but the gradient is", batch
	}
	if d, ok := t.model.(interface{ Damage() error }); ok && !t.searched {
		t.searched = true
		if err := d.Damage(); err != nil { // whatever the samples are
			return fmt.Errorf("step %d: %s not finite: %w", m.Step, what, err)
		}
	}
	if t.config.NonFinite == "stop" {
		return fmt.Errorf("step %d: %s not finite (loss %v, gradient norm %v); samples %s: "+
			"look at them, lower optimizer.lr, or leave such batches out with non_finite: skip",
			m.Step, what, float64(m.Loss), float64(m.GradNorm), dataset.IDs(which))
	}
	return nil
}

// exhausted is true after as many validations as validate.patience that were no better than the best one before them.
func (t *Trainer) exhausted() bool {
	n := t.config.Validate.Patience
	return n > 0 && t.state.Worse >= n
}

// early is true if the run ended before its last step.
func (t *Trainer) early() bool { return t.exhausted() && t.state.Step < t.loader.Steps }

// fail saves what was reached before an error. The step that failed changed nothing, so that a run resumes from there.
func (t *Trainer) fail(err error) error {
	var lost *checkpoint.InconsistentError
	if errors.As(err, &lost) || t.state.Step == t.checkpoints.Step || !t.strategy.Knows(err) {
		return err
	}
	if saving := t.save(); saving != nil {
		return errors.Join(err, saving)
	}
	return fmt.Errorf("%w\n%d steps are saved in %s: the same command goes on from there", err, t.state.Step, t.config.Out)
}

// stop saves at the end, when the user interrupted, and after an error.
func (t *Trainer) stop(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		return t.fail(err)
	}
	if saving := t.save(); saving != nil {
		return saving
	}
	return err
}

// count counts a micro-batch into the means over n samples, of which some are labelled, and returns the examples whose
// loss is not finite.
func count(m *records.StepMetrics, out *models.StepResult, part []dataset.Example, n, labelled int) (notFinite []dataset.Example) {
	for i, e := range part {
		if l := out.Loss[i]; math.IsNaN(l) || math.IsInf(l, 0) {
			notFinite = append(notFinite, e)
		}
		m.Loss += records.Number(out.Loss[i] / float64(n))
		m.ScoreLoss += records.Number(out.ScoreLoss[i] / float64(n))
		switch {
		case labelled == 0:
			m.L1 = records.Number(math.NaN())
		case e.Labelled():
			m.L1 += records.Number(math.Abs(out.Score[i]-e.Label) / float64(labelled))
		}
		if len(out.CE) > 0 {
			if m.Text == nil {
				m.Text = new(records.Number)
			}
			*m.Text += records.Number(out.CE[i] / float64(n))
		}
	}
	m.Tokens += out.Tokens
	return notFinite
}

// saveIfDue writes a checkpoint if it is time.
func (t *Trainer) saveIfDue() (err error) {
	c := &t.config.Checkpoint
	due := t.checkpoints.Due(c, t.state.Step)
	if c.Minutes > 0 { // where all processes write it, the main one looks at its clock
		due, err = t.strategy.Due(due)
	}
	if err != nil || !due {
		return err
	}
	return t.save()
}

// save writes a checkpoint of parameters, moments and state.
func (t *Trainer) save() error {
	if err := t.strategy.Save(t.optimizer, t.writeCheckpoint); err != nil {
		return err
	}
	t.checkpoints.Step, t.checkpoints.Time = t.state.Step, time.Now()
	return nil
}

// writeCheckpoint writes a checkpoint of tensors; each gives their contents, whose order does not matter.
func (t *Trainer) writeCheckpoint(tensors []checkpoint.Slice, each func(put checkpoint.Putter) error) error {
	s := &t.state
	var err error
	if s.Metrics, s.Events, s.EventsFile, err = t.records.Sync(); err != nil {
		return err
	}
	s.Updates, s.Seconds = t.optimizer.Groups.Updates(), s.Elapsed()
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	root := filepath.Join(t.config.Out, config.CheckpointsDir)
	return checkpoints.Save(root, s.Step, t.config.Checkpoint.Keep, func(dir string) error {
		if err := checkpoint.WriteTensors(filepath.Join(dir, checkpoint.TensorFile), tensors, each); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, checkpoint.StateFile), append(text, '\n'), 0o666)
	})
}

// shareTextLoss makes the text loss of a batch the mean over the tokens of all its examples, as torch has it over a
// batch and transformers over the micro-batches of a step. Of several processes each counts the tokens of some.
func (t *Trainer) shareTextLoss(batch []dataset.Example) error {
	m, ok := t.model.(models.Targeter)
	if !ok {
		return nil
	}
	var mu sync.Mutex
	tokens := map[int]int{}
	err := workers.Each(len(batch), runtime.NumCPU(), func(i int) error {
		if !t.strategy.Mine(i) {
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
	if err := t.strategy.Union(fmt.Sprintf("tokens of step %d", t.state.Step+1), &tokens, err); err != nil {
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

// inspect looks at all rows that the run will use and marks those that cannot be used.
func (t *Trainer) inspect(ctx context.Context, bar func(what string, total int64, unit string) dataset.Progress) error {
	model, ok := t.model.(dataset.Inspector)
	if !ok {
		return nil
	}
	rows := func(n int64) dataset.Progress { return bar("checking rows", n, "rows") }
	return t.data.CheckRows(ctx, model, t.config.Validate.Limit, rows, t.strategy.Mine,
		func(bad map[int]string, err error) (map[int]string, error) {
			err = t.strategy.Union("rows that cannot be used", &bad, err)
			return bad, err
		})
}

// quarantine finds which rows of a batch that failed are bad themselves, and sets them aside if data.skip allows it. It
// returns nil if the step may be tried again without them, and err or a BadRowsError otherwise. All processes must find
// the same rows.
func (t *Trainer) quarantine(batch []dataset.Example, validation bool, err error) error {
	if !t.strategy.Knows(err) { // the processes have lost each other
		return err
	}
	left := err
	if model, ok := t.model.(dataset.Inspector); ok {
		found, failed := t.data.Quarantine(model, batch, validation, t.state.Step+1)
		if failed != nil {
			left = failed
		} else if found {
			left = exit.Join(t.data.AllowBadRows(t.config.Data.Skip), t.saveBadRows())
		}
	}
	differ := t.strategy.Same("rows that are set aside", func() (map[string]string, error) {
		bad := map[string]string{"after it": fmt.Sprint(left == nil)}
		for _, b := range t.data.BadRows() {
			bad[fmt.Sprintf("row %d of %s", b.Row, b.Table)] = b.Reason
		}
		return bad, nil
	})
	if differ != nil {
		return fmt.Errorf("%w\nafter %w", differ, left)
	}
	return t.strategy.Agree("rows that are set aside", left)
}

func (t *Trainer) saveBadRows() error {
	if !t.strategy.Main() {
		return nil
	}
	return t.data.SaveBadRows(t.config.Out)
}

// checkRows looks at every row before the first step, and sets aside those that cannot be used if the budget allows it.
func (t *Trainer) checkRows(ctx context.Context, o *Options, fresh bool) error {
	if err := t.inspect(ctx, o.bar); err != nil {
		return err
	}
	if err := t.data.AllowBadRows(t.config.Data.Skip); err != nil {
		if !fresh { // whoever repairs the tables may then change these rows
			err = exit.Join(err, t.saveBadRows())
		}
		return exit.Usage(err)
	}
	if fresh {
		t.data.DropBadRows()
	}
	if t.data.Train.Len() == 0 {
		return exit.Usagef("data.train: no rows are left to train on")
	}
	return nil
}
