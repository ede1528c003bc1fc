package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"assay/data"
	"assay/internal/jsonfile"
	"assay/internal/remote"
	"assay/internal/store"
	"assay/internal/workers"
)

// BadRowsFile lists the rows that a run could not use, one JSON object per line: rows that it set aside (data.skip),
// and rows that ended it.
const BadRowsFile = "bad-rows.jsonl"

// BadRow is a row of a label table that cannot be used, and why.
type BadRow struct {
	Table  string `json:"table"`           // path
	Row    int    `json:"row"`             // from 1; in a table with two edits per row, the number of the edit
	Place  string `json:"place,omitempty"` // in such a table: "table row 3/2" is the second edit of row 3
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason"`
	Step   int64  `json:"step,omitempty"` // at which it was found; 0: before training
}

// String returns row and reason. Most reasons of unreadable rows already include the position of the row.
func (b BadRow) String() string {
	if strings.HasPrefix(b.Reason, b.Table) {
		return b.Reason
	}
	id := ""
	if b.ID != "" {
		id = fmt.Sprintf(" (id %s)", b.ID)
	}
	if b.Place != "" {
		return fmt.Sprintf("%s: %s%s", b.Place, b.Reason, id)
	}
	return fmt.Sprintf("%s, row %d: %s%s", b.Table, b.Row, b.Reason, id)
}

// BadRowsError reports that more rows are unusable than data.skip allows.
type BadRowsError struct {
	Rows []BadRow
	Skip int // how many are allowed
}

func (e *BadRowsError) Error() string {
	return fmt.Sprintf("the label tables: %d rows cannot be used, data.skip allows %d:\n  %s\nrepair or remove them, "+
		"or let the run set them aside: data: {skip: %d}",
		len(e.Rows), e.Skip, strings.Join(e.Problems(), "\n  "), len(e.Rows))
}

// Problems lists the rows.
func (e *BadRowsError) Problems() []string {
	out := make([]string, len(e.Rows))
	for i, r := range e.Rows {
		out[i] = r.String()
	}
	return out
}

// Inspector is a model that can check in advance whether it can use an example.
type Inspector interface {
	// Inspector returns a function that reads everything that a step would read of an example, including every byte
	// of its pictures, and returns the error that the step would return. It does not check templates. It is safe for
	// concurrent use, and reads each file once.
	Inspector() func(e *Example) error
}

// PictureInspector checks pictures, each distinct file once.
type PictureInspector struct {
	pictures *store.Pictures // pictures decoded before, which are known to be good; nil: none

	mu    sync.Mutex
	known map[string]func() error
}

// NewPictureInspector creates an inspector that records in a store what it decoded, so that the next start can skip
// it.
func NewPictureInspector(s *store.Store) *PictureInspector {
	pictures, err := s.Pictures()
	if err != nil { // without a store, everything is decoded
		pictures = nil
	}
	return &PictureInspector{pictures: pictures}
}

// decode decodes a picture, unless one with the same bytes was decoded before.
func (s *PictureInspector) decode(f data.File) error {
	if s.pictures == nil {
		_, err := f.Decode()
		return err
	}
	if content, err := store.Content(f.Folder, f.Image); err == nil {
		if _, ok := s.pictures.Pixels(content); ok {
			return nil
		}
	}
	_, _, _, err := s.pictures.Open(f.Folder, f.Image)
	return err
}

// Picture returns the error of a picture that cannot be decoded.
func (s *PictureInspector) Picture(f data.File) error {
	decode := func() error { return s.decode(f) }
	if len(f.Bytes) > 0 {
		return decode()
	}
	path := f.File(f.Folder)
	s.mu.Lock()
	if s.known == nil {
		s.known = map[string]func() error{}
	}
	once := s.known[path]
	if once == nil {
		once = sync.OnceValue(decode)
		s.known[path] = once
	}
	s.mu.Unlock()
	return once()
}

// Example checks all pictures.
func (s *PictureInspector) Example(e *Example) error {
	for _, role := range e.roles() {
		if p, ok := e.Edit.Picture(role).(RowPicture); ok {
			if err := s.Picture(p.File); err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
		}
	}
	return nil
}

// Progress displays the progress of some work.
type Progress interface {
	Add(samples int64, note string)
	Close()
}

// rowsToCheck returns all rows that the run will use and that are not known to be bad; limit bounds the validation
// rows (0: all).
func (d *Data) rowsToCheck(limit int) (rows []*Row) {
	for _, part := range []*Samples{d.Train, d.Validation} {
		n := len(part.Rows)
		if part == d.Validation && limit > 0 {
			n = min(n, limit)
		}
		for i := range n {
			if part.Rows[i].Bad == "" {
				rows = append(rows, &part.Rows[i])
			}
		}
	}
	for i := range d.excluded {
		if d.excluded[i].Bad == "" {
			rows = append(rows, &d.excluded[i])
		}
	}
	return rows
}

// CheckRows checks every row that the run will use, on all cores, and marks the unusable ones. limit bounds the
// validation rows (0: all). Each process checks the rows for which mine is true, and merge combines the results of
// all processes. (Examples generated by a program are not checked.)
func (d *Data) CheckRows(
	ctx context.Context, model Inspector, limit int, bar func(n int64) Progress, mine func(i int) bool,
	merge func(bad map[int]string, err error) (map[int]string, error),
) error {
	rows := d.rowsToCheck(limit)
	if len(rows) == 0 {
		return nil
	}
	inspect, shown := model.Inspector(), bar(int64(len(rows)))
	defer shown.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	bad := map[int]string{}
	err := workers.Each(len(rows), runtime.GOMAXPROCS(0), func(i int) error {
		if !mine(i) {
			shown.Add(1, "")
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, err := rows[i].example()
		if err == nil {
			err = inspect(&e)
		}
		if remote.Failed(err) { // not the fault of the row, and the next row would wait as long
			stop(err)
			return err
		} else if err != nil {
			mu.Lock()
			bad[i] = err.Error()
			mu.Unlock()
		}
		shown.Add(1, "")
		return nil
	})
	if bad, err = merge(bad, err); err != nil {
		return err
	}
	for i, why := range bad {
		if i < len(rows) { // else the tables of the processes differ, which is reported next
			rows[i].Bad = why
		}
	}
	return nil
}

// Quarantine finds the unusable rows in a batch that failed at a step, and marks them. found is false if there are
// none: then the failure has another cause.
func (d *Data) Quarantine(model Inspector, batch []Example, validation bool, step int64) (found bool, err error) {
	part := d.Train
	if validation {
		part = d.Validation
	}
	if part.Made() {
		return false, nil
	}
	inspect := model.Inspector() // a new one: files may have changed
	for i := range batch {
		row := &part.Rows[batch[i].Index]
		if row.Bad != "" {
			continue
		}
		e, why := row.example()
		if why == nil {
			why = inspect(&e)
		}
		if remote.Failed(why) {
			return false, why
		}
		if why != nil {
			found, row.Bad, row.step = true, why.Error(), step
		}
	}
	return found, nil
}

// BadRows lists the unusable rows: unreadable table rows, and samples.
func (d *Data) BadRows() []BadRow {
	var out []BadRow
	for _, b := range d.bad {
		out = append(out, b.BadRow)
	}
	for _, row := range d.excluded {
		if !row.gone && row.Bad != "" {
			out = append(out, row.badRow())
		}
	}
	for _, part := range []*Samples{d.Train, d.Validation} {
		for i := range part.Rows {
			if row := &part.Rows[i]; row.Bad != "" && !row.gone {
				out = append(out, row.badRow())
			}
		}
	}
	return out
}

// AllowBadRows returns a BadRowsError if more rows are unusable than skip.
func (d *Data) AllowBadRows(skip int) error {
	if bad := d.BadRows(); len(bad) > skip {
		return &BadRowsError{bad, skip}
	}
	return nil
}

// SaveBadRows writes BadRowsFile into a run directory, or removes it if there is nothing to list.
func (d *Data) SaveBadRows(out string) error {
	path, bad := filepath.Join(out, BadRowsFile), d.BadRows()
	if len(bad) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	return jsonfile.WriteLines(path, bad)
}

// SaveRows writes the lists of a run's rows and of its bad rows into its directory. fresh means a new run.
func (d *Data) SaveRows(out string, fresh bool) error {
	if fresh || !d.hasLedger {
		if err := d.writeLedger(out); err != nil {
			return err
		}
	}
	if d.repaired {
		if err := writeRows(out, d.ledger); err != nil {
			return err
		}
	}
	return d.SaveBadRows(out)
}

// DropBadRows removes unusable rows from the samples, before the order is created.
func (d *Data) DropBadRows() {
	keep := func(s *Samples) *Samples {
		if s.Made() {
			return s
		}
		kept := s.Rows[:0] // in place: with many rows, a copy matters
		for _, row := range s.Rows {
			if row.Bad == "" {
				kept = append(kept, row)
			} else {
				d.excluded = append(d.excluded, row)
			}
		}
		clear(s.Rows[len(kept):])
		return &Samples{Rows: kept}
	}
	d.Train, d.Validation = keep(d.Train), keep(d.Validation)
}
