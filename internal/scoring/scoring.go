// Package scoring scores the edits of a table with a judge, and reads and uses the scores of tables.
//
// [Table] is a [table.Job] whose rows are edits: each is read, decoded and prepared while the previous batch is
// scored. Edits of the same source and instruction are scored together, because a judge computes their common part
// once. The rows are written with the columns of their scores, and [Read] reads these. [Rank] ranks edits of the same
// source and instruction.
package scoring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/remote"
	"assay/internal/shards"
	"assay/internal/table"
)

// Options of [Table]. In has the columns source and edit (pictures, relative to its folder) and instruction; Out gets
// the same rows in the same order.
type Options struct {
	table.Options

	Preferences string            // table of preferences to write as well; "": none
	Margin      float64           // a preference needs a larger difference of the scores, on the judge's range
	Warn        func(text string) // called with what is odd about the table; nil: not called
}

// TableCounts are the numbers of rows of a scored table.
type TableCounts struct {
	Out         string `json:"out"`
	Rows        int    `json:"rows"`
	Scored      int    `json:"scored"`
	Failed      int    `json:"failed"`
	Preferences int    `json:"pairs,omitempty"`

	// With a text judge: rows whose answers could not be read, and their share of the answered rows.
	Unreadable      *int     `json:"unreadable,omitempty"`
	UnreadableShare *float64 `json:"unreadable_share,omitempty"`
}

// Bounds of a batch of rows: their number, and the float values of their pixels.
const (
	batchRows   = 256
	batchPixels = 32 << 20
)

// newJob returns the job that scores the edits of a table.
func newJob(j edit.Judge, t *data.Table, o table.Options) *table.Job[*edit.Edit, edit.Score] {
	read := func(i int) (*edit.Edit, error) {
		row, err := t.Read(i)
		return table.EditOf(t, &row), err
	}
	job := table.EditJob[edit.Score](t, o, read, func(e *edit.Edit) []any {
		parts := []any{e.Instruction}
		for _, m := range table.Sources(e) {
			parts = append(parts, m)
		}
		return append(parts, table.Image(e, "edit"))
	}, "source", "edit")
	info := j.Info()
	job.Prepare = func(e *edit.Edit) (edit.Inputs, error) {
		if err := info.CheckSources(e); err != nil {
			return nil, err
		}
		return j.Prepare(e)
	}
	job.Work = func(ctx context.Context, tasks []table.Task[*edit.Edit]) ([]edit.Score, []error, error) {
		return j.Score(ctx, table.Inputs(tasks))
	}
	g := &grouping{table: t}
	job.Batches, job.Joined = g.batches, g.joined
	job.MaxSize = batchPixels
	weigh, last := job.Weigh, ""
	job.Weigh = func(i int) (bytes int64, begins bool) { // a shard starts at a group of the same source and instruction
		e, err := read(i)
		if err != nil {
			return 0, true
		}
		group, inside := "", false
		for _, m := range table.Sources(e) {
			group, inside = group+m.Path+"\x00", inside || m.Path == ""
		}
		group += e.Instruction
		begins = group != last || inside
		last = group
		bytes, _ = weigh(i)
		return bytes, begins
	}
	return job
}

// identify sets the heads of journal and shards.
func identify(job *table.Job[*edit.Edit, edit.Score], j edit.Judge, t *data.Table) error {
	print, err := j.Fingerprint()
	if err != nil {
		return err
	}
	return job.Identify(t, print)
}

// check refuses outputs that are not tables, or that would replace each other.
func (o *Options) check() error {
	_, err := data.FormatOf(o.Out)
	if err != nil || o.Preferences == "" {
		return err
	}
	_, err = data.FormatOf(o.Preferences)
	if err == nil && (remote.Is(o.Preferences) || remote.Is(o.In)) {
		err = exit.Usagef("%s: preferences need local files: the table and the output must be on this machine", o.Preferences)
	}
	for _, other := range []string{o.In, o.Out} {
		if err == nil && atomicfile.Same(o.Preferences, other) {
			err = exit.Usagef("%s: preferences would replace the table %s; choose another file", o.Preferences, other)
		}
	}
	return err
}

// open opens the table with the columns that a judge needs, and returns it with its job. The caller closes the table.
func (o *Options) open(ctx context.Context, j edit.Judge) (*data.Table, *table.Job[*edit.Edit, edit.Score], error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	columns := []string{"source", "edit", "instruction"}
	if j.Info().Sources == 0 {
		columns = columns[1:]
	}
	t, err := data.OpenTable(o.In, data.WithColumns(o.Columns), data.WithFound(o.Columns),
		data.WithOnly("source", "edit", "instruction"), data.WithRequired(columns...), data.WithStorage(ctx))
	if err != nil {
		return nil, nil, exit.Usage(err)
	}
	if err := t.CheckOutput(o.Out); err != nil {
		return nil, nil, errors.Join(exit.Usage(err), t.Close())
	}
	job := newJob(j, t, o.Options)
	if err := identify(job, j, t); err != nil {
		return nil, nil, errors.Join(err, t.Close())
	}
	if text := t.Swapped(); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	return t, job, nil
}

// Table scores every row of a table and writes the rows with score (on the judge's range), score01 and error added. A
// row that cannot be scored gets an error instead of a number.
//
// Results are saved in OUT.progress. If ctx is cancelled, the error is a [table.InterruptedError], and the same call
// resumes; rows that have changed are scored again. With o.Merge it writes the results of [Shard].
func Table(ctx context.Context, j edit.Judge, o Options) (*TableCounts, error) {
	t, job, err := o.open(ctx, j)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	info := j.Info()
	r := &TableCounts{Out: o.Out, Rows: t.Len()}
	kept := Scores{Range: info.Range, Lines: map[int]table.Line[edit.Score]{}} // for preferences
	unreadable, stale := 0, map[string]bool{}
	columns := scoreColumns(&info)
	err = job.Do(ctx, job.Rewrite(ctx, t, columns, func(l *table.Line[edit.Score], rec *data.Record) error {
		if o.Preferences != "" {
			kept.Lines[l.Row] = *l
		}
		older(rec, columns, stale)
		table.Clear(rec, columns)
		if l.Unreadable {
			unreadable++
		}
		if l.Error != "" {
			r.Failed++
			rec.Set("error", l.Error)
			return nil
		}
		r.Scored++
		setScore(rec, &l.Value)
		return nil
	}))
	if err != nil {
		return nil, err
	}
	if len(stale) > 0 && o.Warn != nil {
		o.Warn(fmt.Sprintf("%s was scored before, and columns that this scorer does not write are copied: %s", o.In,
			strings.Join(slices.Sorted(maps.Keys(stale)), ", ")))
	}
	if info.Words {
		share := float64(unreadable) / float64(max(unreadable+r.Scored, 1))
		r.Unreadable, r.UnreadableShare = &unreadable, &share
	}
	if o.Preferences != "" {
		r.Preferences, err = writePreferences(t, kept, o.Preferences, o.Margin)
	}
	return r, err
}

// Shard scores the rows of the shards that o.Shard names, into [shards.Folder]. When all are done, [Table] with
// o.Merge writes the same table as without shards. If ctx is cancelled, the same call resumes.
func Shard(ctx context.Context, j edit.Judge, o Options) (*shards.Report, error) {
	t, job, err := o.open(ctx, j)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return job.Shard(ctx)
}

// Rows scores the rows of a table in memory. progress may be nil.
func Rows(ctx context.Context, j edit.Judge, t *data.Table, progress func(done, total int)) (Scores, error) {
	job := newJob(j, t, table.Options{Progress: progress})
	lines, err := job.InMemory(ctx)
	if e := new(table.InterruptedError); errors.As(err, &e) {
		err = e.Err // there is nothing to resume from
	}
	if err != nil {
		return Scores{}, err
	}
	return gather(j, t.Len(), lines)
}

// Resume scores the rows of a table except those for which skip (may be nil) reports true. Results are saved in a
// journal, which the caller removes: if ctx is cancelled, the error is a [table.InterruptedError], and the same call
// resumes. progress may be nil.
func Resume(
	ctx context.Context, j edit.Judge, t *data.Table, journal string, skip func(row int) bool,
	progress func(done, total int),
) (Scores, error) {
	job := newJob(j, t, table.Options{Progress: progress})
	job.Skip = skip
	if err := identify(job, j, t); err != nil {
		return Scores{}, err
	}
	k, err := job.Resume(ctx, journal)
	if err != nil {
		return Scores{}, err
	}
	scores, err := gather(j, t.Len(), k)
	return scores, errors.Join(err, k.Close())
}

// gather collects the scores.
func gather(j edit.Judge, rows int, results table.Results[edit.Score]) (Scores, error) {
	s := Scores{Range: j.Info().Range, Lines: make(map[int]table.Line[edit.Score], results.Len())}
	for i := range rows {
		if !results.Has(i) {
			continue
		}
		var err error
		if s.Lines[i], err = results.Line(i); err != nil {
			return s, err
		}
	}
	return s, nil
}

// scoreColumns are the columns that scoring adds or replaces. A judge with several dimensions adds a column for each,
// and their standard deviations.
func scoreColumns(info *edit.Info) []data.Column {
	columns := []data.Column{
		{Name: "score", Kind: data.KindNumber},
		{Name: "score01", Kind: data.KindNumber},
		{Name: "error", Kind: data.KindText},
	}
	sigma := info.Sigma
	for _, d := range info.Dimensions {
		if len(d.Classes) > 0 {
			columns = append(columns, data.Column{Name: "class_" + d.Name, Kind: data.KindText})
			continue
		}
		columns = append(columns, data.Column{Name: "score_" + d.Name, Kind: data.KindNumber})
		if d.Sigma {
			columns, sigma = append(columns, data.Column{Name: "sigma_" + d.Name, Kind: data.KindNumber}), true
		}
	}
	if sigma {
		columns = append(columns, data.Column{Name: "sigma", Kind: data.KindNumber})
	}
	return columns
}

// older adds to found what seems to be a column of an earlier scorer with other dimensions, in a row that has been
// scored before: its numbers do not belong to the new score. They are not removed, as they may be the user's own.
func older(rec *data.Record, columns []data.Column, found map[string]bool) {
	if v, _ := rec.Get("score01"); data.IsNull(v) {
		return
	}
	for _, f := range rec.Fields {
		kind, dimension, _ := strings.Cut(f.Name, "_")
		if f.Name != "sigma" && (dimension == "" || kind != "score" && kind != "sigma" && kind != "class") ||
			data.IsNull(f.Value) {
			continue
		}
		if !slices.ContainsFunc(columns, func(c data.Column) bool { return c.Name == f.Name }) {
			found[f.Name] = true
		}
	}
}

// setScore writes a row's score into its columns.
func setScore(rec *data.Record, s *edit.Score) {
	if !math.IsNaN(s.Value) { // NaN for a scorer with only unordered classes
		rec.Set("score", s.Value)
		if !s.Unbounded {
			rec.Set("score01", s.Score01)
		}
	}
	if s.Sigma > 0 {
		rec.Set("sigma", s.Sigma)
	}
	for _, d := range s.Dimensions {
		if d.Class != "" {
			rec.Set("class_"+d.Name, d.Class)
			continue
		}
		if rec.Set("score_"+d.Name, d.Value); d.Sigma > 0 {
			rec.Set("sigma_"+d.Name, d.Sigma)
		}
	}
}
