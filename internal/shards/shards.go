// Package shards splits the rows of a table among workers that only share a folder.
//
// The rows are split once into consecutive shards of about the same number of bytes; the plan is stored in the
// folder. A worker holds a lease on its shard and renews it. If the worker is lost, another takes over and resumes
// from its partial results. A finished shard is a file of results and a manifest, which is written last.
// [Work.Results] yields the results of all shards, and checks that nothing is missing, duplicated or damaged. Results
// must only depend on the row; then the output is the same, byte for byte, for any order, any number of workers and
// any crashes.
package shards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"assay/internal/exit"
	"assay/internal/remote"
)

// defaultLease is the lifetime of a lease that is not renewed.
const defaultLease = time.Minute

// Outcome is the result of a row. It is stored as JSON.
type Outcome interface {
	Place() int // the row
	// Failure returns why the row failed; "": it did not. A temporary failure, such as a server error, may not happen
	// again: a shard with such rows is not done.
	Failure() (why string, temporary bool)
}

// Work is a table cut into shards.
type Work[T Outcome] struct {
	Lease time.Duration     // 0: a minute
	Told  func(text string) // called with what a worker waits for or takes over; may be nil

	// Changed reports whether a row has changed since its result was made. [Work.Results] refuses such rows. It is called
	// from several goroutines. nil: rows are not checked.
	Changed func(T) (bool, error)
	Name    func(T) string // name of a changed row for errors; nil: its number

	dir   string
	place place
	plan  plan
}

// plan defines the shards. It is created once.
type plan struct {
	Format int             `json:"format"`
	Head   json.RawMessage `json:"head"` // identifies the work
	Rows   int             `json:"rows"`
	Cuts   []int           `json:"cuts"` // shard k has the rows from Cuts[k-1] to before Cuts[k]
}

const planFile = "plan.json"

// Open opens or creates the work in the folder dir. head identifies the work (inputs, models, options); other work,
// and another number of shards, are refused. weigh returns the bytes of a row, and whether a shard may start with it.
func Open[T Outcome](
	dir string, count int, head any, rows int, weigh func(row int) (bytes int64, begins bool),
) (*Work[T], error) {
	what, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	w := &Work[T]{dir: dir, place: placeOf(dir)}
	if o, ok := w.place.(objects); ok {
		if err := o.check(); err != nil {
			return nil, err
		}
	}
	if w.plan, err = readPlan(w.place, dir); errors.Is(err, fs.ErrNotExist) {
		p := plan{Format: 1, Head: what, Rows: rows, Cuts: cut(rows, count, weigh)}
		if err = writeOnce(w.place, planFile, p); err == nil {
			w.plan, err = readPlan(w.place, dir) // the plan of the first worker
		}
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !bytes.Equal(w.plan.Head, what) || w.plan.Rows != rows:
		return nil, exit.Usagef("%s belongs to other work (%.300s, of %d rows): remove it, or choose another output", dir,
			w.plan.Head, w.plan.Rows)
	case w.Count() != count:
		return nil, exit.Usagef("%s is split into %d shards, not %d: use /%d, or remove it", dir, w.Count(), count,
			w.Count())
	}
	return w, nil
}

// Reopen opens existing work with any number of shards.
func Reopen[T Outcome](dir string, head any, rows int) (*Work[T], error) {
	p, err := readPlan(placeOf(dir), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there are no shards to merge", dir)
	} else if err != nil {
		return nil, err
	}
	return Open[T](dir, len(p.Cuts)-1, head, rows, nil)
}

// Count returns the number of shards.
func (w *Work[T]) Count() int { return len(w.plan.Cuts) - 1 }

func readPlan(at place, dir string) (p plan, err error) {
	path := remote.Join(dir, planFile)
	raw, err := at.read(planFile)
	if err != nil {
		return p, err
	}
	err = json.Unmarshal(raw, &p)
	if err == nil && (p.Format != 1 || len(p.Cuts) < 2 || p.Cuts[0] != 0 || p.Cuts[len(p.Cuts)-1] != p.Rows) {
		err = errors.New("not a plan of shards")
	}
	for i := 1; i < len(p.Cuts) && err == nil; i++ {
		if p.Cuts[i] < p.Cuts[i-1] {
			err = errors.New("its cuts are not in order")
		}
	}
	var head bytes.Buffer
	if err == nil {
		err = json.Compact(&head, p.Head)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	p.Head = head.Bytes()
	return p, nil
}

// cut returns the cuts: each at the first permitted row after an equal part of all bytes.
func cut(rows, count int, weigh func(row int) (bytes int64, begins bool)) []int {
	before, begins := make([]int64, rows+1), make([]bool, rows+1) // bytes in front of a row
	for i := range rows {
		bytes, may := weigh(i)
		before[i+1], begins[i] = before[i]+max(bytes, 0)+1, may
	}
	cuts, total, at := []int{0}, before[rows], 0
	for k := 1; k < count; k++ {
		want := float64(total) * float64(k) / float64(count)
		for at < rows && (float64(before[at]) < want || !begins[at]) {
			at++
		}
		cuts = append(cuts, at)
	}
	return append(cuts, rows)
}

// writeOnce writes a JSON file unless it exists.
func writeOnce(at place, name string, v any) error {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return at.once(name, append(raw, '\n'))
}

// Folder returns the folder with the shards of an output.
func Folder(out string) string { return out + ".shards" }
