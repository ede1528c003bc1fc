package textjudge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/shards"
	"assay/internal/table"
)

// Table judges every row of a table and writes the rows with score, score01, dimensions, answers and error added. A
// judge of pairs adds preference (1: edit, 0: edit2), preferred and agree instead of scores, one without scores the
// class. A row that cannot be judged has an error and no number. The table has instruction and the pictures of the
// judge's roles.
//
// Results are kept in OUT.progress. When ctx ends, when a cap is reached or when the model answers no more, the error
// is a [table.InterruptedError]. The same call resumes, and asks again only what the server failed at.
func (j *Judge) Table(ctx context.Context, o table.Options) (*TableResult, error) {
	t, err := j.open(&o)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	r := j.result(o.Out, t.Len())
	columns := slices.Concat(scoreColumns, answerColumns)
	switch {
	case j.Config.Pair:
		columns = slices.Concat(pairColumns, answerColumns)
	case !j.Config.Scores():
		columns = slices.Concat(classColumns, answerColumns)
	}
	job, err := j.job(t, o)
	if err != nil {
		return nil, err
	}
	err = job.Do(ctx, job.Rewrite(ctx, t, columns, func(l *table.Line[Result], rec *data.Record) error {
		table.Clear(rec, columns)
		r.count(l)
		j.set(l, rec)
		return nil
	}))
	if err != nil {
		return nil, err
	}
	if n := r.Judged + r.Unreadable; n > 0 {
		r.UnreadableShare = float64(r.Unreadable) / float64(n)
	}
	return r, nil
}

// TableShard judges the rows of the shards that o.Shard names, into a folder beside o.Out. When all are there, Table
// with o.Merge writes the table. A shard with rows at which the server failed is not done ([shards.TemporaryError]):
// the same call asks again for them.
func (j *Judge) TableShard(ctx context.Context, o table.Options) (*shards.Report, error) {
	t, err := j.open(&o)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	job, err := j.job(t, o)
	if err != nil {
		return nil, err
	}
	return job.Shard(ctx)
}

// open opens the table.
func (j *Judge) open(o *table.Options) (*data.Table, error) {
	if _, err := data.FormatOf(o.Out); err != nil {
		return nil, err
	}
	roles, required := j.Roles(), []string{"instruction"}
	for _, role := range roles {
		if role == "source" || role == "edit" || role == "reference" {
			required = append(required, column(role))
		}
	}
	t, err := data.OpenTable(o.In, data.WithColumns(o.Columns), data.WithFound(o.Columns),
		data.WithRequired(required...), data.WithOnly("source", "edit", "target", "instruction"),
		data.WithPictures(roles...))
	if err != nil {
		return nil, exit.Usage(err)
	}
	if err := t.CheckOutput(o.Out); err != nil {
		return nil, errors.Join(exit.Usage(err), t.Close())
	}
	return t, nil
}

// job judges the rows of t, which is o.In opened.
func (j *Judge) job(t *data.Table, o table.Options) (*table.Job[table.Edit, Result], error) {
	roles := j.Roles()
	job := table.EditJob[Result](t, o, func(i int) (*edit.Edit, error) { return readEdit(t, roles, i) },
		func(e *edit.Edit) []any {
			parts := []any{e.Instruction}
			for _, role := range roles {
				parts = append(parts, role, table.Image(e, role))
			}
			return parts
		}, roles...)
	job.Prepare = func(e *table.Edit) (err error) {
		e.Inputs, err = j.prepare(e.Edit)
		return err
	}
	job.Work = table.Single(func(ctx context.Context, e *table.Edit) (Result, error) {
		r, err := j.answers(ctx, e.Inputs.(*edit.Views))
		return *r, err
	})
	job.Ends = func(err error) bool { return errors.Is(err, chat.ErrUnavailable) }
	return job, job.Identify(t, j.fingerprint)
}

// column is that of a role; reference is the label table's target.
func column(role string) string {
	if role == "reference" {
		return "target"
	}
	return role
}

// readEdit reads a row, with the pictures that the judge shows by their roles: edit2, the second edit of a pair, too.
func readEdit(t *data.Table, roles []string, i int) (*edit.Edit, error) {
	rec, err := t.Record(i)
	if err != nil {
		return &edit.Edit{}, err
	}
	row, err := t.Row(rec)
	plain, e := &edit.Edit{Instruction: row.Instruction}, &edit.Edit{Instruction: row.Instruction}
	if err != nil {
		return plain, err
	}
	known := map[string]data.Image{"source": row.Source, "edit": row.Edit, "reference": row.Target}
	for _, role := range roles {
		m, ok := known[role]
		if !ok {
			v, _ := rec.Get(role)
			if m, err = data.ToImage(v); err != nil {
				return plain, fmt.Errorf("column %q: %w", role, err)
			}
		}
		if m.IsZero() {
			return plain, fmt.Errorf("column %q: there is no picture", column(role))
		}
		table.SetImage(e, role, m, t)
	}
	return e, nil
}

// The columns that are added. Those of a pair have other names than scores, which others read: a preference is no
// score.
var (
	scoreColumns = []data.Column{{Name: "score", Kind: data.KindNumber}, {Name: "score01", Kind: data.KindNumber}}
	classColumns = []data.Column{{Name: "class", Kind: data.KindText}}
	pairColumns  = []data.Column{{Name: "preference", Kind: data.KindNumber}, {Name: "preferred", Kind: data.KindText},
		{Name: "agree", Kind: data.KindBool}}
	answerColumns = []data.Column{{Name: "dimensions", Kind: data.KindJSON}, {Name: "answers", Kind: data.KindJSON},
		{Name: "error", Kind: data.KindText}}
)

// set fills in the columns of a row.
func (j *Judge) set(l *table.Line[Result], rec *data.Record) {
	r := &l.Value
	if len(r.Answers) > 0 {
		rec.Set("answers", r.Answers)
	}
	if l.Error != "" {
		rec.Set("error", l.Error)
		return
	}
	rec.Set("dimensions", r.Dimensions)
	if !j.Config.Scores() {
		if r.Class != "" {
			rec.Set("class", r.Class)
		}
		return
	}
	if r.Agree == nil {
		rec.Set("score", r.Score)
		rec.Set("score01", r.Score01)
		return
	}
	rec.Set("preference", r.Score)
	rec.Set("preferred", []string{"edit2", "neither", "edit"}[1+side(r.Score)])
	rec.Set("agree", *r.Agree)
}
