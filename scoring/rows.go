package scoring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"assay/data"
	"assay/edit"
	"assay/internal/remote"
	"assay/model"
	"assay/store"
)

// Row is what became of a row of a table: a score or an error. It is a line of OUT.progress.
type Row struct {
	Row     int     `json:"row"`
	Content string  `json:"of"`      // digest of the instruction and of the content of the pictures
	Score01 float64 `json:"score01"` // not clipped
	Error   string  `json:"error,omitempty"`

	Unreadable bool `json:"unreadable,omitempty"` // the error is that an answer in words cannot be read

	Range      edit.Range        `json:"-"`                   // of the scorer; zero: 0 to 10
	Unbounded  bool              `json:"unbounded,omitempty"` // Score01 is a score without a range
	Sigma01    float64           `json:"sigma01,omitempty"`
	Dimensions []model.Dimension `json:"dimensions,omitempty"`

	passing bool // the error may not come again: a server failed
}

// Score is the score on the scorer's range.
func (r *Row) Score() float64 { return orTen(r.Range).Of(r.Score01) }

// orTen is the range that is meant where none is named.
func orTen(r edit.Range) edit.Range {
	if r == (edit.Range{}) {
		return edit.Range{0, 10}
	}
	return r
}

// configured is a scorer that says what it is.
type configured interface{ Config() model.ScorerConfig }

// Scores are rows by their index in the table.
type Scores map[int]Row

// Err is why a row has no score, nil if it has one.
func (s Scores) Err(row int) error {
	if text := s[row].Error; text != "" {
		return errors.New(text)
	}
	return nil
}

// FailedRow is a row that could not be used.
type FailedRow struct {
	Row   int    `json:"row"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error"`
}

// Bounds of a batch of rows: their number, and the float values of their pixels.
const (
	batchRows   = 256
	batchPixels = 32 << 20
)

// Rows scores the rows of a table that done does not hold yet, and adds them to it. report (may be nil) is told of
// every batch; its error ends the run.
func Rows(ctx context.Context, s PairScorer, t *data.Table, done Scores, report func([]Row) error) error {
	scale := configOf(s).ScoreRange
	for i, row := range done {
		row.Range = scale
		done[i] = row
	}
	return rowsWithin(ctx, s, t, 0, t.Len(), done, report)
}

// configOf is what a scorer says it is.
func configOf(s PairScorer) model.ScorerConfig {
	if c, ok := s.(configured); ok {
		return c.Config()
	}
	return model.ScorerConfig{ScoreRange: edit.Range{0, 10}}
}

// rowsWithin is Rows for the rows from from to before to.
func rowsWithin(
	ctx context.Context, s PairScorer, t *data.Table, from, to int, done results, report func([]Row) error,
) error {
	var contents sync.Map // row -> digest, of the rows that are on their way
	g := &grouping{table: t}
	j := Job[model.Pair, *model.Sample]{
		Scorer:  s,
		Batches: g.batches(from, to, done),
		Size:    sizes(),
		MaxSize: batchPixels,
		Joined:  g.joined,
		Last:    remote.Failed, // each attempt at the next one would take half a minute, too
	}
	cfg := configOf(s)
	unbounded := !cfg.ScoreRange.Bounded()
	j.Read = func(i int) (model.Pair, error) {
		row, err := t.Read(i)
		content, unknown := Content(t.Folder(), &row, err)
		contents.Store(i, content)
		if remote.Failed(unknown) {
			return model.Pair{}, unknown
		}
		if err != nil {
			return model.Pair{}, err
		}
		p, err := open(t.Folder(), &row, cfg.NeedsSource())
		return p, cmp.Or(err, unknown)
	}
	j.Report = func(results []Result) error {
		results, failed := withoutStorage(results)
		rows := make([]Row, len(results))
		for k, r := range results {
			content, _ := contents.LoadAndDelete(r.Index)
			rows[k] = Row{Row: r.Index, Content: content.(string), Range: cfg.ScoreRange}
			if r.Err != nil {
				rows[k].Error, rows[k].Unreadable = r.Err.Error(), Unreadable(r.Err)
				rows[k].passing = Passing(r.Err)
			} else {
				rows[k].Score01, rows[k].Unbounded = r.Score, unbounded
				rows[k].Sigma01, rows[k].Dimensions = r.Judgement.Sigma01, r.Judgement.Dimensions
			}
		}
		if err := done.keep(rows); err != nil || report == nil {
			return errors.Join(err, failed)
		}
		return errors.Join(report(rows), failed)
	}
	return j.Run(ctx)
}

// withoutStorage takes out results for which object storage failed: of those rows nothing is known, and the run ends.
func withoutStorage(results []Result) (known []Result, failed error) {
	for _, r := range results {
		if !remote.Failed(r.Err) {
			known = append(known, r)
		} else if failed == nil {
			failed = fmt.Errorf("row %d: %w; the same command goes on", r.Index+1, r.Err)
		}
	}
	return known, failed
}

// open decodes the pictures of a row; a judge of one picture needs no source.
func open(folder string, row *data.Row, source bool) (p model.Pair, err error) {
	if source {
		if p.Source, err = row.Source.Open(folder, data.Limits{}); err != nil {
			return p, fmt.Errorf("source: %w", err)
		}
	}
	if p.Edit, err = row.Edit.Open(folder, data.Limits{}); err != nil {
		return p, fmt.Errorf("edit: %w", err)
	}
	p.Instruction = row.Instruction
	return p, nil
}

// contentOf is the content of a row of a table.
func contentOf(t *data.Table, i int) (content string, unknown error) {
	row, err := t.Read(i)
	return Content(t.Folder(), &row, err)
}

// Content identifies what a row's score depends on besides the scorer; err is why the row cannot be read, nil if it
// can. unknown is why the bytes of a picture that is there could not be told. Such a row must not get a score: the
// next time its content would be another.
func Content(folder string, row *data.Row, err error) (content string, unknown error) {
	parts := []string{fmt.Sprint(err), row.Instruction}
	for _, m := range []data.Image{row.Source, row.Edit} {
		k, err := store.Content(folder, m)
		parts = append(parts, fmt.Sprint(k, err))
		if m.File(folder) != "" && !errors.Is(err, fs.ErrNotExist) {
			unknown = cmp.Or(unknown, err)
		}
		if remote.Failed(err) {
			break // the next picture would take as long
		}
	}
	return store.KeyOf(parts...).String(), unknown
}
