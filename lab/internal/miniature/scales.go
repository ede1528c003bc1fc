package miniature

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"

	"assay/data"
	"assay/internal/workers"
)

// Scales measures pictures that were made for any task of a data set.
type Scales struct {
	tasks map[taskKey]*Task
}

// taskKey identifies a task by the input of an editor.
type taskKey struct {
	source      [sha256.Size]byte // of the pixels
	instruction string
}

// Scales redraws the tasks of a data set.
func (w *World) Scales(set Set) (*Scales, error) {
	drawn := make([]*Task, set.Instructions)
	err := workers.Each(len(drawn), runtime.GOMAXPROCS(0), func(i int) (err error) {
		drawn[i], err = w.Task(generator(set.Seed, EditsTable, i), Families[i%len(Families)])
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &Scales{map[taskKey]*Task{}}
	for _, t := range drawn {
		s.tasks[taskKey{sha256.Sum256(t.Source.Pix), t.Instruction}] = t
	}
	return s, nil
}

// batch is the number of rows in memory at a time. A scale takes far longer to draw than to use, so rows of one task
// in a batch share it.
const batch = 2048

// Table measures the edits of a table, and writes a line of JSON with id, family and truth for each. The id of a row
// without one is its number, from 1.
func (s *Scales) Table(ctx context.Context, path string, out io.Writer) error {
	t, err := data.OpenTable(path, data.WithRequired("source", "edit", "instruction"))
	if err != nil {
		return err
	}
	defer t.Close()
	lines, err := data.NewWriter(out, data.FormatJSONL, nil)
	if err != nil {
		return err
	}
	for first := 0; first < t.Len(); first += batch {
		if err := s.batch(ctx, t, first, min(t.Len(), first+batch), lines); err != nil {
			return err
		}
	}
	return lines.Close()
}

// shown is a row with its picture.
type shown struct {
	at   int // row
	edit *data.Picture
}

// batch measures rows, task by task, and writes them in their order.
func (s *Scales) batch(ctx context.Context, t *data.Table, first, end int, lines data.Writer) error {
	records := make([]data.Record, end-first)
	rows := map[*Task][]shown{}
	var tasks []*Task
	for i := first; i < end; i++ {
		row, err := t.Read(i)
		if err != nil {
			return t.At(i, err)
		}
		task, edit, err := s.open(row, t.Folder())
		if err != nil {
			return t.At(i, err)
		}
		if rows[task] == nil {
			tasks = append(tasks, task)
		}
		rows[task] = append(rows[task], shown{i, edit})
		id := row.ID
		if id == "" {
			id = strconv.Itoa(i + 1)
		}
		records[i-first].Set("id", id)
		records[i-first].Set("family", string(task.Family))
	}
	err := workers.Each(len(tasks), runtime.GOMAXPROCS(0), func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		scale := NewScale(tasks[i])
		for _, r := range rows[tasks[i]] {
			truth, err := scale.Measure(r.edit)
			if err != nil {
				return t.At(r.at, err)
			}
			records[r.at-first].Set("truth", truth)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := lines.Write(r); err != nil {
			return err
		}
	}
	return nil
}

// open reads the pictures of a row and finds its task.
func (s *Scales) open(row data.Row, folder string) (*Task, *data.Picture, error) {
	source, err := row.Source.Open(folder, data.Limits{})
	if err != nil {
		return nil, nil, err
	}
	task := s.tasks[taskKey{sha256.Sum256(source.Pix), row.Instruction}]
	if task == nil {
		return nil, nil, errors.New(
			"no task of the data set has this source and instruction: were other photographs or flags used to write it?")
	}
	edit, err := row.Edit.Open(folder, data.Limits{})
	if err != nil {
		return nil, nil, fmt.Errorf("edit: %w", err)
	}
	return task, edit, nil
}
