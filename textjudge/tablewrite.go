package textjudge

import (
	"context"
	"slices"

	"assay/data"
)

// write writes the table and counts; get gives what became of a row, in the order of the rows.
func (r *run) write(
	ctx context.Context, format data.Format, get func(row int) (row, bool, error),
) (*TableResult, error) {
	c := &r.judge.Config
	result := &TableResult{
		Out:         r.o.Out,
		Judge:       c.Name,
		Rule:        c.Rule,
		Average:     c.Average,
		Passes:      c.Passes,
		Repeats:     c.Repeats,
		Prompts:     r.judge.Asks,
		Constrained: c.Constrained,
		Rows:        r.table.Len(),
		Warnings:    r.judge.Warnings,
	}
	columns := append(slices.Clone(scoreColumns), answerColumns...)
	if c.Pair {
		result.Pairs = &Pairs{}
		columns = append(slices.Clone(pairColumns), answerColumns...)
	}
	err := r.table.Rewrite(ctx, r.o.Out, format, columns, func(i int, rec *data.Record) error {
		for _, column := range columns {
			rec.Set(column.Name, nil)
		}
		d, _, err := get(i)
		if err != nil {
			return err
		}
		result.count(&d)
		d.set(rec)
		return nil
	})
	result.shares()
	return result, err
}

// The columns that are added. Those of a pair have other names than scores, which others read: a preference is no
// score.
var (
	scoreColumns = []data.Column{{Name: "score", Kind: data.KindNumber}, {Name: "score01", Kind: data.KindNumber}}
	pairColumns  = []data.Column{
		{Name: "preference", Kind: data.KindNumber}, {Name: "preferred", Kind: data.KindText},
		{Name: "agree", Kind: data.KindBool},
	}
	answerColumns = []data.Column{
		{Name: "dimensions", Kind: data.KindJSON}, {Name: "answers", Kind: data.KindJSON},
		{Name: "error", Kind: data.KindText},
	}
)

// set fills in the columns of a row.
func (d *row) set(rec *data.Record) {
	if len(d.Answers) > 0 {
		rec.Set("answers", d.Answers)
	}
	if d.Error != "" {
		rec.Set("error", d.Error)
		return
	}
	rec.Set("dimensions", d.Dimensions)
	if d.Agree == nil {
		rec.Set("score", d.Score)
		rec.Set("score01", d.Score01)
		return
	}
	rec.Set("preference", d.Score)
	rec.Set("preferred", []string{"edit2", "neither", "edit"}[1+side(d.Score)])
	rec.Set("agree", *d.Agree)
}
