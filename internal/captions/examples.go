package captions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"assay/chat"
	"assay/chat/table"
	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/exit"
)

// Examples writes the rows that have captions as conversations, to train a caption model (train with mode: text) on
// exactly the questions that it is later asked. Each distinct edit becomes one conversation for the source and one
// for the target. Dialogues must have one question each: the table does not hold the answers to earlier questions.
func (r *Run) Examples(ctx context.Context, path string) (*Result, error) {
	if filepath.Ext(path) != ".jsonl" {
		return nil, exit.Usagef("%s: want a .jsonl file", path)
	}
	if len(r.Writer.Prompts.Source) != 1 || len(r.Writer.Prompts.Target) != 1 {
		return nil, exit.Usagef("prompts: want dialogues with one question each, these have %d and %d",
			len(r.Writer.Prompts.Source), len(r.Writer.Prompts.Target))
	}
	t, err := r.open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	moving, err := data.NewMoving(t.Folder(), filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	result := &Result{Rows: t.Len(), Examples: path}
	seen := map[string]bool{}
	return result, atomicfile.Write(path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for i := range t.Len() {
			if err := ctx.Err(); err != nil {
				return errors.Join(exit.ErrInterrupted, err)
			}
			lines, err := r.examples(t, i, moving)
			if err != nil {
				return fmt.Errorf("%s, row %d: %w", r.In, i+1, err)
			}
			if len(lines) == 0 {
				continue
			}
			result.Given++
			for _, line := range lines {
				if !seen[string(line)] {
					seen[string(line)] = true
					result.Written++
					b.Write(append(line, '\n')) // Flush returns its error
				}
			}
		}
		if result.Written == 0 {
			return exit.Usagef("%s: no row has captions to train on", r.In)
		}
		return b.Flush()
	})
}

// examples returns the conversations of a row.
func (r *Run) examples(t *data.Table, i int, moving data.Moving) (lines [][]byte, err error) {
	rec, err := t.Record(i)
	if err != nil {
		return nil, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return nil, err
	}
	if n := len(row.Sources()); n > 1 {
		return nil, fmt.Errorf("the edit has %d sources, captions need exactly one", n)
	}
	before, errB := r.caption(&rec, "source_caption")
	after, errA := r.caption(&rec, "target_caption")
	if err := errors.Join(errB, errA); err != nil {
		return nil, err
	}
	// Empty pictures stand in for the paths, so that the code of a run builds the questions.
	paths := map[*data.Picture]string{}
	e := &edit.Edit{Instruction: row.Instruction, Texts: map[string]string{sourceCaption: before}}
	for role, m := range map[string]data.Image{"source": row.Source, target: row.Target} {
		if m.IsZero() {
			continue
		}
		p := &data.Picture{}
		if m = moving.Image(m); len(m.Bytes) == 0 {
			paths[p] = m.Path
		}
		e.Set(role, p)
	}
	for _, d := range []struct {
		turn    Turn
		caption string
	}{{r.Writer.Prompts.Source[0], before}, {r.Writer.Prompts.Target[0], after}} {
		if before == "" || d.caption == "" {
			continue
		}
		question, err := d.turn.question(e)
		if err != nil {
			return nil, err
		}
		for i, role := range d.turn.Pictures {
			if paths[question.Content[i].Image] == "" {
				return nil, fmt.Errorf("the %s is inside the table; conversations need files: use a table with paths", role)
			}
		}
		answer := chat.Message{Role: "assistant", Content: []chat.Part{{Text: d.caption}}}
		line, err := table.Line("", []chat.Message{question, answer}, paths)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}
