package textjudge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/shards"
	"assay/internal/store"
	"assay/internal/table"
)

// tableHead says what a journal's results belong to; in shards with the digest of the table's bytes.
type tableHead struct {
	In      string            `json:"in"`
	Rows    int               `json:"rows"`
	Judge   string            `json:"judge"`
	Table   string            `json:"table,omitempty"`
	Columns map[string]string `json:"columns,omitempty"`
}

// row is a row of a table: an edit, with its pictures by the roles that the judge shows.
type row struct {
	instruction string
	images      map[string]data.Image
	asked       []*edit.Edit // two for a judge of pairs
}

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
	job := j.job(t, o)
	err = job.Do(ctx, job.Rewrite(ctx, t, columns, func(l *table.Line[Result], rec *data.Record) error {
		table.Clear(rec, columns)
		r.count(l)
		j.set(l, rec)
		return nil
	}))
	if err != nil {
		return nil, err
	}
	r.shares()
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
	return j.job(t, o).Shard(ctx)
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
func (j *Judge) job(t *data.Table, o table.Options) *table.Job[row, Result] {
	head := tableHead{In: t.Path(), Rows: t.Len(), Judge: j.fingerprint}
	if abs, err := filepath.Abs(t.Path()); err == nil {
		head.In = abs
	}
	roles := j.Roles()
	return &table.Job[row, Result]{
		Options: o,
		Rows:    t.Len(),
		Head:    head,
		Plan: func() (any, error) {
			digest, err := store.FileDigest(t.Path())
			plan := head
			plan.Table, plan.Columns = digest.String(), o.Columns
			return plan, err
		},
		Read: func(i int) (row, error) { return readRow(t, roles, i) },
		Content: func(r *row, err error) (string, error) {
			parts := []any{err, r.instruction}
			for _, role := range roles {
				parts = append(parts, role, r.images[role])
			}
			return table.Content(t.Folder(), parts...)
		},
		Prepare: func(r *row) error { return j.decode(r, t.Folder()) },
		Work:    table.Single(func(ctx context.Context, r *row) (Result, error) { return j.row(ctx, r) }),
		Ends:    func(err error) bool { return errors.Is(err, chat.ErrUnavailable) },
		Weigh: func(i int) (bytes int64, begins bool) {
			r, err := readRow(t, roles, i)
			if err != nil {
				return 0, true
			}
			for _, m := range r.images {
				bytes += m.Size(t.Folder())
			}
			return bytes, true
		},
	}
}

// column is that of a role; reference is the label table's target.
func column(role string) string {
	if role == "reference" {
		return "target"
	}
	return role
}

// readRow reads a row and finds its pictures, without decoding them.
func readRow(t *data.Table, roles []string, i int) (r row, err error) {
	rec, err := t.Record(i)
	if err != nil {
		return r, err
	}
	line, err := t.Row(rec)
	if r.instruction = line.Instruction; err != nil {
		return r, err
	}
	images := map[string]data.Image{}
	for _, role := range roles {
		switch role {
		case "source":
			images[role] = line.Source
		case "edit":
			images[role] = line.Edit
		case "reference":
			images[role] = line.Target
		default:
			v, _ := rec.Get(role)
			if images[role], err = data.ToImage(v); err != nil {
				return r, fmt.Errorf("column %q: %w", role, err)
			}
		}
		if images[role].IsZero() {
			return r, fmt.Errorf("column %q: there is no picture", column(role))
		}
	}
	r.images = images
	return r, nil
}

// decode makes the edits that are asked about.
func (j *Judge) decode(r *row, folder string) error {
	e := &edit.Edit{Instruction: r.instruction, Pictures: map[string]edit.Picture{}}
	for _, role := range j.Roles() {
		p, err := r.images[role].Open(folder, data.Limits{})
		if err != nil {
			return fmt.Errorf("%s: %w", role, err)
		}
		e.Set(role, p)
	}
	if r.asked = []*edit.Edit{e}; j.Config.Pair {
		r.asked = append(r.asked, &edit.Edit{Output: e.Pictures["edit2"]})
	}
	return nil
}

func (j *Judge) row(ctx context.Context, r *row) (Result, error) {
	result, err := j.Ask(ctx, r.asked...)
	return *result, err
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
