package scoring

import (
	"context"
	"errors"

	"assay/data"
	"assay/internal/remote"
	"assay/shards"
	"assay/store"
)

// work opens the shards of a table.
func (o *TableOptions) work(t *data.Table, s TableScorer) (w *shards.Work[Row], err error) {
	var head progressHead
	if head.In, err = remote.Abs(t.Path()); err != nil {
		return nil, err
	}
	head.Rows = t.Len()
	if head.Scorer, err = s.Fingerprint(); err != nil {
		return nil, err
	}
	table, err := store.FileDigest(t.Path())
	if err != nil {
		return nil, err
	}
	what := struct {
		progressHead
		Table   string            `json:"table"` // digest of its bytes
		Columns map[string]string `json:"columns,omitempty"`
	}{head, table.String(), o.Columns}
	if o.Merge {
		w, err = shards.Reopen[Row](shards.Folder(o.Out), what, t.Len())
	} else {
		w, err = shards.Open[Row](shards.Folder(o.Out), o.Shard.Count, what, t.Len(), weigh(t))
	}
	if err != nil {
		return nil, err
	}
	w.Place = func(r Row) int { return r.Row }
	w.Failed = func(r Row) bool { return r.Error != "" }
	w.Passing = func(r Row) bool { return r.passing }
	w.Why = func(r Row) string { return r.Error }
	w.Told = o.Told
	if !o.Unchanged {
		w.Changed = func(r Row) (bool, error) {
			content, unknown := contentOf(t, r.Row)
			if content == r.Content {
				return false, nil
			}
			return true, unknown
		}
	}
	return w, nil
}

// weigh gives the bytes of the pictures of a table's rows, and cuts between groups: edits of one source by one
// instruction, one behind the other, stay together.
func weigh(t *data.Table) func(row int) (bytes int64, begins bool) {
	last := ""
	return func(i int) (bytes int64, begins bool) {
		row, err := t.Read(i)
		if err != nil {
			return 0, true
		}
		for _, m := range []data.Image{row.Source, row.Edit} {
			bytes += m.Size(t.Folder())
		}
		asked := row.Source.Path + "\x00" + row.Instruction
		begins = asked != last || row.Source.Path == ""
		last = asked
		return bytes, begins
	}
}

// TableShard scores the rows of the shards that o.Shard names, into [shards.Folder]. When all shards are there, [Table]
// with o.Merge writes the table, the same as if it had been scored at once. When ctx is cancelled the error is its own;
// the same call goes on.
func TableShard(ctx context.Context, s TableScorer, o TableOptions) (*shards.Report, error) {
	if _, err := o.check(); err != nil {
		return nil, err
	}
	t, err := o.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	w, err := o.work(t, s)
	if err != nil {
		return nil, err
	}
	return w.Do(ctx, o.Shard, func(ctx context.Context, shard shards.Shard) ([]Row, error) {
		return o.shard(ctx, s, t, shard)
	})
}

// shard scores one shard, and goes on where one was left.
func (o *TableOptions) shard(
	ctx context.Context, s TableScorer, t *data.Table, shard shards.Shard,
) ([]Row, error) {
	k, err := openKept(shard.Progress, t, s, nil)
	if err != nil {
		return nil, err
	}
	told := func() {
		if o.Progress != nil {
			o.Progress(k.Len(), shard.To-shard.From)
		}
	}
	var rows []Row
	if err = k.within(ctx, s, t, shard.From, shard.To, told); err == nil {
		rows, err = shards.Collect(shard, k.Get)
	}
	return rows, errors.Join(err, k.Close())
}

// mergeTable writes a table from what all shards hold.
func mergeTable(
	ctx context.Context,
	s TableScorer,
	o TableOptions,
	t *data.Table,
	f data.Format,
) (*TableResult, error) {
	w, err := o.work(t, s)
	if err != nil {
		return nil, err
	}
	next, stop, err := w.Reader()
	if err != nil {
		return nil, err
	}
	defer stop()
	scale := configOf(s).ScoreRange
	return o.write(ctx, s, t, f, func(i int) (Row, error) {
		row, _, err := next(i)
		row.Range = scale
		return row, err
	})
}
