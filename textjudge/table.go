package textjudge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/shards"
	"assay/internal/table"
)

// Table judges every row of a table and writes the rows with the columns score, score01, dimensions, answers and
// error added. A judge of pairs adds preference (1: edit, 0: edit2), preferred and agree instead of scores; a judge
// without scores adds class. A row that cannot be judged gets an error and no number. The table needs the column
// instruction and the pictures of the judge's roles.
//
// Results are saved in OUT.progress. If ctx ends, a cap is reached or the model no longer answers, the error is a
// [table.InterruptedError]. The same call resumes, and repeats only the requests at which the server failed.
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

// TableShard judges the rows of the shards that o.Shard names, into a folder next to o.Out. When all shards are done,
// Table with o.Merge writes the table. A shard with rows at which the server failed is not done
// ([shards.TemporaryError]); the same call asks about those rows again.
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
		if role == "source" || role == allSources || role == "edit" || role == "reference" {
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

// job returns the job that judges the rows of t, the opened o.In.
func (j *Judge) job(t *data.Table, o table.Options) (*table.Job[*edit.Edit, Result], error) {
	roles := j.Roles()
	weighed := slices.Clone(roles)
	if i := slices.Index(weighed, allSources); i >= 0 {
		weighed[i] = "source"
	}
	job := table.EditJob[Result](t, o, func(i int) (*edit.Edit, error) { return readEdit(t, roles, i) },
		func(e *edit.Edit) []any {
			parts := []any{e.Instruction}
			for _, role := range rolesOf(e, roles) {
				parts = append(parts, role, table.Image(e, role))
			}
			return parts
		}, weighed...)
	job.Prepare = func(e *edit.Edit) (edit.Inputs, error) { return j.prepare(e) }
	job.Work = table.Single(func(ctx context.Context, t *table.Task[*edit.Edit]) (Result, error) {
		r, err := j.answers(ctx, t.Inputs.(*edit.Views))
		return *r, err
	})
	job.Ends = func(err error) bool { return errors.Is(err, chat.ErrUnavailable) }
	return job, job.Identify(t, j.fingerprint)
}

// column returns the column of a role. The role reference is the column target of label tables; the column source
// holds one source or a list of all.
func column(role string) string {
	switch role {
	case "reference":
		return "target"
	case allSources:
		return "source"
	}
	return role
}

// readEdit reads a row with the pictures that the judge shows, by role, including edit2, the second edit of a pair.
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
	for k, m := range row.References {
		known[edit.SourceRole(k+1)] = m
	}
	all := table.EditOf(t, &row)
	if err := checkSources(all, roles); err != nil {
		return plain, err
	}
	for _, role := range rolesOf(all, roles) {
		m, ok := known[role]
		if !ok {
			v, _ := rec.Get(role)
			if m, err = data.ToImage(v); err != nil {
				return plain, fmt.Errorf("column %q: %w", role, err)
			}
		}
		if m.IsZero() {
			return plain, fmt.Errorf("column %q: no picture", column(role))
		}
		table.SetImage(e, role, m, t)
	}
	return e, nil
}

// The columns that are added. The columns of a pair have names other than score, which other commands read: a
// preference is not a score.
var (
	scoreColumns = []data.Column{{Name: "score", Kind: data.KindNumber}, {Name: "score01", Kind: data.KindNumber}}
	classColumns = []data.Column{{Name: "class", Kind: data.KindText}}
	pairColumns  = []data.Column{{Name: "preference", Kind: data.KindNumber}, {Name: "preferred", Kind: data.KindText},
		{Name: "agree", Kind: data.KindBool}}
	answerColumns = []data.Column{{Name: "dimensions", Kind: data.KindJSON}, {Name: "answers", Kind: data.KindJSON},
		{Name: "error", Kind: data.KindText}}
)

// set fills in the added columns of a row.
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

// TableResult counts what Table did.
type TableResult struct {
	Out     string `json:"out"`
	Judge   string `json:"judge"`
	Rule    string `json:"rule"`
	Average string `json:"average"`
	Passes  int    `json:"passes"`
	Repeats int    `json:"repeats"`
	Prompts string `json:"prompts"` // own, published or altered

	Constrained bool `json:"constrained"` // the grammars decided which tokens could be chosen

	Rows            int     `json:"rows"`
	Judged          int     `json:"judged"`
	Failed          int     `json:"failed"`           // rows without a score
	Unreadable      int     `json:"unreadable"`       // of them, rows with an unreadable answer
	UnreadableShare float64 `json:"unreadable_share"` // of judged and unreadable rows
	Pairs           *Pairs  `json:"pairs,omitempty"`

	Answers    int      `json:"answers"` // of all rows, including saved ones
	Again      int      `json:"again"`   // of them, answers to repeated questions
	Prompt     int64    `json:"prompt_tokens"`
	Completion int64    `json:"completion_tokens"`
	Warnings   []string `json:"warnings,omitempty"`
}

// result returns the initial counts of a table.
func (j *Judge) result(out string, rows int) *TableResult {
	c := &j.Config
	r := &TableResult{Out: out, Judge: c.Name, Rule: c.Rule, Average: c.Average, Passes: c.Passes, Repeats: c.Repeats,
		Prompts: j.Asks, Constrained: c.Constrained, Rows: rows, Warnings: j.Warnings}
	if c.Pair {
		r.Pairs = &Pairs{}
	}
	return r
}

// Pairs counts how often the two orders of a pair agree.
type Pairs struct {
	Agree         int     `json:"agree"`
	Disagree      int     `json:"disagree"`
	DisagreeShare float64 `json:"disagree_share"`
	FirstShown    int     `json:"first_shown"`  // disagreements that prefer the edit shown first both times
	SecondShown   int     `json:"second_shown"` // ... the edit shown second
}

// count adds a row.
func (t *TableResult) count(l *table.Line[Result]) {
	d := &l.Value
	for _, a := range d.Answers {
		t.Answers++
		if a.Try > 0 {
			t.Again++
		}
		t.Prompt += int64(a.Prompt)
		t.Completion += int64(a.Completion)
	}
	switch {
	case l.Unreadable:
		t.Failed++
		t.Unreadable++
		return
	case l.Error != "":
		t.Failed++
		return
	}
	t.Judged++
	if d.Agree == nil {
		return
	}
	t.Pairs.Count(d.Dimensions[shownFirst], d.Dimensions[shownSecond])
}

// Count adds a pair, given the preference for its first edit when it was shown first and when it was shown second (1:
// it is better, 0: it is worse).
func (p *Pairs) Count(shownFirst, shownSecond float64) {
	first, second := side(shownFirst), side(shownSecond)
	switch {
	case first == second:
		p.Agree++
	case first > second:
		p.Disagree++
		p.FirstShown++
	default:
		p.Disagree++
		p.SecondShown++
	}
	p.DisagreeShare = float64(p.Disagree) / float64(p.Agree+p.Disagree)
}

// String describes the judge: its name and rule, and how passes are averaged.
func (t *TableResult) String() string {
	words := []string{t.Judge, "rule " + t.Rule}
	if t.Passes > 1 {
		words = append(words, fmt.Sprintf("%d passes, average %s", t.Passes, t.Average))
	}
	if t.Constrained {
		words = append(words, "constrained")
	}
	return strings.Join(words, ", ")
}
