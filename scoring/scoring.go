// Package scoring is the way from edits to scores: items are read, decoded and prepared ahead, several at once, then
// scored in batches. Results come in the order of the items, each a score or an error of its own.
//
// [Job] is the pipeline. [Rows] scores the rows of a table with it, and [Table] does so from file to file and resumes.
package scoring

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"assay/internal/workers"
	"assay/model"
)

// Scorer prepares items and scores what it prepared. [model.Scorer] is one, of pairs of pictures. Its methods are
// called from several goroutines at once.
type Scorer[Item, Sample any] interface {
	// Prepare makes the inputs of the model. Its error is that of the item.
	Prepare(Item) (Sample, error)
	// Score returns one score for each sample, in their order.
	Score(context.Context, []Sample) ([]float64, error)
}

// Judge is a [Scorer] that says more than a score; [model.Scorer] is one.
type Judge[Sample any] interface {
	Judge(context.Context, []Sample) ([]model.Judgement, error)
}

// JudgeWith returns what scores samples with all that a scorer says: its method Judge, or Score if it has none.
func JudgeWith[Item, Sample any](s Scorer[Item, Sample]) func(context.Context, []Sample) ([]model.Judgement, error) {
	if j, ok := s.(Judge[Sample]); ok {
		return j.Judge
	}
	return func(ctx context.Context, samples []Sample) ([]model.Judgement, error) {
		scores, err := s.Score(ctx, samples)
		judgements := make([]model.Judgement, len(scores))
		for i, v := range scores {
			judgements[i].Score01 = v
		}
		return judgements, err
	}
}

// EachJudge is a [Scorer] whose samples fail each by itself, as those of a judge that answers in words. It returns a
// judgement or an error for each; err is not the samples' fault, and ends the run.
type EachJudge[Sample any] interface {
	JudgeEach(context.Context, []Sample) (judgements []model.Judgement, errs []error, err error)
}

// Unreadable reports whether an error says that an answer in words could not be read.
func Unreadable(err error) bool {
	var answer interface{ Unreadable() bool }
	return errors.As(err, &answer) && answer.Unreadable()
}

// Passing reports whether an error may not come again, as that of a server.
func Passing(err error) bool {
	var of interface{ Temporary() bool }
	return errors.As(err, &of) && of.Temporary()
}

// PairScorer scores pairs of pictures; [model.Scorer] is one. Scores are score01: 0..1, not clipped.
type PairScorer = Scorer[model.Pair, *model.Sample]

// Result is what became of an item: a score or an error.
type Result struct {
	Index     int             // of the item
	Score     float64         // as the scorer gives it
	Judgement model.Judgement // the same, with all else that it says
	Err       error           // why there is none
}

// BatchError says that not one item of a batch could be scored, which is not the items' fault.
type BatchError struct {
	Index int // of the first item of the batch
	Err   error
}

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// Job says what is scored, and how.
type Job[Item, Sample any] struct {
	Scorer  Scorer[Item, Sample]
	Batches iter.Seq[[]int]           // indices of the items that are scored together, batch after batch
	Read    func(i int) (Item, error) // reads and decodes an item; called from several goroutines
	Size    func(Sample) int          // of a prepared sample, as MaxSize counts it; nil: not counted
	MaxSize int                       // a batch that has become so large is scored in parts; 0: no bound
	Joined  func(a, b int) bool       // items that are not to be parted by that, below twice the size; nil: none
	Report  func([]Result) error      // told of every batch, in order; its error ends the run
	Last    func(error) bool          // errors of items after which no more are read, as Report ends the run; nil: none
}

// Run scores all items. While one batch is scored the next one is prepared. An item that cannot be read, prepared or
// scored does not keep the others from it. The error is that of Report or of ctx, or a [BatchError].
func (j *Job[Item, Sample]) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan []prepared[Sample], 1)
	go func() {
		defer close(batches)
		j.prepare(ctx, batches)
	}()
	for batch := range batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		results, err := j.score(ctx, batch)
		if err != nil {
			return err
		}
		if err := j.Report(results); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// prepared is an item on its way.
type prepared[Sample any] struct {
	index  int
	sample Sample
	err    error
}

// prepare sends the batches, each item read and prepared, until ctx ends.
func (j *Job[Item, Sample]) prepare(ctx context.Context, batches chan<- []prepared[Sample]) {
	send := func(batch []prepared[Sample]) bool {
		select {
		case batches <- batch:
			return true
		case <-ctx.Done():
			return false
		}
	}
	cores := runtime.GOMAXPROCS(0)
	for indices := range j.Batches {
		var batch []prepared[Sample]
		size := 0
		for len(indices) > 0 {
			if ctx.Err() != nil {
				return
			}
			n := min(cores, len(indices))
			if j.full(size) { // up to the end of the group
				n = 1
			}
			part := make([]prepared[Sample], n)
			workers.Do(len(part), func(k int) { part[k] = j.prepareOne(indices[k]) })
			last := indices[n-1]
			indices, batch = indices[n:], append(batch, part...)
			if slices.ContainsFunc(part, j.last) {
				send(batch)
				return
			}
			for _, p := range part {
				if p.err == nil && j.Size != nil {
					size += j.Size(p.sample)
				}
			}
			if len(indices) > 0 && j.full(size) && (size >= 2*j.MaxSize || j.Joined == nil || !j.Joined(last, indices[0])) {
				if !send(batch) {
					return
				}
				batch, size = nil, 0
			}
		}
		if !send(batch) {
			return
		}
	}
}

// last tells whether nothing is to be read behind an item.
func (j *Job[Item, Sample]) last(p prepared[Sample]) bool {
	return p.err != nil && j.Last != nil && j.Last(p.err)
}

// full tells whether a batch of that size is scored without waiting for more.
func (j *Job[Item, Sample]) full(size int) bool { return j.MaxSize > 0 && size >= j.MaxSize }

func (j *Job[Item, Sample]) prepareOne(i int) prepared[Sample] {
	p := prepared[Sample]{index: i}
	item, err := j.Read(i)
	if err == nil {
		p.sample, err = j.Scorer.Prepare(item)
	}
	p.err = err
	return p
}

// score scores what of a batch could be prepared.
func (j *Job[Item, Sample]) score(ctx context.Context, batch []prepared[Sample]) ([]Result, error) {
	results := make([]Result, len(batch))
	var samples []Sample
	var at []int // of each sample
	for i, p := range batch {
		results[i] = Result{Index: p.index, Err: p.err}
		if p.err == nil {
			samples, at = append(samples, p.sample), append(at, i)
		}
	}
	judge := func(ctx context.Context, samples []Sample) ([]model.Judgement, []error, error) {
		return Batch(ctx, samples, JudgeWith(j.Scorer))
	}
	if each, ok := j.Scorer.(EachJudge[Sample]); ok {
		judge = each.JudgeEach
	}
	judgements, errs, err := judge(ctx, samples)
	if err != nil && ctx.Err() == nil {
		err = &BatchError{Index: batch[0].index, Err: err}
	}
	if err != nil {
		return nil, err
	}
	for k, i := range at {
		results[i].Score, results[i].Judgement, results[i].Err = judgements[k].Score01, judgements[k], errs[k]
	}
	return results, nil
}

// Batch runs all samples at once or, where that fails, one by one. A sample that cannot be scored, for want of memory
// or because its score is no number, has an error of its own. It returns a result or an error for each.
//
// If none of several can be done, that is not the samples' fault: err is the error of all at once. It is also set
// when ctx ends; then there are no results.
func Batch[Sample, R any](
	ctx context.Context, samples []Sample, run func(context.Context, []Sample) ([]R, error),
) (results []R, errs []error, err error) {
	if len(samples) == 0 {
		return nil, nil, nil
	}
	errs = make([]error, len(samples))
	checked := func(part []Sample) ([]R, error) {
		results, err := run(ctx, part)
		if err == nil && len(results) != len(part) {
			err = fmt.Errorf("%d results for %d samples", len(results), len(part))
		}
		return results, err
	}
	results, err = checked(samples)
	switch {
	case err == nil:
		return results, errs, nil
	case ctx.Err() != nil:
		return nil, nil, err
	case len(samples) == 1:
		return make([]R, 1), []error{err}, nil
	}
	results = make([]R, len(samples))
	failed := 0
	for i := range samples {
		one, e := checked(samples[i : i+1])
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case e != nil:
			errs[i] = e
			failed++
		default:
			results[i] = one[0]
		}
	}
	if failed < len(samples) {
		err = nil
	}
	return results, errs, err
}
