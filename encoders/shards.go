package encoders

import (
	"context"
	"errors"

	"assay/data"
	"assay/shards"
	"assay/store"
)

// work opens the shards of the run.
func (r *TableRun) work(t *data.Table, m *Measurer) (w *shards.Work[measured], err error) {
	what := struct {
		tableHead
		Table string `json:"table"` // digest of its bytes
	}{tableHead: r.head(t, m)}
	table, err := store.FileDigest(t.Path())
	if err != nil {
		return nil, err
	}
	what.Table = table.String()
	dir := shards.Folder(r.Out)
	if r.Merge {
		w, err = shards.Reopen[measured](dir, what, t.Len())
	} else {
		w, err = shards.Open[measured](dir, r.Shard.Count, what, t.Len(), func(i int) (int64, bool) {
			e, err := ReadEdit(t, r.Columns, i)
			if err != nil {
				return 0, true
			}
			return e.Source.Size(t.Folder()) + e.Edit.Size(t.Folder()) + e.Target.Size(t.Folder()), true
		})
	}
	if err != nil {
		return nil, err
	}
	w.Place = func(v measured) int { return v.Row }
	w.Failed = func(v measured) bool { return v.Error != "" }
	w.Told = r.Told
	if !r.Unchanged {
		w.Changed = func(v measured) (bool, error) {
			if r.unchanged(t, v) {
				return false, nil
			}
			e, _ := ReadEdit(t, r.Columns, v.Row)
			return true, store.Unknown(t.Folder(), e.Source, e.Edit, e.Target)
		}
	}
	return w, nil
}

// MeasureShard measures the rows of the shards that r.Shard names, into a folder beside r.Out. When all are there,
// Measure with r.Merge writes the table, the same as if it had been measured at once.
func (r *TableRun) MeasureShard(ctx context.Context, t *data.Table, m *Measurer) (*shards.Report, error) {
	w, err := r.work(t, m)
	if err != nil {
		return nil, err
	}
	return w.Do(ctx, r.Shard, func(ctx context.Context, s shards.Shard) ([]measured, error) {
		done, err := r.open(t, m, s.Progress)
		if err != nil {
			return nil, err
		}
		var rows []measured
		if err = r.measure(ctx, t, m, s.From, s.To, done); err == nil {
			rows, err = shards.Collect(s, done.Get)
		}
		return rows, errors.Join(err, done.Close())
	})
}

// merge writes the table from what all shards hold.
func (r *TableRun) merge(ctx context.Context, t *data.Table, m *Measurer) (*TableResult, error) {
	w, err := r.work(t, m)
	if err != nil {
		return nil, err
	}
	get, stop, err := w.Reader()
	if err != nil {
		return nil, err
	}
	defer stop()
	return r.write(ctx, t, m, get)
}
