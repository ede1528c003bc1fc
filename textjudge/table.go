package textjudge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"assay/chat"
	"assay/data"
	"assay/internal/exit"
	"assay/internal/journal"
	"assay/internal/remote"
	"assay/internal/workers"
	"assay/shards"
)

// TableOptions say which table is judged, and what is written.
type TableOptions struct {
	In      string            // .jsonl, .csv or .parquet: instruction and the pictures of the judge's roles
	Out     string            // another one, .jsonl or .parquet: the same rows in the same order
	Columns map[string]string // our column: the table's, for other names
	Workers int               // rows at a time

	Progress func(done, total int) // nil: not called

	Shard shards.Ref        // the part of the rows that TableShard judges
	Merge bool              // write the table from what all shards hold
	Told  func(text string) // of what a shard waits for; nil: not called

	Unchanged bool // merge rows as they were judged, without a look at whether they are others now
}

// StoppedError says that a run ended before its table did, and where what is done is kept. The same call goes on there.
type StoppedError struct {
	Done, Total int
	Progress    string
	Err         error // the context's, or wraps chat.ErrUnavailable
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("%d of %d rows are kept in %s: %v", e.Done, e.Total, e.Progress, e.Err)
}

func (e *StoppedError) Unwrap() error { return e.Err }

// run is a table on its way.
type run struct {
	judge *Judge
	table *data.Table
	roles []string
	o     TableOptions
	stop  context.CancelCauseFunc

	from, to int // rows to judge

	telling sync.Mutex
	done    *journal.Index[row]
}

// Table judges every row of a table and writes the rows with score, score01, dimensions, answers and error added. Those
// of pairs have preference (1: edit, 0: edit2), preferred and agree instead of scores. A row that cannot be judged has
// an error and no number.
//
// Results are kept in OUT.progress. When ctx ends, when a cap is reached or when the model answers no more, the error
// is a [StoppedError]. The same call goes on there, and asks again only what the server failed at.
func (j *Judge) Table(ctx context.Context, o TableOptions) (*TableResult, error) {
	format, err := data.FormatOf(o.Out)
	if err != nil {
		return nil, err
	}
	r, err := j.begin(o)
	if err != nil {
		return nil, err
	}
	defer r.table.Close()
	if o.Merge {
		return r.merge(ctx, format)
	}
	progress := o.Out + ".progress"
	if err := r.open(progress); err != nil {
		return nil, err
	}
	var result *TableResult
	err = r.rows(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, chat.ErrUnavailable) {
		err = &StoppedError{r.done.Len(), r.table.Len(), progress, err}
	} else if err == nil {
		result, err = r.write(ctx, format, r.done.Get)
	}
	if err = errors.Join(err, r.done.Close()); err != nil {
		return nil, err
	}
	return result, os.Remove(progress)
}

// begin opens the table.
func (j *Judge) begin(o TableOptions) (r *run, err error) {
	r = &run{judge: j, roles: j.Roles(), o: o}
	if r.table, err = data.OpenTable(o.In, data.WithColumns(o.Columns), data.WithFound(o.Columns),
		data.WithRequired(r.required()...), data.WithOnly("source", "edit", "target", "instruction"),
		data.WithPictures(r.roles...)); err != nil {
		return nil, exit.Usage(err)
	}
	if err := r.table.CheckOutput(o.Out); err != nil {
		return nil, errors.Join(exit.Usage(err), r.table.Close())
	}
	r.to = r.table.Len()
	return r, nil
}

// head says what a run's results belong to.
type head struct {
	In    string `json:"in"`
	Rows  int    `json:"rows"`
	Judge string `json:"judge"`
}

func (r *run) head() (head, error) {
	in, err := filepath.Abs(r.table.Path())
	return head{in, r.table.Len(), r.judge.Fingerprint()}, err
}

// open reads what is done already of rows that were not changed since.
func (r *run) open(progress string) error {
	head, err := r.head()
	if err != nil {
		return err
	}
	r.done, err = journal.OpenIndex(progress, head, r.table.Len(), func(d row) int { return d.Row }, r.unchanged)
	return err
}

// unchanged tells whether a row is still what it was when it was judged.
func (r *run) unchanged(d row) bool {
	_, pictures, err := r.read(d.Row)
	content, _ := r.content(d.Row, pictures, err)
	return content == d.Content
}

// rows judges all rows that are not done.
func (r *run) rows(ctx context.Context) error {
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	r.told()
	workers.Each(r.to-r.from, max(r.o.Workers, 1), func(k int) error {
		if i := r.from + k; ctx.Err() == nil && !r.done.Has(i) {
			if err := r.one(ctx, i); err != nil {
				r.stop(err)
			}
		}
		return nil
	})
	return errors.Join(context.Cause(ctx), r.done.Sync())
}

// one judges a row. Its error ends the run.
func (r *run) one(ctx context.Context, i int) error {
	instruction, images, err := r.read(i)
	content, failed := r.content(i, images, err)
	if failed != nil {
		return fmt.Errorf("row %d: %w; the same command goes on", i+1, failed)
	}
	d := row{Row: i, Content: content}
	var server *chat.ServerError
	var answer *AnswerError
	if err == nil {
		var item Item
		if item, err = r.decode(instruction, images); err == nil {
			var result *Result
			result, err = r.judge.Judge(ctx, item)
			d.Result = *result
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, chat.ErrUnavailable):
		return err
	case remote.Failed(err):
		return fmt.Errorf("row %d: %w; the same command goes on", i+1, err)
	case err != nil:
		d.Error = err.Error()
	}
	d.Unreadable, d.passing = errors.As(err, &answer), errors.As(err, &server)
	defer r.told()
	if d.passing { // it may answer another time, so the error is not kept
		r.done.Hold(d)
		return nil
	}
	return r.done.Write(d)
}

func (r *run) told() {
	if r.o.Progress == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.o.Progress(r.done.Len(), r.to-r.from)
}
