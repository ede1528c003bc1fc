package scoring

import (
	"context"
	"errors"

	"assay/data"
	"assay/edit"
	"assay/internal/journal"
	"assay/internal/remote"
)

// results are rows that are done, by their index in the table: [Scores] in memory, or kept ones.
type results interface {
	has(row int) bool
	keep(rows []Row) error
}

func (s Scores) has(row int) bool { _, ok := s[row]; return ok }

func (s Scores) keep(rows []Row) error {
	for _, r := range rows {
		s[r.Row] = r
	}
	return nil
}

// kept are results in a journal, of which memory holds a bit a row.
type kept struct {
	*journal.Index[Row]
	scale edit.Range
	skip  func(row int) bool // rows that are left out; nil: none
}

// openKept opens a journal, with the rows that it holds and that were not changed since.
func openKept(path string, t *data.Table, s TableScorer, skip func(row int) bool) (*kept, error) {
	in, err := remote.Abs(t.Path())
	if err != nil {
		return nil, err
	}
	print, err := s.Fingerprint()
	if err != nil {
		return nil, err
	}
	unchanged := func(r Row) bool {
		if skip != nil && skip(r.Row) {
			return false
		}
		content, _ := contentOf(t, r.Row)
		return content == r.Content
	}
	x, err := journal.OpenIndex(
		path,
		progressHead{in, t.Len(), print},
		t.Len(),
		func(r Row) int { return r.Row },
		unchanged,
	)
	if err != nil {
		return nil, err
	}
	return &kept{x, configOf(s).ScoreRange, skip}, nil
}

// score scores all rows that are not done, and tells of every batch.
func (k *kept) score(ctx context.Context, s TableScorer, t *data.Table, told func(done, total int)) error {
	total := t.Len()
	for i := range t.Len() {
		if k.skip != nil && k.skip(i) {
			total--
		}
	}
	err := k.within(ctx, s, t, 0, t.Len(), func() {
		if told != nil {
			told(k.Len(), total)
		}
	})
	if errors.Is(err, context.Canceled) {
		err = &InterruptedError{Done: k.Len(), Total: total, Progress: k.Path(), Err: err}
	}
	return err
}

// within scores the rows from from to before to that are not done.
func (k *kept) within(ctx context.Context, s TableScorer, t *data.Table, from, to int, tell func()) error {
	tell()
	err := rowsWithin(ctx, s, t, from, to, k, func([]Row) error {
		tell()
		return nil
	})
	return errors.Join(err, k.Sync())
}

func (k *kept) has(row int) bool { return k.skip != nil && k.skip(row) || k.Has(row) }

// keep writes rows to the journal; an error that may not come again is not written.
func (k *kept) keep(rows []Row) error {
	var lasting []Row
	for _, r := range rows {
		if r.passing {
			k.Hold(r)
		} else {
			lasting = append(lasting, r)
		}
	}
	return k.Write(lasting...)
}

// get is the result of a row, the zero one if it has none.
func (k *kept) get(row int) (Row, error) {
	r, _, err := k.Get(row)
	r.Row, r.Range = row, k.scale
	return r, err
}

// scores are the results of all rows that have one, in memory.
func (k *kept) scores(rows int) (Scores, error) {
	s := make(Scores, k.Len())
	for i := range rows {
		if !k.Has(i) || k.skip != nil && k.skip(i) {
			continue
		}
		var err error
		if s[i], err = k.get(i); err != nil {
			return nil, err
		}
	}
	return s, nil
}
