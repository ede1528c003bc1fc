// Package table handles tables of conversations, JSON lines with messages: [Conversations] reads them strictly,
// [Line] writes them, and [Ask] lets a model answer them.
package table

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"assay/chat"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/table"
)

// Result counts what [Ask] did.
type Result struct {
	Out        string `json:"out"`
	Rows       int    `json:"rows"`
	Answered   int    `json:"answered"`
	Failed     int    `json:"failed"`
	Prompt     int    `json:"prompt_tokens"` // of this run; rows saved earlier count 0
	Completion int    `json:"completion_tokens"`
}

// head identifies the input and the model of OUT.progress.
type head struct {
	In    string `json:"in"`
	Model string `json:"model"`
}

// question is a row to be answered.
type question struct {
	line []byte
	row  *Row
	err  error // why it is unreadable
}

// answered is a row's result in OUT.progress: a line of the output.
type answered struct {
	Answer json.RawMessage `json:"answer"`
}

// Ask lets a model answer the rows of a .jsonl table (docs/chat.md), 16 at a time unless o.Workers is set, and writes
// a .jsonl file of answers in the same order. A row that cannot be answered gets an error and no text.
func Ask(ctx context.Context, m chat.Model, o table.Options) (*Result, error) {
	if err := errors.Join(format(o.In), format(o.Out)); err != nil {
		return nil, exit.Usage(err)
	}
	for _, name := range []string{o.Out, o.Out + ".progress"} {
		if atomicfile.Same(o.In, name) {
			return nil, exit.Usagef("%s is the table of questions, %s, and would be overwritten; choose another file", name,
				o.In)
		}
	}
	if o.Workers <= 0 {
		o.Workers = 16
	}
	in, err := filepath.Abs(o.In)
	if err != nil {
		return nil, err
	}
	c, err := Open(o.In)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	print := m.Fingerprint()
	if print == "" {
		return nil, errors.New("the model's files are no longer readable")
	}
	result := &Result{Out: o.Out, Rows: c.Len()}
	var mu sync.Mutex // of result
	j := &table.Job[question, answered]{
		Options: o,
		Rows:    c.Len(),
		Head:    head{in, print},
		Read: func(i int) (q question, _ error) {
			if q.line, q.err = c.lines.Read(i); q.err == nil {
				q.row, q.err = parse(q.line)
			}
			return q, nil // the answer reports the error
		},
		Content: func(q question, _ error) (string, error) { return q.content(c.Folder()), nil },
		Work: table.Single(func(ctx context.Context, t *table.Task[question]) (answered, error) {
			answer, used, err := t.Row.answer(ctx, m, c.Folder())
			if err := cmp.Or(ctx.Err(), err); err != nil {
				return answered{}, err
			}
			mu.Lock()
			defer mu.Unlock()
			result.Prompt += used.Prompt
			result.Completion += used.Completion
			raw, err := json.Marshal(answer)
			return answered{raw}, err
		}),
		Ends: func(err error) bool { return errors.Is(err, chat.ErrUnavailable) },
	}
	return result, j.Do(ctx, func(get table.Get[answered]) error { return result.write(get) })
}

// content returns a digest of what the answer depends on besides the model: the line and the content of the pictures.
func (q *question) content(folder string) string {
	parts := []any{string(bytes.TrimSpace(q.line))}
	if q.row != nil {
		for _, m := range q.row.Pictures {
			parts = append(parts, m)
		}
	}
	digest, _ := table.Content(folder, parts...) // an unreadable picture is an error of the answer
	return digest
}

// answer asks the model about a row. Its error ends the run: the model does not answer any more.
func (q *question) answer(
	ctx context.Context, m chat.Model, folder string,
) (out Answer, used chat.Usage, err error) {
	err = q.err
	if q.row != nil {
		out.ID = q.row.ID
	}
	if err == nil {
		err = q.row.open(folder)
	}
	var choices []chat.Choice
	if err == nil {
		choices, used, err = chat.Choices(ctx, m, q.row.Messages, q.row.Options, q.row.Several)
	}
	switch {
	case errors.Is(err, chat.ErrUnavailable):
		return out, used, err
	case err != nil:
		out.Error = err.Error()
		return out, used, nil
	}
	if out.Answer = choices[0].Answer; q.row.Several.Made() > 1 {
		out.Choices = choices
	}
	return out, used, nil
}

// write writes the answers and counts them.
func (r *Result) write(get table.Get[answered]) error {
	return atomicfile.Write(r.Out, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for i := range r.Rows {
			line, err := get(i)
			if err != nil {
				return err
			}
			var a struct{ Error string }
			if err := json.Unmarshal(line.Value.Answer, &a); err != nil {
				return fmt.Errorf("row %d: %w", i+1, err)
			}
			if a.Error != "" {
				r.Failed++
			} else {
				r.Answered++
			}
			if _, err := b.Write(append(line.Value.Answer, '\n')); err != nil {
				return err
			}
		}
		return b.Flush()
	})
}
