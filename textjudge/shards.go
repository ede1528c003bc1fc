package textjudge

import (
	"context"
	"errors"
	"maps"
	"slices"

	"assay/data"
	"assay/shards"
	"assay/store"
)

// shards opens the shards of the table.
func (r *run) shards() (w *shards.Work[row], err error) {
	var what struct {
		head
		Table   string            `json:"table"` // digest of its bytes
		Columns map[string]string `json:"columns,omitempty"`
	}
	if what.head, err = r.head(); err != nil {
		return nil, err
	}
	table, err := store.FileDigest(r.table.Path())
	if err != nil {
		return nil, err
	}
	what.Table, what.Columns = table.String(), r.o.Columns
	dir := shards.Folder(r.o.Out)
	if r.o.Merge {
		w, err = shards.Reopen[row](dir, what, r.table.Len())
	} else {
		w, err = shards.Open[row](dir, r.o.Shard.Count, what, r.table.Len(), r.weigh)
	}
	if err != nil {
		return nil, err
	}
	w.Place = func(d row) int { return d.Row }
	w.Failed = func(d row) bool { return d.Error != "" }
	w.Passing = func(d row) bool { return d.passing }
	w.Why = func(d row) string { return d.Error }
	w.Told = r.o.Told
	if !r.o.Unchanged {
		w.Changed = func(d row) (bool, error) {
			if r.unchanged(d) {
				return false, nil
			}
			_, pictures, _ := r.read(d.Row)
			return true, store.Unknown(r.table.Folder(), slices.Collect(maps.Values(pictures))...)
		}
	}
	return w, nil
}

// weigh gives the bytes of a row's pictures.
func (r *run) weigh(i int) (bytes int64, begins bool) {
	var pictures map[string]data.Image
	_, pictures, err := r.read(i)
	if err != nil {
		return 0, true
	}
	for _, m := range pictures {
		bytes += m.Size(r.table.Folder())
	}
	return bytes, true
}

// TableShard judges the rows of the shards that o.Shard names, into a folder beside o.Out. When all are there, Table
// with o.Merge writes the table. A shard with rows at which the server failed is not done ([shards.PassingError]): the
// same call asks again for them.
func (j *Judge) TableShard(ctx context.Context, o TableOptions) (*shards.Report, error) {
	if _, err := data.FormatOf(o.Out); err != nil {
		return nil, err
	}
	r, err := j.begin(o)
	if err != nil {
		return nil, err
	}
	defer r.table.Close()
	w, err := r.shards()
	if err != nil {
		return nil, err
	}
	return w.Do(ctx, o.Shard, func(ctx context.Context, s shards.Shard) ([]row, error) {
		r.from, r.to = s.From, s.To
		if err := r.open(s.Progress); err != nil {
			return nil, err
		}
		var rows []row
		err := r.rows(ctx)
		if err == nil {
			rows, err = shards.Collect(s, r.done.Get)
		}
		return rows, errors.Join(err, r.done.Close())
	})
}

// merge writes the table from what all shards hold.
func (r *run) merge(ctx context.Context, f data.Format) (*TableResult, error) {
	w, err := r.shards()
	if err != nil {
		return nil, err
	}
	get, stop, err := w.Reader()
	if err != nil {
		return nil, err
	}
	defer stop()
	return r.write(ctx, f, get)
}
