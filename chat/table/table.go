// Package table asks a chat model the rows of a table, and goes on after an interrupt where it was.
package table

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"assay/chat"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/journal"
	"assay/internal/workers"
)

// Options say which table is asked.
type Options struct {
	In       string                // .jsonl: rows of messages, see docs/chat.md
	Out      string                // .jsonl: an answer for each row, in the same order
	Parallel int                   // rows that are asked at a time; default 16
	Progress func(done, total int) // nil: not called
}

// Result counts what [Ask] did.
type Result struct {
	Out        string `json:"out"`
	Rows       int    `json:"rows"`
	Answered   int    `json:"answered"`
	Failed     int    `json:"failed"`
	Prompt     int    `json:"prompt_tokens"` // of this run: rows that were kept count nothing
	Completion int    `json:"completion_tokens"`
}

// record is a line of OUT.progress. Answers are not kept in memory: they are read again when the output is written.
type record struct {
	Row    int             `json:"row"`
	Of     string          `json:"of"` // digest of the row and its pictures
	Answer json.RawMessage `json:"answer"`
}

// UnmarshalJSON reads a record without its answer.
func (r *record) UnmarshalJSON(raw []byte) error {
	var head struct {
		Row int    `json:"row"`
		Of  string `json:"of"`
	}
	err := json.Unmarshal(raw, &head)
	r.Row, r.Of = head.Row, head.Of
	return err
}

// head says what OUT.progress belongs to.
type head struct {
	In    string `json:"in"`
	Model string `json:"model"`
}

// run is one call of Ask.
type run struct {
	Options
	model  chat.Model
	lines  *lines
	folder string

	mu      sync.Mutex // of what follows
	journal *journal.Journal[record]
	kept    map[int]string // digests of rows that are answered
	done    int
	result  Result
	err     error // of the journal
}

// Ask asks every row. A row that cannot be answered has an error and no text. Answers are kept in OUT.progress while it
// runs: when ctx is cancelled the error wraps exit.ErrInterrupted, and the same call goes on; rows that were changed
// meanwhile are asked anew.
func Ask(ctx context.Context, m chat.Model, o Options) (*Result, error) {
	if err := errors.Join(format(o.In), format(o.Out)); err != nil {
		return nil, exit.Usage(err)
	}
	if err := notOneFile(o.In, o.Out); err != nil {
		return nil, exit.Usage(err)
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	in, err := filepath.Abs(o.In)
	if err != nil {
		return nil, err
	}
	l, err := openLines(o.In)
	if err != nil {
		return nil, err
	}
	defer l.close()
	print := m.Fingerprint()
	if print == "" {
		return nil, errors.New("the model's files cannot be read any more")
	}
	progress := o.Out + ".progress"
	j, old, err := journal.Open[record](progress, head{in, print})
	if err != nil {
		return nil, err
	}
	r := &run{
		Options: o,
		model:   m,
		lines:   l,
		folder:  filepath.Dir(o.In),
		journal: j,
		kept:    map[int]string{},
	}
	for _, k := range old {
		r.kept[k.Row] = k.Of
	}
	r.result = Result{Out: o.Out, Rows: len(l.at)}
	r.tell(0)
	workers.Each(len(l.at), o.Parallel, func(i int) error { r.ask(ctx, i); return nil }) // errors are kept in r
	if err := errors.Join(r.err, j.Close()); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%d of %d rows are kept in %s; the same command goes on: %w", r.done, len(l.at), progress,
			exit.ErrInterrupted)
	}
	if err := r.write(progress); err != nil {
		return nil, err
	}
	return &r.result, os.Remove(progress)
}

// tell counts n more rows.
func (r *run) tell(n int) {
	r.done += n
	if r.Progress != nil {
		r.Progress(r.done, len(r.lines.at))
	}
}

// ask answers one row, unless its answer is kept.
func (r *run) ask(ctx context.Context, i int) {
	r.mu.Lock()
	broken, of := r.err != nil, r.kept[i]
	r.mu.Unlock()
	if broken || ctx.Err() != nil {
		return
	}
	line, err := r.lines.read(i)
	var q *Row
	if err == nil {
		q, err = parse(line)
	}
	digest := content(r.folder, line, q)
	if digest == of {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tell(1)
		return
	}
	if err == nil {
		err = q.open(r.folder)
	}
	var choices []chat.Choice
	var used chat.Usage
	if err == nil {
		choices, used, err = chat.Choices(ctx, r.model, q.Messages, q.Options, q.Several)
	}
	if ctx.Err() != nil {
		return // cut off: it is asked again
	}
	out := Answer{}
	if q != nil {
		out.ID = q.ID
	}
	if err != nil {
		out.Error = err.Error()
	} else {
		out.set(choices, q.Several)
	}
	r.keep(i, digest, out, used)
}

// keep writes an answer to the journal.
func (r *run) keep(i int, digest string, out Answer, used chat.Usage) {
	raw, err := json.Marshal(out)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = r.journal.Write(record{i, digest, raw})
	}
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	r.kept[i] = digest
	r.result.Prompt += used.Prompt
	r.result.Completion += used.Completion
	r.tell(1)
}

// write puts the answers of OUT.progress into the order of the rows.
func (r *run) write(progress string) error {
	kept, err := openLines(progress)
	if err != nil {
		return err
	}
	defer kept.close()
	last := map[int]int{} // row: line that holds its answer, the last one
	for n := 1; n < len(kept.at); n++ {
		raw, err := kept.row(n)
		if err != nil {
			return err
		}
		var k record
		if err := json.Unmarshal(raw, &k); err == nil && k.Of == r.kept[k.Row] {
			last[k.Row] = n
		}
	}
	return atomicfile.Write(r.Out, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for i := range r.lines.at {
			raw, err := kept.row(last[i])
			if err != nil {
				return err
			}
			var k struct{ Answer json.RawMessage }
			var a struct{ Error string }
			if err := errors.Join(json.Unmarshal(raw, &k), json.Unmarshal(k.Answer, &a)); err != nil {
				return fmt.Errorf("row %d of %s: %w", i+1, progress, err)
			}
			if a.Error != "" {
				r.result.Failed++
			} else {
				r.result.Answered++
			}
			if _, err := b.Write(append(k.Answer, '\n')); err != nil {
				return err
			}
		}
		return b.Flush()
	})
}
