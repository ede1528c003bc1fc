// Package table runs a job over the rows of a table, such as scoring, judging, captioning or measuring them. It
// resumes after an interruption, splits the rows among workers, and writes the results in the order of the rows.
//
//	Read, Content   row i, and a digest of all that its result depends on: rows that changed are redone
//	Prepare         decodes it, ahead of the work, several rows in parallel
//	Work            results of a batch of tasks, which are prepared rows, or an error for each of them
//	Line            the outcome of a row: a line of the journal OUT.progress, or of a shard in OUT.shards
//	write           gets the lines in the order of the rows, and writes OUT
//
// A command fills in a [Job] and calls [Job.Do], or [Job.Shard] for a part of the rows. The value V of a row is plain
// JSON. A row that fails keeps its place, with its error. Temporary errors (a server's) are not journaled, so that
// the next call retries these rows. [Job.Run] is only the pipeline, into any [Results].
package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/remote"
	"assay/internal/shards"
)

// Options are the options of all commands over tables.
type Options struct {
	In      string            // table to read
	Out     string            // table to write
	Columns map[string]string // our column: the table's, if they differ
	Workers int               // batches at a time, which are single rows if a job has no Batches; 0: one

	Shard     shards.Ref // the rows that Shard does
	Merge     bool       // Do writes the table from the results of all shards
	Unchanged bool       // Merge uses rows as they were done, without checking whether they changed since

	Progress func(done, total int) // rows; nil: not called
	Told     func(text string)     // called with what a shard waits for or takes over; nil: not called
}

// Job is work on the rows 0 to Rows-1 of a table. Row is a row as it is read, V the value of its result.
type Job[Row, V any] struct {
	Options
	Rows int
	// Head identifies what results belong to: input, models, options. A journal with another head is refused.
	Head any
	// Plan returns the head of shards, which usually also has a digest of the table's bytes; nil: Head.
	Plan func() (any, error)

	// Read reads a row without decoding its pictures. It is called from several goroutines, as are Content and Prepare.
	Read func(i int) (Row, error)
	// Content returns a digest of what a row's result depends on; err is the error of Read. unknown is the error if
	// the bytes of an existing picture cannot be read: such a row gets no result. nil: there is no such digest. See
	// [Content].
	Content func(row Row, err error) (digest string, unknown error)
	// Prepare makes a judge's inputs of a row while the previous batch is worked on. Its error is the row's. May be
	// nil.
	Prepare func(row Row) (edit.Inputs, error)
	// Work returns a value and an error (nil: none) for each task of a batch. err is not caused by the rows, and ends
	// the run.
	Work func(ctx context.Context, tasks []Task[Row]) (values []V, errs []error, err error)

	// Batches splits the rows to do into batches, which may also contain rows that are done: their results stay. nil:
	// each row is a batch.
	Batches func(rows iter.Seq[int]) iter.Seq[[]int]
	MaxSize int                 // a batch whose inputs reach this size is worked on in parts; 0: no limit
	Joined  func(a, b int) bool // rows that stay together, below twice MaxSize; nil: none

	Skip      func(i int) bool     // rows that are left out; nil: none
	Ends      func(err error) bool // errors of rows that end the run, which can be resumed, as when a server is gone
	MaxFailed int                  // this many failed rows end the run with a [FailedError]; 0: any number may fail

	// Weigh returns the bytes of a row, and whether a shard may start with it; nil: all rows weigh the same.
	Weigh func(i int) (bytes int64, begins bool)
	Name  func(i int) string // of a row, in messages of shards; nil: its number
}

// Get reads the line of a row. Rows are read in order.
type Get[V any] func(row int) (Line[V], error)

// InterruptedError reports that a run ended before its last row. The same call resumes there.
type InterruptedError struct {
	Done, Rows int
	Journal    string // file with the results so far; "": none
	Err        error  // the context's, or one for which Job.Ends reports true
}

func (e *InterruptedError) Error() string {
	text := fmt.Sprintf("%d of %d rows are saved in %s; rerun the same command to resume", e.Done, e.Rows, e.Journal)
	if e.Journal == "" {
		text = fmt.Sprintf("%d of %d rows are done; rerun the same command to resume", e.Done, e.Rows)
	}
	if errors.Is(e.Err, context.Canceled) {
		return fmt.Sprintf("%s: %v", text, exit.ErrInterrupted)
	}
	return fmt.Sprintf("%v: %s", e.Err, text)
}

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Err }

// Is reports an error caused by the end of a context as an exit.ErrInterrupted.
func (e *InterruptedError) Is(target error) bool {
	return target == exit.ErrInterrupted && errors.Is(e.Err, context.Canceled)
}

// FailedError reports that too many rows failed.
type FailedError struct {
	Failed, Max int
	Row         int // the last of them, from 0
	Err         error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%d rows failed, and %d end the run; row %d: %v", e.Failed, e.Max, e.Row+1, e.Err)
}

// Unwrap returns the error of the row.
func (e *FailedError) Unwrap() error { return e.Err }

// BatchError reports that Work failed on a whole batch.
type BatchError struct {
	Row int // the first one of the batch
	Err error
}

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// Do does all rows and calls write with their results, or with the results of all shards if Merge is set. Results are
// saved in OUT.progress until write returns without an error. If ctx ends, or an error for which Ends reports true
// occurs, the error is an [InterruptedError], and the same call resumes. Rows that have changed meanwhile are redone.
func (j *Job[Row, V]) Do(ctx context.Context, write func(Get[V]) error) error {
	if j.Merge {
		return j.merge(write)
	}
	journal, err := remote.Local(j.Out, ".progress")
	if err != nil {
		return err
	}
	k, err := j.Resume(ctx, journal)
	if err != nil {
		return err
	}
	if err := exit.Join(write(k.Line), k.Close()); err != nil {
		return err
	}
	return os.Remove(journal)
}

// Resume opens or creates the journal of a run, does the rows that it lacks, and returns it. The caller closes it.
func (j *Job[Row, V]) Resume(ctx context.Context, journal string) (*Journal[V], error) {
	return j.resume(ctx, journal, 0, j.Rows)
}

func (j *Job[Row, V]) resume(ctx context.Context, journal string, from, to int) (*Journal[V], error) {
	k, err := j.open(journal)
	if err != nil {
		return nil, exit.Named(err) // there is no folder to write to
	}
	err = exit.Join(j.Run(ctx, k, from, to), k.index.Sync())
	if err == nil {
		return k, nil
	}
	if e := new(InterruptedError); errors.As(err, &e) {
		e.Journal = journal
	}
	return nil, exit.Join(err, k.Close())
}

// InMemory does all rows and returns their results, without a journal.
func (j *Job[Row, V]) InMemory(ctx context.Context) (Memory[V], error) {
	m := NewMemory[V]()
	return m, j.Run(ctx, m, 0, j.Rows)
}

// Rewrite returns a function for [Job.Do] that writes the rows of t with further columns into Out; set fills them in.
func (j *Job[Row, V]) Rewrite(
	ctx context.Context, t *data.Table, columns []data.Column, set func(line *Line[V], rec *data.Record) error,
) func(Get[V]) error {
	return func(get Get[V]) error {
		format, err := data.FormatOf(j.Out)
		if err != nil {
			return err
		}
		return t.Rewrite(ctx, j.Out, format, columns, func(i int, rec *data.Record) error {
			line, err := get(i)
			if err != nil {
				return err
			}
			return set(&line, rec)
		})
	}
}

// Clear sets columns of a row to nil. New columns are appended to the row.
func Clear(rec *data.Record, columns []data.Column) {
	for _, c := range columns {
		rec.Set(c.Name, nil)
	}
}

// Chunks splits rows into batches of n.
func Chunks(n int) func(iter.Seq[int]) iter.Seq[[]int] {
	return func(rows iter.Seq[int]) iter.Seq[[]int] {
		return func(yield func([]int) bool) {
			var batch []int
			for i := range rows {
				if batch = append(batch, i); len(batch) == n {
					if !yield(batch) {
						return
					}
					batch = nil
				}
			}
			if len(batch) > 0 {
				yield(batch)
			}
		}
	}
}

// Single makes the Work of a job from a function of one row.
func Single[Row, V any](
	work func(context.Context, *Task[Row]) (V, error),
) func(context.Context, []Task[Row]) ([]V, []error, error) {
	return func(ctx context.Context, tasks []Task[Row]) ([]V, []error, error) {
		values, errs := make([]V, len(tasks)), make([]error, len(tasks))
		for i := range tasks {
			values[i], errs[i] = work(ctx, &tasks[i])
		}
		return values, errs, nil
	}
}

// Inputs returns the inputs of tasks, in their order.
func Inputs[Row any](tasks []Task[Row]) []edit.Inputs {
	inputs := make([]edit.Inputs, len(tasks))
	for i := range tasks {
		inputs[i] = tasks[i].Inputs
	}
	return inputs
}

// decoded adds the JPEG decoder to a head, unless it is Go's: all results must come from pixels of the same decoder.
func decoded(head any) (any, error) {
	name, _ := data.JPEGDecoder()
	if name == data.GoDecoder {
		return head, nil
	}
	raw, err := json.Marshal(head)
	if err != nil || !bytes.HasPrefix(raw, []byte(`{"`)) { // not an object with fields
		return head, err
	}
	return json.RawMessage(fmt.Sprintf(`{"jpeg":%q,%s`, name, raw[1:])), nil
}

// work opens the shards of the table.
func (j *Job[Row, V]) work() (w *shards.Work[Line[V]], err error) {
	head := j.Head
	if j.Plan != nil {
		if head, err = j.Plan(); err != nil {
			return nil, err
		}
	}
	if head, err = decoded(head); err != nil {
		return nil, err
	}
	if dir := shards.Folder(j.Out); j.Merge {
		w, err = shards.Reopen[Line[V]](dir, head, j.Rows)
	} else {
		weigh := j.Weigh
		if weigh == nil {
			weigh = func(int) (int64, bool) { return 0, true }
		}
		w, err = shards.Open[Line[V]](dir, j.Options.Shard.Count, head, j.Rows, weigh)
	}
	if err != nil {
		return nil, err
	}
	w.Told = j.Told
	if j.Name != nil {
		w.Name = func(l Line[V]) string { return j.Name(l.Row) }
	}
	if !j.Unchanged {
		w.Changed = func(l Line[V]) (bool, error) {
			changed, unknown := j.changed(l)
			if !changed {
				return false, nil
			}
			return true, unknown
		}
	}
	return w, nil
}

// Shard does the rows of the shards that Options.Shard names, into [shards.Folder] of Out. When all are done, Do with
// Merge writes the same table as without shards. A shard with temporary failures is not done
// ([shards.TemporaryError]): the same call retries these rows.
func (j *Job[Row, V]) Shard(ctx context.Context) (*shards.Report, error) {
	w, err := j.work()
	if err != nil {
		return nil, err
	}
	return w.Do(ctx, j.Options.Shard, func(ctx context.Context, s shards.Shard) ([]Line[V], error) {
		k, err := j.resume(ctx, s.Progress, s.From, s.To)
		if err != nil {
			return nil, err
		}
		lines, err := shards.Collect(s, k.index.Get)
		return lines, exit.Join(err, k.Close())
	})
}

// merge calls write with the lines of all shards.
func (j *Job[Row, V]) merge(write func(Get[V]) error) error {
	w, err := j.work()
	if err != nil {
		return err
	}
	get, stop, err := w.Reader()
	if err != nil {
		return err
	}
	defer stop()
	return write(get)
}
