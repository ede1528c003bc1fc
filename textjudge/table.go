package textjudge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/chat"
	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/journal"
	"assay/shards"
	"assay/store"
)

// TableOptions say which table is judged, and what is written.
type TableOptions struct {
	In      string            // .jsonl, .csv or .parquet: instruction and the pictures of the judge's roles
	Out     string            // .jsonl or .parquet: the same rows in the same order
	Columns map[string]string // our column: the table's, for other names
	Workers int               // rows at a time

	Progress func(done, total int) // nil: not called

	Shard shards.Ref        // the part of the rows that TableShard judges
	Merge bool              // write the table from what all shards hold
	Told  func(text string) // of what a shard waits for; nil: not called
}

// TableResult counts what Table did.
type TableResult struct {
	Out     string `json:"out"`
	Judge   string `json:"judge"`
	Rule    string `json:"rule"`
	Average string `json:"average"`
	Passes  int    `json:"passes"`
	Repeats int    `json:"repeats"`

	Rows            int     `json:"rows"`
	Judged          int     `json:"judged"`
	Failed          int     `json:"failed"`           // rows without a score
	Unreadable      int     `json:"unreadable"`       // of them, those whose answers could not be read
	UnreadableShare float64 `json:"unreadable_share"` // of all rows that were answered
	Pairs           *Pairs  `json:"pairs,omitempty"`

	Answers    int      `json:"answers"` // of all rows, kept ones too
	Again      int      `json:"again"`   // of them, those that were asked again
	Prompt     int64    `json:"prompt_tokens"`
	Completion int64    `json:"completion_tokens"`
	Warnings   []string `json:"warnings,omitempty"`
}

// Pairs says how far the two orders of pairs agree.
type Pairs struct {
	Agree         int     `json:"agree"`
	Disagree      int     `json:"disagree"`
	DisagreeShare float64 `json:"disagree_share"`
	FirstShown    int     `json:"first_shown"`  // disagreements in which the one shown first is preferred both times
	SecondShown   int     `json:"second_shown"` // ... the one shown second
}

// StoppedError says that a run ended before its table did, and where what is done is kept. The same call goes on there.
type StoppedError struct {
	Done, Total int
	Progress    string
	Err         error // the context's, or wraps chat.ErrUnavailable
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("%d of %d rows are kept in %s: %v", e.Done, e.Total, e.Progress, e.Err)
}

func (e *StoppedError) Unwrap() error { return e.Err }

// row is what became of a row of a table: a line of OUT.progress.
type row struct {
	Row     int    `json:"row"`
	Content string `json:"of"` // digest of the instruction and of the content of the pictures
	Result
	Error      string `json:"error,omitempty"`
	Unreadable bool   `json:"unreadable,omitempty"`

	passing bool // the error may not come again: the server failed
}

// run is a table on its way.
type run struct {
	judge *Judge
	table *data.Table
	roles []string
	o     TableOptions
	stop  context.CancelCauseFunc

	from, to int // rows to judge

	mu      sync.Mutex // of what follows
	done    map[int]row
	journal *journal.Journal[row]
}

// Table judges every row of a table and writes the rows with score, score01, dimensions, answers and error added. Those
// of pairs have preference (1: edit, 0: edit2), preferred and agree instead of scores. A row that cannot be judged has
// an error and no number.
//
// Results are kept in OUT.progress. When ctx ends, when a cap is reached or when the model answers no more, the error
// is a [StoppedError]; the same call goes on there, and asks again only what the server failed at.
func (j *Judge) Table(ctx context.Context, o TableOptions) (*TableResult, error) {
	format, err := data.FormatOf(o.Out)
	if err != nil {
		return nil, err
	}
	r, err := j.begin(o)
	if err != nil {
		return nil, err
	}
	defer r.table.Close()
	if o.Merge {
		return r.merge(format)
	}
	progress := o.Out + ".progress"
	err = r.judgeInto(ctx, progress)
	if errors.Is(err, context.Canceled) || errors.Is(err, chat.ErrUnavailable) {
		return nil, &StoppedError{len(r.done), r.table.Len(), progress, err}
	}
	if err != nil {
		return nil, err
	}
	result, err := r.write(format)
	if err != nil {
		return nil, err
	}
	return result, os.Remove(progress)
}

// begin opens the table.
func (j *Judge) begin(o TableOptions) (r *run, err error) {
	r = &run{judge: j, roles: j.Roles(), o: o, done: map[int]row{}}
	if r.table, err = data.OpenTable(o.In, data.WithColumns(o.Columns), data.WithRequired(r.required()...),
		data.WithOnly("source", "edit", "target", "instruction")); err != nil {
		return nil, err
	}
	r.to = r.table.Len()
	return r, nil
}

// judgeInto judges the rows, with a journal at that path.
func (r *run) judgeInto(ctx context.Context, path string) error {
	if err := r.open(path); err != nil {
		return err
	}
	err := r.rows(ctx)
	if e := r.journal.Close(); err == nil {
		err = e
	}
	return err
}

// columns are those of the roles; reference is the label table's target.
func column(role string) string {
	if role == "reference" {
		return "target"
	}
	return role
}

func (r *run) required() []string {
	list := []string{"instruction"}
	for _, role := range r.roles {
		if role == "source" || role == "edit" || role == "reference" {
			list = append(list, column(role))
		}
	}
	return list
}

// head says what a run's results belong to.
type head struct {
	In    string `json:"in"`
	Rows  int    `json:"rows"`
	Judge string `json:"judge"`
}

func (r *run) head() (head, error) {
	in, err := filepath.Abs(r.table.Path())
	return head{in, r.table.Len(), r.judge.Fingerprint()}, err
}

// open reads what is done already of rows that were not changed since.
func (r *run) open(progress string) error {
	head, err := r.head()
	if err != nil {
		return err
	}
	var old []row
	if r.journal, old, err = journal.Open[row](progress, head); err != nil {
		return err
	}
	for _, d := range old {
		if d.Row >= r.table.Len() {
			continue
		}
		_, pictures, err := r.read(d.Row)
		if r.content(d.Row, pictures, err) == d.Content {
			r.done[d.Row] = d
		}
	}
	return nil
}

// read reads a row and finds its pictures, without decoding them.
func (r *run) read(i int) (instruction string, pictures map[string]data.Image, err error) {
	rec, err := r.table.Record(i)
	if err != nil {
		return "", nil, err
	}
	line, err := r.table.Row(rec)
	if err != nil {
		return "", nil, err
	}
	pictures = map[string]data.Image{}
	for _, role := range r.roles {
		switch role {
		case "source":
			pictures[role] = line.Source
		case "edit":
			pictures[role] = line.Edit
		case "reference":
			pictures[role] = line.Target
		default:
			v, _ := rec.Get(role)
			if pictures[role], err = data.ToImage(v); err != nil {
				return "", nil, fmt.Errorf("column %q: %w", role, err)
			}
		}
		if pictures[role].IsZero() {
			return "", nil, fmt.Errorf("column %q: there is no picture", column(role))
		}
	}
	return line.Instruction, pictures, nil
}

// content identifies what a row's result depends on besides the judge; err is why the row cannot be read.
func (r *run) content(i int, pictures map[string]data.Image, err error) string {
	rec, _ := r.table.Record(i)
	line, _ := r.table.Row(rec)
	parts := []string{fmt.Sprint(err), line.Instruction}
	for _, role := range r.roles {
		k, err := store.Content(r.table.Folder(), pictures[role])
		parts = append(parts, role, fmt.Sprint(k, err))
	}
	return store.KeyOf(parts...).String()
}

// rows judges all rows that are not done.
func (r *run) rows(ctx context.Context) error {
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	var missing []int
	for i := r.from; i < r.to; i++ {
		if _, ok := r.done[i]; !ok {
			missing = append(missing, i)
		}
	}
	todo := make(chan int)
	go func() {
		defer close(todo)
		for _, i := range missing {
			select {
			case todo <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	return r.work(ctx, todo)
}

func (r *run) work(ctx context.Context, todo <-chan int) error {
	r.told()
	var wg sync.WaitGroup
	for range max(r.o.Workers, 1) {
		wg.Go(func() {
			for i := range todo {
				if ctx.Err() != nil {
					return
				}
				if err := r.one(ctx, i); err != nil {
					r.stop(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// one judges a row. Its error ends the run.
func (r *run) one(ctx context.Context, i int) error {
	instruction, images, err := r.read(i)
	d := row{Row: i, Content: r.content(i, images, err)}
	var server *chat.ServerError
	var answer *AnswerError
	if err == nil {
		var item Item
		if item, err = r.decode(instruction, images); err == nil {
			var result *Result
			result, err = r.judge.Judge(ctx, item)
			d.Result = *result
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, chat.ErrUnavailable):
		return err
	case err != nil:
		d.Error = err.Error()
	}
	d.Unreadable, d.passing = errors.As(err, &answer), errors.As(err, &server)
	r.mu.Lock()
	r.done[i] = d
	r.mu.Unlock()
	r.told()
	if d.passing { // it may answer another time, so the error is not kept
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal.Write(d)
}

func (r *run) decode(instruction string, images map[string]data.Image) (Item, error) {
	item := Item{Instruction: instruction, Pictures: map[string]*data.Picture{}}
	for role, m := range images {
		p, err := m.Open(r.table.Folder(), data.Limits{})
		if err != nil {
			return item, fmt.Errorf("%s: %w", role, err)
		}
		item.Pictures[role] = p
	}
	return item, nil
}

func (r *run) told() {
	if r.o.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.o.Progress(len(r.done), r.to-r.from)
}

// write writes the table and counts.
func (r *run) write(format data.Format) (*TableResult, error) {
	c := &r.judge.Config
	result := &TableResult{
		Out: r.o.Out, Judge: c.Name, Rule: c.Rule, Average: c.Average, Passes: c.Passes, Repeats: c.Repeats,
		Rows: r.table.Len(), Warnings: r.judge.Warnings,
	}
	columns := append(slices.Clone(scoreColumns), answerColumns...)
	if c.Pair {
		result.Pairs = &Pairs{}
		columns = append(slices.Clone(pairColumns), answerColumns...)
	}
	err := atomicfile.Write(r.o.Out, func(w io.Writer) error {
		tw, err := r.table.NewWriter(w, format, columns...)
		if err != nil {
			return err
		}
		for i := range r.table.Len() {
			rec, err := r.table.Record(i)
			if err != nil { // the row cannot be read at all: its place is kept
				rec = data.Record{}
			}
			for _, column := range columns {
				rec.Set(column.Name, nil)
			}
			d := r.done[i]
			result.count(&d)
			d.set(&rec)
			if err := tw.Write(rec); err != nil {
				return err
			}
		}
		return tw.Close()
	})
	result.shares()
	return result, err
}

// The columns that are added. Those of a pair have other names than scores, which others read: a preference is none.
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

// count adds a row.
func (t *TableResult) count(d *row) {
	for _, a := range d.Answers {
		t.Answers++
		if a.Try > 0 {
			t.Again++
		}
		t.Prompt += int64(a.Prompt)
		t.Completion += int64(a.Completion)
	}
	switch {
	case d.Unreadable:
		t.Failed++
		t.Unreadable++
		return
	case d.Error != "":
		t.Failed++
		return
	}
	t.Judged++
	if d.Agree == nil {
		return
	}
	t.Pairs.Count(d.Dimensions["shown_first"], d.Dimensions["shown_second"])
}

// Count adds a pair by what was said of its first edit when that was shown first, and second (1: it is better).
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

// shares computes the shares.
func (t *TableResult) shares() {
	if n := t.Judged + t.Unreadable; n > 0 {
		t.UnreadableShare = float64(t.Unreadable) / float64(n)
	}
}

// String is the rule in words: its name, and how passes are averaged.
func (t *TableResult) String() string {
	words := []string{t.Judge, "rule " + t.Rule}
	if t.Passes > 1 {
		words = append(words, fmt.Sprintf("%d passes, average %s", t.Passes, t.Average))
	}
	return strings.Join(words, ", ")
}
