package scoring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/remote"
	"assay/model"
	"assay/shards"
)

// TableScorer scores tables. [model.Scorer] is one.
type TableScorer interface {
	PairScorer
	Config() model.ScorerConfig
	Fingerprint() (string, error) // of everything that scores depend on
}

// TableOptions say which table is scored, and what is written.
type TableOptions struct {
	In      string            // .jsonl, .csv or .parquet: source, edit (relative to its folder) and instruction
	Out     string            // another one, .jsonl or .parquet: the same rows in the same order
	Columns map[string]string // our column: the table's, for other names

	Preferences string  // table of preferences to write, too; "": none
	Margin      float64 // least difference of the scores, on the scorer's range, of a preference

	Shard shards.Ref // the part of the rows that [TableShard] scores
	Merge bool       // write the table from what all shards hold

	// Unchanged merges rows as they were scored, without a look at whether they are others now.
	Unchanged bool

	Progress func(done, total int) // called with the rows done so far; nil: not called
	Told     func(text string)     // of what a shard waits for; nil: not called
	Warn     func(text string)     // of what is odd about the table; nil: not called
}

// TableResult counts what [Table] did.
type TableResult struct {
	Out         string `json:"out"`
	Rows        int    `json:"rows"`
	Scored      int    `json:"scored"`
	Failed      int    `json:"failed"`
	Preferences int    `json:"pairs,omitempty"`

	// Of a judge that answers in words: rows whose answers could not be read, and their share of the answered rows.
	Unreadable      *int     `json:"unreadable,omitempty"`
	UnreadableShare *float64 `json:"unreadable_share,omitempty"`
}

// spoken counts rows of judges that answer in words.
type spoken struct{ unreadable, answered int }

func (s *spoken) count(r *Row) {
	if r.Unreadable {
		s.unreadable++
	}
	if r.Unreadable || r.Error == "" {
		s.answered++
	}
}

// share is that of the rows whose answers could not be read, of those that were answered; 0 if none were.
func (s *spoken) share() float64 {
	if s.answered == 0 {
		return 0
	}
	return float64(s.unreadable) / float64(s.answered)
}

// InterruptedError says that the context ended, and how far the work is. The same call goes on there.
type InterruptedError struct {
	Done, Total int
	Progress    string // file that holds what is done
	Err         error  // the context's
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("%d of %d rows are kept in %s: %v", e.Done, e.Total, e.Progress, e.Err)
}

func (e *InterruptedError) Unwrap() error { return e.Err }

// scoreColumns are the columns that scoring adds; they replace columns of the same names. A scorer of format 2 adds the
// standard deviations that it gives, and its dimensions.
func scoreColumns(c *model.ScorerConfig) []data.Column {
	columns := []data.Column{
		{Name: "score", Kind: data.KindNumber},
		{Name: "score01", Kind: data.KindNumber},
		{Name: "error", Kind: data.KindText},
	}
	sigma := false
	for _, name := range slices.Sorted(maps.Keys(c.Heads)) {
		columns = append(columns, data.Column{Name: "score_" + name, Kind: data.KindNumber})
		if c.Heads[name].Outputs == model.OutputMuSigma {
			columns, sigma = append(columns, data.Column{Name: "sigma_" + name, Kind: data.KindNumber}), true
		}
	}
	if sigma {
		columns = append(columns, data.Column{Name: "sigma", Kind: data.KindNumber})
	}
	return columns
}

// setScore writes a row's score into its columns.
func setScore(rec *data.Record, c *model.ScorerConfig, row *Row) {
	report := c.Report(model.Judgement{Score01: row.Score01, Sigma01: row.Sigma01, Dimensions: row.Dimensions})
	rec.Set("score", report.Score)
	if report.Score01 != nil {
		rec.Set("score01", *report.Score01)
	}
	if report.Sigma > 0 {
		rec.Set("sigma", report.Sigma)
	}
	for name, d := range report.Dimensions {
		if rec.Set("score_"+name, d.Score); d.Sigma > 0 {
			rec.Set("sigma_"+name, d.Sigma)
		}
	}
}

// check refuses files that are not those of tables, or each other.
func (o *TableOptions) check() (format data.Format, err error) {
	if format, err = data.FormatOf(o.Out); err != nil || o.Preferences == "" {
		return format, err
	}
	_, err = data.FormatOf(o.Preferences)
	if err == nil && (remote.Is(o.Preferences) || remote.Is(o.In)) {
		err = exit.Usagef("%s: preferences are made of tables on this machine only", o.Preferences)
	}
	for _, other := range []string{o.In, o.Out} {
		if err == nil && atomicfile.Same(o.Preferences, other) {
			err = exit.Usagef("%s: preferences would replace the table %s; choose another file", o.Preferences, other)
		}
	}
	return format, err
}

// open opens the table with the columns that a scorer needs.
func (o *TableOptions) open(ctx context.Context, s TableScorer) (*data.Table, error) {
	columns := []string{"source", "edit", "instruction"}
	if cfg := s.Config(); !cfg.NeedsSource() {
		columns = columns[1:]
	}
	t, err := data.OpenTable(o.In, data.WithColumns(o.Columns), data.WithFound(o.Columns),
		data.WithOnly("source", "edit", "instruction"), data.WithRequired(columns...), data.WithStorage(ctx))
	if err != nil {
		return nil, exit.Usage(err)
	}
	if err := t.CheckOutput(o.Out); err != nil {
		return nil, errors.Join(exit.Usage(err), t.Close())
	}
	if text := t.Swapped(); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	return t, nil
}

// Table scores every row of a table and writes the rows with score (on the scorer's range), score01 and error added.
// A row that cannot be scored has an error and no number.
//
// Results are kept in OUT.progress while it runs. When ctx is cancelled the error is an [InterruptedError], and the
// same call goes on; rows that were changed meanwhile are scored anew.
func Table(ctx context.Context, s TableScorer, o TableOptions) (*TableResult, error) {
	format, err := o.check()
	if err != nil {
		return nil, err
	}
	t, err := o.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if o.Merge {
		return mergeTable(ctx, s, o, t, format)
	}
	progress, err := remote.Local(o.Out, ".progress")
	if err != nil {
		return nil, err
	}
	k, err := openKept(progress, t, s, nil)
	if err != nil {
		return nil, exit.Named(err) // no folder to write to
	}
	var r *TableResult
	if err = k.score(ctx, s, t, o.Progress); err == nil {
		r, err = o.write(ctx, s, t, format, k.get)
	}
	if err = errors.Join(err, k.Close()); err != nil {
		return nil, err
	}
	return r, os.Remove(progress)
}

// write writes all that the options ask for; get gives the result of a row, in the order of the rows.
func (o *TableOptions) write(
	ctx context.Context, s TableScorer, t *data.Table, f data.Format, get func(row int) (Row, error),
) (*TableResult, error) {
	var wanted Scores // of preferences
	if o.Preferences != "" {
		wanted = Scores{}
	}
	r, words, err := writeScores(ctx, t, o.Out, f, s.Config(), func(i int) (Row, error) {
		row, err := get(i)
		if wanted != nil {
			wanted[i] = row
		}
		return row, err
	})
	if err != nil {
		return nil, err
	}
	if _, ok := s.(EachJudge[*model.Sample]); ok {
		n, share := words.unreadable, words.share()
		r.Unreadable, r.UnreadableShare = &n, &share
	}
	if o.Preferences != "" {
		r.Preferences, err = writePreferences(t, wanted, o.Preferences, o.Margin)
	}
	return r, err
}

// writeScores writes the rows with their scores.
func writeScores(
	ctx context.Context, t *data.Table, out string, f data.Format, cfg model.ScorerConfig,
	get func(row int) (Row, error),
) (r *TableResult, words spoken, err error) {
	r = &TableResult{Out: out, Rows: t.Len()}
	columns := scoreColumns(&cfg)
	err = t.Rewrite(ctx, out, f, columns, func(i int, rec *data.Record) error {
		for _, column := range columns {
			rec.Set(column.Name, nil)
		}
		row, err := get(i)
		if err != nil {
			return err
		}
		words.count(&row)
		if row.Error != "" {
			r.Failed++
			rec.Set("error", row.Error)
		} else {
			r.Scored++
			setScore(rec, &cfg, &row)
		}
		return nil
	})
	return r, words, err
}

// Kept scores the rows of a table that skip (may be nil) does not name. Results are kept in the file progress, which is
// the caller's to remove: when ctx is cancelled the error is an [InterruptedError], and the same call goes on. told
// (may be nil) is called with the rows done so far and their number.
func Kept(ctx context.Context, s TableScorer, t *data.Table, progress string, skip func(row int) bool,
	told func(done, total int)) (Scores, error) {
	k, err := openKept(progress, t, s, skip)
	if err != nil {
		return nil, err
	}
	if err := k.score(ctx, s, t, told); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	scores, err := k.scores(t.Len())
	return scores, errors.Join(err, k.Close())
}

// progressHead says what the rows of OUT.progress belong to; each says itself what it is of.
type progressHead struct {
	In     string `json:"in"`
	Rows   int    `json:"rows"`
	Scorer string `json:"scorer"`
}
