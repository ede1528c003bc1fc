package encoders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"assay/data"
	"assay/heuristics"
	"assay/internal/journal"
	"assay/internal/remote"
	"assay/shards"
	"assay/store"
)

// measuredColumns are the columns that MeasureTable adds; they replace columns of the same names.
var measuredColumns = []data.Column{{Name: "clip_d", Kind: data.KindNumber}, {Name: "clip_i", Kind: data.KindNumber},
	{Name: "dino_i", Kind: data.KindNumber},
	{Name: "clip_t", Kind: data.KindNumber}, {Name: "undefined", Kind: data.KindText},
	{Name: "profile", Kind: data.KindText}, {Name: "error", Kind: data.KindText}}

// measuredProfile is the one whose CLIP-D a Measurer computes.
var measuredProfile = heuristics.Profiles[heuristics.ProfileAssay].ID()

// TableRun measures the edits of a table.
type TableRun struct {
	In, Out string            // tables; results are kept in Out + ".progress" until all are there
	Columns map[string]string // our column -> the table's, for other names
	Format  data.Format       // of Out
	// Progress is told how many rows are done since the last time; the first time, how many an earlier run had done. It
	// may be nil.
	Progress func(rows int)

	Shard shards.Ref        // the part of the rows that MeasureShard measures
	Merge bool              // write the table from what all shards hold
	Told  func(text string) // of what a shard waits for; may be nil

	Unchanged bool // merge rows as they were measured, without a look at whether they are others now
}

// TableResult says what a TableRun wrote.
type TableResult struct {
	Out     string         `json:"out"`
	Rows    int            `json:"rows"`
	Failed  int            `json:"failed"`
	Known   map[string]int `json:"known"`               // rows that have a number, by column
	Not     map[string]int `json:"undefined,omitempty"` // rows of which it does not exist (equal captions), by column
	Encoded int64          `json:"encoded"`             // pictures and captions, by each encoder
	Cached  int64          `json:"cached"`              // that were known
}

// KeptError says that a run was interrupted, and what of it is kept.
type KeptError struct {
	Done, Rows int
	Journal    string // file
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("%d of %d rows are kept in %s; the same command goes on", e.Done, e.Rows, e.Journal)
}

// measured is what became of a row.
type measured struct {
	Row   int      `json:"row"`
	Of    string   `json:"of"` // digest of its captions and of the content of its pictures
	ClipD *float64 `json:"clip_d,omitempty"`
	ClipI *float64 `json:"clip_i,omitempty"`
	DinoI *float64 `json:"dino_i,omitempty"`
	ClipT *float64 `json:"clip_t,omitempty"`
	Not   []string `json:"undefined,omitempty"` // columns of numbers that do not exist
	Error string   `json:"error,omitempty"`
}

// tableHead says what a journal's results belong to.
type tableHead struct {
	In         string            `json:"in"`
	Rows       int               `json:"rows"`
	Columns    map[string]string `json:"columns,omitempty"`
	CLIP, DINO string
}

// Measure measures the edits of the table, which is r.In opened, and writes the same rows with what was measured. Rows
// whose pictures or captions cannot be read say so in the column error. If ctx ends it, the error is a *KeptError.
func (r *TableRun) Measure(ctx context.Context, t *data.Table, m *Measurer) (*TableResult, error) {
	if r.Merge {
		return r.merge(ctx, t, m)
	}
	progress, err := remote.Local(r.Out, ".progress")
	if err != nil {
		return nil, err
	}
	done, err := r.open(t, m, progress)
	if err != nil {
		return nil, err
	}
	var result *TableResult
	err = r.measure(ctx, t, m, 0, t.Len(), done)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = &KeptError{done.Len(), t.Len(), progress}
	} else if err == nil {
		result, err = r.write(ctx, t, m, done.Get)
	}
	if err = errors.Join(err, done.Close()); err != nil {
		return nil, err
	}
	return result, os.Remove(progress)
}

// head says what the run is.
func (r *TableRun) head(t *data.Table, m *Measurer) tableHead {
	head := tableHead{In: r.In, Rows: t.Len(), Columns: r.Columns}
	if abs, err := remote.Abs(r.In); err == nil {
		head.In = abs
	}
	if m.CLIP != nil {
		head.CLIP = m.CLIP.Fingerprint()
	}
	if m.DINO != nil {
		head.DINO = m.DINO.Fingerprint()
	}
	return head
}

// results are what was measured, in a journal.
type results = journal.Index[measured]

// open opens a journal, with the rows that it holds and that were not changed since.
func (r *TableRun) open(t *data.Table, m *Measurer, path string) (*results, error) {
	return journal.OpenIndex(path, r.head(t, m), t.Len(), func(v measured) int { return v.Row }, func(v measured) bool {
		return r.unchanged(t, v)
	})
}

// unchanged tells whether a row is still what it was when it was measured.
func (r *TableRun) unchanged(t *data.Table, v measured) bool {
	e, err := ReadEdit(t, r.Columns, v.Row)
	of, _ := e.Digest(t.Folder(), err)
	return of == v.Of
}

// rowsAtOnce are measured together: what an interrupt may cost.
const rowsAtOnce = 32

// measure measures the rows from from to before to that are not done.
func (r *TableRun) measure(ctx context.Context, t *data.Table, m *Measurer, from, to int, done *results) error {
	r.progress(done.Len())
	for i := from; i < to; {
		var rows []measured
		var edits []Edit
		for ; i < to && len(rows) < rowsAtOnce; i++ {
			if done.Has(i) {
				continue
			}
			e, err := ReadEdit(t, r.Columns, i)
			of, failed := e.Digest(t.Folder(), err)
			if failed != nil || remote.Failed(err) {
				return fmt.Errorf("row %d: %w; the same command goes on", i+1, cmp.Or(failed, err))
			}
			v := measured{Row: i, Of: of}
			if err != nil {
				v.Error = err.Error()
			}
			rows, edits = append(rows, v), append(edits, e)
		}
		got, err := m.Measure(ctx, t.Folder(), edits)
		if err != nil {
			return err
		}
		for k, s := range got {
			v := &rows[k]
			v.ClipD, v.ClipI, v.DinoI, v.ClipT, v.Not = s.ClipD, s.ClipI, s.DinoI, s.ClipT, s.Undefined
			if err := s.Err(); remote.Failed(err) {
				return err
			} else if err != nil {
				v.Error = err.Error()
			}
		}
		if err := done.Write(rows...); err != nil {
			return err
		}
		r.progress(len(rows))
	}
	return done.Sync()
}

func (r *TableRun) progress(rows int) {
	if r.Progress != nil {
		r.Progress(rows)
	}
}

// Digest identifies what an edit's numbers depend on besides the encoders: its captions, and its pictures' content.
// folder is where relative paths start, err is why the edit cannot be read. failed says that object storage did, so
// that nothing is known of the edit.
func (e Edit) Digest(folder string, err error) (of string, failed error) {
	parts := []string{fmt.Sprint(err), e.Before, e.After}
	for _, m := range []data.Image{e.Source, e.Edit, e.Target} {
		k, err := store.Content(folder, m)
		if remote.Failed(err) {
			return "", err
		}
		parts = append(parts, fmt.Sprint(k, err))
	}
	return store.KeyOf(parts...).String(), nil
}

// ReadEdit reads an edit out of row i of a table; columns are other names of the captions' columns.
func ReadEdit(t *data.Table, columns map[string]string, i int) (e Edit, err error) {
	rec, err := t.Record(i)
	if err != nil {
		return e, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return e, err
	}
	e = Edit{Source: row.Source, Edit: row.Edit, Target: row.Target}
	for k, to := range []*string{&e.Before, &e.After} {
		name := data.CaptionColumns[k]
		column := name
		if other := columns[name]; other != "" {
			column = other
		}
		v, _ := rec.Get(column)
		if *to, err = data.Prose(v); err != nil {
			return Edit{}, fmt.Errorf("column %q: %w", column, err)
		}
	}
	return e, nil
}

// Counts are how many pictures and captions were encoded, by each encoder, and how many were known.
func (m *Measurer) Counts() (encoded, known int64) {
	for _, c := range []*Cached{m.CLIP, m.DINO} {
		if c != nil {
			e, k := c.Counts()
			encoded, known = encoded+e, known+k
		}
	}
	return encoded, known
}

// write writes the table; get gives what was measured of a row, in the order of the rows.
func (r *TableRun) write(
	ctx context.Context, t *data.Table, m *Measurer, get func(row int) (measured, bool, error),
) (*TableResult, error) {
	result := &TableResult{Out: r.Out, Rows: t.Len(), Known: map[string]int{}}
	result.Encoded, result.Cached = m.Counts()
	err := t.Rewrite(ctx, r.Out, r.Format, measuredColumns, func(i int, rec *data.Record) error {
		v, _, err := get(i)
		if err != nil {
			return err
		}
		said, err := undefined(rec)
		if err != nil {
			return fmt.Errorf("%s, row %d: %w", r.In, i+1, err)
		}
		var not []string
		set := func(name string, by *Cached, x *float64) {
			names := v.Not
			if by == nil { // nobody measured it: what the table says
				old, _ := rec.Get(name)
				if n, err := data.Number(old); err == nil {
					x = n
				}
				names = said
			}
			rec.Set(name, nil)
			if x != nil {
				rec.Set(name, *x)
				result.Known[name]++
			} else if slices.Contains(names, name) {
				not = append(not, name)
				result.undefined(name)
			}
		}
		set("clip_d", m.CLIP, v.ClipD)
		set("clip_i", m.CLIP, v.ClipI)
		set("dino_i", m.DINO, v.DinoI)
		set("clip_t", m.CLIP, v.ClipT)
		rec.Set("undefined", nil)
		if not != nil {
			rec.Set("undefined", strings.Join(not, " "))
		}
		if m.CLIP != nil {
			rec.Set("profile", measuredProfile)
		}
		rec.Set("error", nil)
		if v.Error != "" {
			result.Failed++
			rec.Set("error", v.Error)
		}
		return nil
	})
	return result, err
}

// undefined are the columns that a row's own column of that name lists.
func undefined(rec *data.Record) ([]string, error) {
	v, _ := rec.Get("undefined")
	names, err := data.Text(v)
	if err != nil {
		return nil, fmt.Errorf("column \"undefined\": %w", err)
	}
	return strings.Fields(names), nil
}

// undefined counts a number that does not exist.
func (r *TableResult) undefined(name string) {
	if r.Not == nil {
		r.Not = map[string]int{}
	}
	r.Not[name]++
}
