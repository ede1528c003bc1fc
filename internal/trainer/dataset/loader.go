package dataset

import (
	"cmp"
	"math"
	"time"

	"assay/internal/trainer/config"
)

// BatchSampler cuts the order of a run's samples into batches. A position counts samples from the start of the run,
// or groups if batches hold whole groups.
type BatchSampler struct {
	Order  *Order
	Groups *Groups // nil: batches are cut between rows
	Steps  int64   // of the whole run
	Limit  int64   // the position at which the run ends
	Edits  int64   // of the whole run; only counted with whole groups

	size int // edits per batch; with whole groups, the maximum
}

// NewBatchSampler creates the batch sampler of a run at a step and a position.
func NewBatchSampler(c *config.Config, train *Samples, step, at int64) (*BatchSampler, error) {
	s := &BatchSampler{Order: NewOrder(c.Seed, train.Groups(), c.Data.Sampling), size: c.StepRows()}
	weights, err := drawWeights(c, train)
	if err != nil {
		return nil, err
	}
	s.Order.weigh(weights)
	iterations := c.Iterations()
	switch batch := int64(c.StepRows()); {
	case c.Data.Sampling == config.WholeGroups:
		s.wholeGroups(c, train, step, at)
	case c.Steps > 0:
		s.Steps, s.Limit = c.Steps, at+(c.Steps-step/iterations*iterations+iterations-1)/iterations*batch
	default:
		s.Limit = int64(c.Epochs) * s.Order.Len()
		s.Steps = step/iterations*iterations + max(0, s.Limit-at+batch-1)/batch*iterations
	}
	return s, nil
}

// wholeGroups counts the steps of a run with whole groups, where the number of edits per batch varies.
func (s *BatchSampler) wholeGroups(c *config.Config, train *Samples, step, at int64) {
	bound := c.Data.GroupEdits
	bound = cmp.Or(bound, c.BatchSize)
	s.Groups = NewGroups(s.Order, train, bound)
	s.Steps, s.Limit = c.Steps, math.MaxInt64
	if c.Steps == 0 {
		s.Steps, s.Limit = math.MaxInt64, int64(c.Epochs)*s.Order.Len()
	}
	for step < s.Steps && at < s.Limit {
		next := s.Next(at)
		s.Edits += s.Groups.edits(s.Order, at, next)
		at = next
		step++
	}
	s.Steps, s.Limit = step, at
}

// Next returns the position after the batch that starts at a position.
func (s *BatchSampler) Next(at int64) int64 {
	if s.Groups != nil {
		return s.Groups.cut(s.Order, at, s.Limit, s.size)
	}
	return min(at+int64(s.size), s.Limit)
}

// Count returns the number of edits between two positions.
func (s *BatchSampler) Count(from, to int64) int64 {
	if s.Groups != nil {
		return s.Groups.edits(s.Order, from, to)
	}
	return to - from
}

// Epochs returns the number of epochs completed at a position, with the fraction of the current one.
func (s *BatchSampler) Epochs(at int64) float64 { return float64(at) / float64(s.Order.Len()) }

// Largest returns the largest number of edits of a group in a step; 0 without whole groups.
func (s *BatchSampler) Largest() int {
	if s.Groups == nil {
		return 0
	}
	return s.Groups.largest(s.Order)
}

// Split cuts a batch into micro-batches of a size. They hold whole groups if the run has them: a group larger than a
// micro-batch is a micro-batch by itself.
func (s *BatchSampler) Split(batch []Example, size int) (parts [][]Example) {
	lo := 0
	for i := range batch {
		begins := s.Groups == nil || i == 0 || batch[i].Unit != batch[i-1].Unit
		end := i + 1
		for s.Groups != nil && end < len(batch) && batch[end].Unit == batch[i].Unit {
			end++
		}
		if begins && i > lo && end-lo > size {
			parts = append(parts, batch[lo:i])
			lo = i
		}
	}
	if lo < len(batch) {
		parts = append(parts, batch[lo:])
	}
	return parts
}

// batchRow is a row of a batch that has not been read.
type batchRow struct {
	row, unit, number int // number: index of its group in the batch
	epoch             int64
}

// rows lists the usable rows of the batch between two positions.
func (s *BatchSampler) rows(train *Samples, from, to int64) (out []batchRow) {
	for at := from; at < to; at++ {
		var unit int
		var epoch int64
		rows := make([]int, 1)
		if s.Groups != nil {
			unit, rows, epoch = s.Groups.rows(s.Order, at)
		} else {
			rows[0], epoch = s.Order.At(at)
		}
		for _, row := range rows {
			if train.Usable(row) { // the position of a quarantined row stays empty
				out = append(out, batchRow{row, unit, int(at - from), epoch})
			}
		}
	}
	return out
}

// Prefetcher is a model that can prepare examples (decode and preprocess their pictures, tokenise their texts) while
// another step runs.
type Prefetcher interface {
	// Prefetch prepares the examples in place. The step that uses an example reports its error.
	Prefetch(part []Example)
}

// Loader reads the batches of a run. While one micro-batch is computed, it prepares the next one, or the next batch
// with its first micro-batch. Only one is prepared at a time, so that memory holds the pictures of two micro-batches.
type Loader struct {
	*BatchSampler
	MicroBatch int
	Waited     time.Duration // time spent waiting for examples, since the caller set it to 0

	train    *Samples
	config   *config.Config
	model    Prefetcher // nil: no prefetching
	prefetch *prefetch  // running, or done and not used yet; nil: none
	parallel bool       // the next batch may be read while a step runs
}

// prefetch is a batch or a micro-batch that is being prepared.
type prefetch struct {
	at    int64 // position of the batch; -1: a micro-batch of the current one
	done  chan struct{}
	batch []Example
	err   error
}

// NewLoader creates the loader of a run at a step and a position. Without prefetching, batches are read on demand.
func NewLoader(c *config.Config, train *Samples, step, at int64) (*Loader, error) {
	s, err := NewBatchSampler(c, train, step, at)
	return &Loader{BatchSampler: s, train: train, config: c}, err
}

// Prefetches enables prefetching, with the model if it is a Prefetcher. Only tables are read while a step runs:
// examples generated by a program may not be safe for that.
func (l *Loader) Prefetches(model any) {
	l.model, _ = model.(Prefetcher)
	l.parallel = !l.train.Made()
}

// Read reads the batch at a position; with an error it returns the example that failed.
func (l *Loader) Read(at int64) ([]Example, error) { return l.read(l.rows(l.train, at, l.Next(at))) }

func (l *Loader) read(rows []batchRow) (out []Example, err error) {
	for _, b := range rows {
		e, err := l.train.Example(b.row)
		e.Index, e.Unit, e.Group = b.row, b.number, b.unit
		if err != nil { // quarantine checks whether the row itself is bad
			return []Example{e}, err
		}
		l.draw(&e, b.epoch)
		out = append(out, e)
	}
	return out, nil
}

// draw chooses templates and augmentation. All edits of a whole group get the same templates.
func (l *Loader) draw(e *Example, epoch int64) {
	c, row := l.config, uint64(e.Index)
	if l.Groups != nil {
		row = uint64(l.Order.Units[e.Group][0])
	}
	e.Question = c.Question[pick(Mix(c.Seed, forQuestion, uint64(epoch), row), len(c.Question))]
	e.Answer = c.Answer[pick(Mix(c.Seed, forAnswer, uint64(epoch), row), len(c.Answer))]
	if c.Augment != "none" {
		e.augment(max(1, Mix(c.Seed, forAugment, uint64(epoch), row)))
	}
	if e.Annotations.None() && e.Conversation == nil { // generated by a program
		e.Annotations.Labels = map[string]float64{"": e.Label}
	}
}

// Load returns the batch at a position with its first micro-batch prepared: the prefetched batch, or one that is read
// now.
func (l *Loader) Load(at int64) ([]Example, error) {
	defer l.timed(time.Now())
	if p := l.join(); p != nil && p.at == at && p.err == nil {
		return p.batch, nil
	}
	batch, err := l.Read(at)
	if err == nil {
		l.prepareFirst(batch)
	}
	return batch, err
}

// Join waits for the running prefetch.
func (l *Loader) Join() {
	defer l.timed(time.Now())
	l.join()
}

// Discard waits for the running prefetch and drops its result.
func (l *Loader) Discard() { l.join() }

func (l *Loader) join() *prefetch {
	p := l.prefetch
	if l.prefetch = nil; p != nil {
		<-p.done
	}
	return p
}

func (l *Loader) timed(since time.Time) { l.Waited += time.Since(since) }

func (l *Loader) prepareFirst(batch []Example) {
	if l.model != nil && len(batch) > 0 {
		l.model.Prefetch(l.Split(batch, l.MicroBatch)[0])
	}
}

// Prefetch starts preparing what follows micro-batch i of a step's batch; at is the position of the batch.
func (l *Loader) Prefetch(parts [][]Example, i int, step, at int64) {
	p := &prefetch{at: -1, done: make(chan struct{})}
	if i+1 < len(parts) {
		if l.model != nil {
			l.prefetch = p
			go func() {
				defer close(p.done)
				l.model.Prefetch(parts[i+1])
			}()
		}
		return
	}
	from := l.Next(at)
	if !l.parallel || from >= l.Limit || step+1 >= l.Steps {
		return
	}
	rows := l.rows(l.train, from, l.Next(from))
	p.at, l.prefetch = from, p
	go func() {
		defer close(p.done)
		if p.batch, p.err = l.read(rows); p.err == nil {
			l.prepareFirst(p.batch)
		}
	}()
}
