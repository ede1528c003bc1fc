package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"assay/edit"
	"assay/internal/remote"
	"assay/internal/workers"
)

// Task is a row in progress.
type Task[Row any] struct {
	Index   int
	Row     Row         // as it was read
	Inputs  edit.Inputs // from Prepare
	Content string      // digest of what the result depends on
	unknown error       // why the content of the row is unknown
	err     error       // why the row cannot be worked on
}

// run is one call of Run.
type run[Row, V any] struct {
	*Job[Row, V]
	results         Results[V]
	from, to, total int

	mu     sync.Mutex // of results and what follows
	failed int
}

// Run does the rows in [from, to) that results lack, and adds their lines batch by batch. The next batch is read and
// prepared meanwhile. A failed row does not stop the others. If ctx ends, or an error for which Ends reports true
// occurs, the error is an [InterruptedError]; if Work fails on a whole batch it is a [BatchError].
func (j *Job[Row, V]) Run(ctx context.Context, results Results[V], from, to int) error {
	r := &run[Row, V]{Job: j, results: results, from: from, to: to}
	for i := from; i < to; i++ {
		if j.Skip == nil || !j.Skip(i) {
			r.total++
		}
		if j.MaxFailed > 0 && results.Has(i) {
			if line, err := results.Line(i); err != nil {
				return err
			} else if line.Error != "" {
				if r.failed++; r.failed >= j.MaxFailed {
					return &FailedError{r.failed, j.MaxFailed, i, errors.New(line.Error)}
				}
			}
		}
	}
	r.progress()
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	batches := make(chan []Task[Row], 1)
	var busy sync.WaitGroup
	busy.Go(func() {
		defer close(batches)
		r.read(within, batches)
	})
	for range max(1, j.Workers) {
		busy.Go(func() {
			for batch := range batches {
				if within.Err() != nil {
					return
				}
				if err := r.batch(within, batch); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	busy.Wait()
	err := context.Cause(within)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if errors.Is(err, context.Canceled) || err != nil && j.Ends != nil && j.Ends(err) {
		return &InterruptedError{Done: results.Len(), Rows: r.total, Err: err}
	}
	return err
}

func (r *run[Row, V]) progress() {
	if r.Progress != nil {
		r.Progress(r.results.Len(), r.total)
	}
}

// todo yields the unfinished rows.
func (r *run[Row, V]) todo(yield func(int) bool) {
	for i := r.from; i < r.to; i++ {
		if (r.Skip == nil || !r.Skip(i)) && !r.results.Has(i) && !yield(i) {
			return
		}
	}
}

// read sends batches of unfinished rows until ctx ends, read and prepared. Single rows are read by the worker.
func (r *run[Row, V]) read(ctx context.Context, batches chan<- []Task[Row]) {
	send := func(batch []Task[Row]) bool {
		select {
		case batches <- batch:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if r.Batches == nil {
		for i := range r.todo {
			if !send([]Task[Row]{{Index: i}}) {
				return
			}
		}
		return
	}
	r.readBatches(ctx, send)
}

// readBatches sends the batches that Batches returns, in parts if they exceed MaxSize, until ctx ends.
func (r *run[Row, V]) readBatches(ctx context.Context, send func([]Task[Row]) bool) {
	full := func(size int) bool { return r.MaxSize > 0 && size >= r.MaxSize }
	var before edit.Inputs
	for rows := range r.Batches(iter.Seq[int](r.todo)) {
		var batch []Task[Row]
		size := 0
		for len(rows) > 0 {
			if ctx.Err() != nil {
				return
			}
			n := min(runtime.GOMAXPROCS(0), len(rows))
			if full(size) { // up to the end of the rows that are joined
				n = 1
			}
			part := make([]Task[Row], n)
			workers.Do(n, func(k int) { part[k] = r.prepare(rows[k]) })
			last := rows[n-1]
			rows, batch = rows[n:], append(batch, part...)
			if slices.ContainsFunc(part, r.last) {
				send(batch)
				return
			}
			for k := range part {
				if in := part[k].Inputs; in != nil && part[k].err == nil && r.MaxSize > 0 {
					size += in.Size(before)
					before = in
				}
			}
			if len(rows) > 0 && full(size) && (size >= 2*r.MaxSize || r.Joined == nil || !r.Joined(last, rows[0])) {
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

// last reports whether reading stops after a task: each further attempt could time out as well.
func (r *run[Row, V]) last(t Task[Row]) bool {
	return t.err != nil && (remote.Failed(t.err) || r.Ends != nil && r.Ends(t.err))
}

// prepare reads and prepares a row.
func (r *run[Row, V]) prepare(i int) Task[Row] {
	t := Task[Row]{Index: i}
	t.Row, t.err = r.Read(i)
	if r.Content != nil {
		t.Content, t.unknown = r.Content(t.Row, t.err)
	}
	switch {
	case remote.Failed(t.unknown):
		t.err = t.unknown
	case t.err == nil && r.Prepare != nil:
		if t.Inputs, t.err = r.Prepare(t.Row); t.err != nil {
			t.Inputs = nil
		}
		t.err = cmp.Or(t.err, t.unknown)
	}
	return t
}

// batch works on a batch and adds its results. Its error ends the run.
func (r *run[Row, V]) batch(ctx context.Context, batch []Task[Row]) error {
	if r.Batches == nil {
		batch[0] = r.prepare(batch[0].Index)
	}
	var good []Task[Row]
	for _, t := range batch {
		if t.err == nil {
			good = append(good, t)
		}
	}
	var values []V
	var errs []error
	if len(good) > 0 {
		var err error
		if values, errs, err = r.Work(ctx, good); err != nil {
			return &BatchError{batch[0].Index, err}
		}
	}
	var lines []Line[V]
	var failures []error
	var ends error
	for _, t := range batch {
		line := Line[V]{Row: t.Index, Content: t.Content}
		err := t.err
		if err == nil {
			line.Value, err = values[0], cmp.Or(errs[0], t.unknown)
			values, errs = values[1:], errs[1:]
		}
		if r.results.Has(t.Index) { // it was worked on again together with others
			continue
		}
		switch {
		case err == nil:
		case ctx.Err() != nil: // it was interrupted
			ends = cmp.Or(ends, context.Cause(ctx))
			continue
		case r.Ends != nil && r.Ends(err):
			ends = cmp.Or(ends, err)
			continue
		case remote.Failed(err): // nothing is known of the row
			ends = cmp.Or(ends, fmt.Errorf("row %d: %w; rerun the same command to resume", t.Index+1, err))
			continue
		default:
			line.Error, line.Unreadable, line.Temporary = err.Error(), edit.Unreadable(err), edit.Temporary(err)
		}
		lines, failures = append(lines, line), append(failures, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.results.Add(lines...); err != nil {
		return err
	}
	r.progress()
	for k, err := range failures {
		if err == nil {
			continue
		}
		if r.failed++; r.MaxFailed > 0 && r.failed >= r.MaxFailed {
			return &FailedError{r.failed, r.MaxFailed, lines[k].Row, err}
		}
	}
	return ends
}
