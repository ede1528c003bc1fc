package captions

import (
	"context"
	"errors"
	"fmt"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/table"
)

// readColumns are the columns that a run reads.
var readColumns = []string{"source", "target", "instruction", "source_caption", "target_caption"}

// The columns that a run writes, in order; they replace columns of the same names.
var written = []data.Column{
	{Name: "source_caption", Kind: data.KindText},
	{Name: "target_caption", Kind: data.KindText},
	{Name: "captioned_by", Kind: data.KindText},
	{Name: "caption_error", Kind: data.KindText},
}

// Result counts what a run wrote.
type Result struct {
	Out     string `json:"out"`
	Rows    int    `json:"rows"`
	Written int    `json:"written"` // rows with both captions, at least one of them from the model
	Given   int    `json:"given"`   // rows whose captions were already in the table
	// SourceOnly counts rows with only the source's caption: the prompts show the target, and the rows have none.
	SourceOnly int    `json:"source_only"`
	Targets    int    `json:"targets"` // rows with a target
	Failed     int    `json:"failed"`
	Examples   string `json:"examples,omitempty"` // file of conversations, instead of Out
}

// Run writes the captions of a table.
type Run struct {
	*Config
	Writer   Writer
	Name     string               // of the model, for the column captioned_by
	Workers  int                  // rows at a time
	Progress func(done, rows int) // nil: not called
}

// row is the result of one row.
type row struct {
	source, target string // captions; "": none
	by             string // the model that wrote them
	given, goal    bool   // captions were already in the table; the row has a target
}

// Write writes the captions of all rows. A row without captions has the reason in caption_error. Answers are stored
// by the writer's model, not in a journal: the same call only asks what is missing.
func (r *Run) Write(ctx context.Context) (*Result, error) {
	if _, err := data.FormatOf(r.Out); err != nil {
		return nil, exit.Usage(err)
	}
	t, err := r.open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if err := t.CheckOutput(r.Out); err != nil {
		return nil, exit.Usage(fmt.Errorf("out: %w", err))
	}
	j := &table.Job[int, row]{
		Options: table.Options{Out: r.Out, Workers: r.Workers, Progress: r.Progress},
		Rows:    t.Len(),
		Read:    func(i int) (int, error) { return i, nil },
		Work: table.Single(func(ctx context.Context, of *table.Task[int]) (row, error) {
			return r.row(ctx, t, of.Index)
		}),
		Ends: func(err error) bool { return errors.Is(err, chat.ErrUnavailable) },
	}
	rows, err := j.InMemory(ctx)
	if err != nil {
		return nil, fmt.Errorf("the answers so far are saved: %w", err)
	}
	result := &Result{Out: r.Out, Rows: t.Len()}
	return result, j.Rewrite(ctx, t, written, func(line *table.Line[row], rec *data.Record) error {
		result.count(line)
		table.Clear(rec, written)
		v := &line.Value
		for k, text := range []string{v.source, v.target, v.by, line.Error} {
			if text != "" {
				rec.Set(written[k].Name, text)
			}
		}
		return nil
	})(rows.Line)
}

func (r *Run) open() (*data.Table, error) {
	t, err := data.OpenTable(r.In, data.WithColumns(data.WithoutCaptions(r.Columns)), data.WithFound(r.Columns),
		data.WithRequired("source", "instruction"))
	return t, exit.Usage(err)
}

// caption returns a caption from the table.
func (r *Run) caption(rec *data.Record, name string) (string, error) {
	if other := r.Columns[name]; other != "" {
		name = other
	}
	v, _ := rec.Get(name)
	text, err := data.Prose(v)
	if err != nil {
		err = fmt.Errorf("column %q: %w", name, err)
	}
	return text, err
}

// row captions one row.
func (r *Run) row(ctx context.Context, t *data.Table, i int) (out row, err error) {
	rec, err := t.Record(i)
	if err != nil {
		return out, err
	}
	if r.Given == "keep" {
		if out.source, err = r.caption(&rec, "source_caption"); err == nil {
			out.target, err = r.caption(&rec, "target_caption")
		}
		if err != nil {
			return out, err
		}
	}
	line, err := t.Row(rec)
	if err != nil {
		return out, err
	}
	if n := len(line.Sources()); n > 1 {
		return out, fmt.Errorf("the edit has %d sources, captions need exactly one: leave such rows out or give them a "+
			"single source", n)
	}
	out.goal = !line.Target.IsZero()
	shown := r.Writer.Prompts.Source.shows(target) || r.Writer.Prompts.Target.shows(target)
	if out.source != "" && (out.target != "" || !out.goal && shown) {
		out.given = true
		return out, nil
	}
	source, err := r.picture(t, line.Source, "source")
	if err != nil {
		return out, err
	}
	e := edit.New(source, nil, line.Instruction)
	e.Texts = map[string]string{sourceCaption: out.source}
	if out.goal && shown {
		wanted, err := r.picture(t, line.Target, target)
		if err != nil {
			return out, err
		}
		e.Set(target, wanted)
	}
	return r.ask(ctx, e, out)
}

// ask runs the dialogues whose captions are missing. If one fails, the row has what was given: one caption of a pair is
// of no use, but it may be a person's.
func (r *Run) ask(ctx context.Context, e *edit.Edit, given row) (_ row, err error) {
	out := given
	out.by = r.Name
	if out.source == "" {
		if out.source, err = r.Writer.Source(ctx, e); err != nil {
			return given, err
		}
		e.Texts[sourceCaption] = out.source
	}
	if out.target == "" && (out.goal || !r.Writer.Prompts.Target.shows(target)) {
		if out.target, err = r.Writer.Target(ctx, e); err != nil {
			return given, err
		}
	}
	return out, nil
}

func (r *Run) picture(t *data.Table, m data.Image, what string) (*data.Picture, error) {
	p, err := m.Open(t.Folder(), data.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return p, nil
}

// count adds a row.
func (r *Result) count(line *table.Line[row]) {
	v := &line.Value
	switch {
	case line.Error != "":
		r.Failed++
	case v.target == "":
		r.SourceOnly++
	case v.given:
		r.Given++
	default:
		r.Written++
	}
	if v.goal {
		r.Targets++
	}
}
