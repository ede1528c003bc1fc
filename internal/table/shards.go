package table

import (
	"context"

	"assay/internal/exit"
	"assay/internal/shards"
)

// work opens the shards of the table.
func (j *Job[Row, V]) work() (w *shards.Work[Line[V]], err error) {
	head := j.Head
	if j.Plan != nil {
		if head, err = j.Plan(); err != nil {
			return nil, err
		}
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
// ([shards.TemporaryError]): the same call tries these rows again.
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
