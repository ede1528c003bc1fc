package encoders

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/data"
	"assay/edit"
	"assay/heuristics"
	"assay/internal/remote"
	"assay/internal/store"
	"assay/internal/table"
)

// measuredColumns are the columns that Table adds; they replace columns of the same name.
var measuredColumns = []data.Column{{Name: "clip_d", Kind: data.KindNumber}, {Name: "clip_i", Kind: data.KindNumber},
	{Name: "dino_i", Kind: data.KindNumber}, {Name: "clip_t", Kind: data.KindNumber},
	{Name: "undefined", Kind: data.KindText}, {Name: "profile", Kind: data.KindText}, {Name: "error", Kind: data.KindText}}

// measuredProfile is the profile whose CLIP-D a Measurer computes.
var measuredProfile = heuristics.Profiles[heuristics.ProfileAssay].ID()

// TableResult summarises what Table wrote.
type TableResult struct {
	Out     string         `json:"out"`
	Rows    int            `json:"rows"`
	Failed  int            `json:"failed"`
	Known   map[string]int `json:"known"`               // rows that have a number, by column
	Not     map[string]int `json:"undefined,omitempty"` // rows for which it is undefined (equal captions), by column
	Encoded int64          `json:"encoded"`             // pictures and captions encoded, counted per encoder
	Cached  int64          `json:"cached"`              // pictures and captions found in the cache
}

// tableHead identifies the input of a journal; in shards it also has the digest of the table's bytes.
type tableHead struct {
	In         string            `json:"in"`
	Rows       int               `json:"rows"`
	Columns    map[string]string `json:"columns,omitempty"`
	CLIP, DINO string
	Table      string `json:"table,omitempty"`
}

// rowsAtOnce rows are measured together; an interruption loses at most these.
const rowsAtOnce = 32

// Job returns the job that measures the edits of t, the table opened from o.In.
func (m *Measurer) Job(t *data.Table, o table.Options) *table.Job[*edit.Edit, Numbers] {
	head := tableHead{In: o.In, Rows: t.Len(), Columns: o.Columns}
	if abs, err := remote.Abs(o.In); err == nil {
		head.In = abs
	}
	if m.CLIP != nil {
		head.CLIP = m.CLIP.Fingerprint()
	}
	if m.DINO != nil {
		head.DINO = m.DINO.Fingerprint()
	}
	j := table.EditJob[Numbers](t, o, func(i int) (*edit.Edit, error) { return readEdit(t, o.Columns, i) },
		func(e *edit.Edit) []any {
			before, after := captionsOf(e)
			return []any{before, after, table.Image(e, "source"), table.Image(e, "edit"), table.Image(e, "target")}
		}, "source", "edit", "target")
	j.Head = head
	j.Plan = func() (any, error) {
		digest, err := store.FileDigest(t.Path())
		head.Table = digest.String()
		return head, err
	}
	j.Batches = table.Chunks(rowsAtOnce)
	j.Work = func(ctx context.Context, tasks []table.Task[*edit.Edit]) (values []Numbers, errs []error, err error) {
		edits := make([]*edit.Edit, len(tasks))
		for i := range tasks {
			edits[i] = tasks[i].Row
		}
		got, err := m.Measure(ctx, edits)
		for _, s := range got {
			values, errs = append(values, s.Numbers), append(errs, s.Err())
		}
		return values, errs, err
	}
	return j
}

// readEdit reads an edit from row i of a table; columns renames the caption columns.
func readEdit(t *data.Table, columns map[string]string, i int) (*edit.Edit, error) {
	rec, err := t.Record(i)
	if err != nil {
		return &edit.Edit{}, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return &edit.Edit{}, err
	}
	e := table.EditOf(t, &row)
	if n := len(e.Sources); n > 1 {
		return e, fmt.Errorf("the edit has %d sources, but similarities compare with one: set the row's source to that "+
			"one", n)
	}
	e.Texts = map[string]string{}
	for _, name := range data.CaptionColumns {
		column := cmp.Or(columns[name], name)
		v, _ := rec.Get(column)
		if e.Texts[name], err = data.Prose(v); err != nil {
			return &edit.Edit{}, fmt.Errorf("column %q: %w", column, err)
		}
	}
	return e, nil
}

// Counts returns how many pictures and captions were encoded, summed over the encoders, and how many were cached.
func (m *Measurer) Counts() (encoded, known int64) {
	for _, c := range []*Cached{m.CLIP, m.DINO} {
		if c != nil {
			e, k := c.Counts()
			encoded, known = encoded+e, known+k
		}
	}
	return encoded, known
}

// Table measures the edits of t, the table opened from o.In, and writes the same rows with their similarities. Rows
// whose pictures or captions cannot be read get a message in the column error.
func (m *Measurer) Table(ctx context.Context, t *data.Table, o table.Options) (*TableResult, error) {
	result := &TableResult{Out: o.Out, Rows: t.Len(), Known: map[string]int{}}
	j := m.Job(t, o)
	err := j.Do(ctx, j.Rewrite(ctx, t, measuredColumns, func(l *table.Line[Numbers], rec *data.Record) error {
		return m.set(l, rec, result, o)
	}))
	result.Encoded, result.Cached = m.Counts()
	return result, err
}

// set fills in the columns of a row, and updates the counts. Where a value that is not a number must be one (Parquet),
// it becomes null, with an error.
func (m *Measurer) set(l *table.Line[Numbers], rec *data.Record, result *TableResult, o table.Options) error {
	v, _ := rec.Get("undefined")
	said, err := data.Text(v)
	if err != nil {
		return fmt.Errorf("%s, row %d: column \"undefined\": %w", o.In, l.Row+1, err)
	}
	format, _ := data.FormatOf(o.Out) // checked before
	var not []string
	texts := m.CLIP // measures clip_d and clip_t
	if texts != nil && !texts.HasTexts() {
		texts = nil
	}
	for _, n := range []struct {
		name string
		by   *Cached
		x    *float64
	}{{"clip_d", texts, l.Value.ClipD}, {"clip_i", m.CLIP, l.Value.ClipI}, {"dino_i", m.DINO, l.Value.DinoI},
		{"clip_t", texts, l.Value.ClipT}} {
		undefined := l.Value.Undefined
		if n.by == nil { // not measured: the value in the table stays, also one that is not a number
			undefined = strings.Fields(said)
			old, _ := rec.Get(n.name)
			if x, err := data.AnyNumber(old); err != nil && format == data.FormatParquet {
				rec.Set(n.name, nil)
				l.Error = cmp.Or(l.Error, fmt.Sprintf("column %q: %v", n.name, err))
				continue
			} else if err != nil {
				continue
			} else if n.x = x; x != nil && math.IsNaN(*x) { // undefined, in a format that has NaN
				n.x, undefined = nil, []string{n.name}
			}
		} else if rec.Set(n.name, nil); n.x != nil {
			rec.Set(n.name, *n.x)
		}
		if n.x != nil {
			result.Known[n.name]++
		} else if slices.Contains(undefined, n.name) {
			if result.Not == nil {
				result.Not = map[string]int{}
			}
			result.Not[n.name]++
			not = append(not, n.name)
		}
	}
	rec.Set("undefined", nil)
	if not != nil {
		rec.Set("undefined", strings.Join(not, " "))
	}
	if texts != nil {
		rec.Set("profile", measuredProfile)
	}
	rec.Set("error", nil)
	if l.Error != "" {
		result.Failed++
		rec.Set("error", l.Error)
	}
	return nil
}
