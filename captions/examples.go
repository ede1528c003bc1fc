package captions

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/exit"
)

// Examples writes the dialogues of the rows that have captions as conversations: what a caption model is trained on, by
// train with mode: text, to be asked the very same later. Each distinct edit is one source's and one target's
// conversation. Dialogues must have one question each: the answers to others are not in the table.
func (r *Run) Examples(ctx context.Context, path string) (*Result, error) {
	if filepath.Ext(path) != ".jsonl" {
		return nil, exit.Usagef("%s: a .jsonl file is wanted", path)
	}
	if len(r.Writer.Prompts.Source) != 1 || len(r.Writer.Prompts.Target) != 1 {
		return nil, exit.Usagef("prompts: conversations are made of dialogues with one question each, these have %d and %d",
			len(r.Writer.Prompts.Source), len(r.Writer.Prompts.Target))
	}
	t, err := r.open()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	folder, err := relative(t.Folder(), filepath.Dir(path))
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
			lines, err := r.examples(t, i, folder)
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
					b.Write(append(line, '\n')) // its error comes with Flush
				}
			}
		}
		if result.Written == 0 {
			return exit.Usagef("%s: no row has captions to learn from", r.In)
		}
		return b.Flush()
	})
}

// relative is the way from one folder to another.
func relative(to, from string) (string, error) {
	a, errA := filepath.Abs(from)
	b, errB := filepath.Abs(to)
	if err := errors.Join(errA, errB); err != nil {
		return "", err
	}
	return filepath.Rel(a, b)
}

// examples are the conversations of a row; folder is that of its pictures, from where they are written.
func (r *Run) examples(t *data.Table, i int, folder string) (lines [][]byte, err error) {
	rec, err := t.Record(i)
	if err != nil {
		return nil, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return nil, err
	}
	before, errB := r.caption(&rec, "source_caption")
	after, errA := r.caption(&rec, "target_caption")
	if err := errors.Join(errB, errA); err != nil {
		return nil, err
	}
	e := Edit{Instruction: row.Instruction, Before: before}
	shown := map[string]data.Image{"source": row.Source, "target": row.Target}
	for _, d := range []struct {
		turn    Turn
		caption string
	}{{r.Writer.Prompts.Source[0], before}, {r.Writer.Prompts.Target[0], after}} {
		if before == "" || d.caption == "" {
			continue
		}
		line, err := d.turn.example(&e, d.caption, shown, folder)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// example is a conversation of one question and its answer, as a line of a table.
func (t *Turn) example(e *Edit, answer string, shown map[string]data.Image, folder string) ([]byte, error) {
	type part map[string]string
	type message struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	var content []part
	for _, role := range t.Pictures {
		m := shown[role]
		switch {
		case m.Path == "" && len(m.Bytes) == 0:
			return nil, fmt.Errorf("there is no %s to show", role)
		case len(m.Bytes) > 0:
			return nil, fmt.Errorf("the %s lies inside the table; conversations name files: use a table that does", role)
		case !filepath.IsAbs(m.Path):
			m.Path = filepath.ToSlash(filepath.Join(folder, m.Path))
		}
		content = append(content, part{"type": "image", "image": m.Path})
	}
	content = append(content, part{"type": "text", "text": t.fill(e)})
	return json.Marshal(map[string]any{"messages": []message{{"user", content}, {"assistant", answer}}})
}
