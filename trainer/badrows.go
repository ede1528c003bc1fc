package trainer

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
	"assay/internal/exit"
	"assay/internal/jsonfile"
	"assay/internal/remote"
	"assay/internal/workers"
	"assay/store"
)

// BadRowsFile lists the rows that a run could not use, one JSON object a line: those that it set aside (data.skip), and
// those that ended it.
const BadRowsFile = "bad-rows.jsonl"

// BadRow is a row of a label table that cannot be used, and why.
type BadRow struct {
	Table  string `json:"table"`           // path
	Row    int    `json:"row"`             // from 1; of a table with two edits a row the number of the edit
	Place  string `json:"place,omitempty"` // of such a table: "table row 3/2" is the second edit of row 3
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason"`
	Step   int64  `json:"step,omitempty"` // at which it was met; 0: before training
}

// String names row and reason. Most reasons of unreadable rows say themselves where the row stands.
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

// BadRowsError says that more rows cannot be used than data.skip allows.
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

// Inspector is a model that can tell beforehand whether it can use an example.
type Inspector interface {
	// Inspector returns a function that reads what a step would read of an example, its pictures to their last byte, and
	// gives the step's error. Templates are left to the step. It is safe for concurrent use, and looks at each file once.
	Inspector() func(e *Example) error
}

// inspector checks pictures, each distinct file once.
type inspector struct {
	pictures *store.Pictures // those that were decoded before are known to be good; nil: none are

	mu    sync.Mutex
	known map[string]func() error
}

// newInspector makes an inspector that remembers in a store what it decoded, so that the next start need not.
func newInspector(s *store.Store) *inspector {
	pictures, err := s.Pictures()
	if err != nil { // where nothing can be kept, everything is decoded
		pictures = nil
	}
	return &inspector{pictures: pictures}
}

// decode decodes a picture, unless one of the same bytes was decoded before.
func (s *inspector) decode(m data.Image, base string) error {
	if s.pictures == nil {
		_, err := m.Open(base, data.Limits{})
		return err
	}
	if content, err := store.Content(base, m); err == nil {
		if _, ok := s.pictures.Pixels(content); ok {
			return nil
		}
	}
	_, _, _, err := s.pictures.Open(base, m)
	return err
}

// picture says what is wrong with a picture.
func (s *inspector) picture(m data.Image, base string) error {
	decode := func() error { return s.decode(m, base) }
	if len(m.Bytes) > 0 {
		return decode()
	}
	path := absolute(base, m.Path)
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

// example checks both pictures.
func (s *inspector) example(e *Example) error {
	if err := s.picture(e.Row.Source, e.Base); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if err := s.picture(e.Row.Edit, e.Base); err != nil {
		return fmt.Errorf("edit: %w", err)
	}
	return nil
}

// inspect looks at all rows that the run will use, on all cores, and marks those that cannot be used. (Examples that a
// program makes are left alone.)
func (r *run) inspect(ctx context.Context, bar func(what string, total int64, unit string) Progress) error {
	model, ok := r.model.(Inspector)
	var rows []*sampleRow
	for _, part := range []Examples{r.data.Train, r.valid} {
		if s, isTable := part.(*Samples); isTable {
			n := s.Len()
			if limit := r.config.Validate.Limit; part == r.valid && limit > 0 {
				n = min(n, limit)
			}
			for i := range n {
				if s.rows[i].bad == "" {
					rows = append(rows, &s.rows[i])
				}
			}
		}
	}
	for i := range r.excluded {
		if r.excluded[i].bad == "" {
			rows = append(rows, &r.excluded[i])
		}
	}
	if !ok || len(rows) == 0 {
		return nil
	}
	inspect, shown := model.Inspector(), bar("checking rows", int64(len(rows)), "rows")
	defer shown.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := workers.Each(len(rows), runtime.GOMAXPROCS(0), func(i int) error {
		if !r.ranks.mine(i) {
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
		if remote.Failed(err) { // no fault of the row, and as long at the next one
			stop(err)
			return err
		} else if err != nil {
			rows[i].bad = err.Error()
		}
		shown.Add(1, "")
		return nil
	})
	return r.ranks.tellBad(rows, err)
}

// setAside finds which rows of a batch that failed are bad themselves, and sets them aside if the budget allows it. It
// returns nil if the step may be tried again without them, and err or a BadRowsError otherwise.
func (r *run) setAside(batch []Example, valid bool, err error) error {
	model, ok := r.model.(Inspector)
	part, isTable := r.data.Train.(*Samples)
	if valid {
		part, isTable = r.valid.(*Samples)
	}
	if !ok || !isTable {
		return err
	}
	found, inspect := false, model.Inspector() // as things are now
	for i := range batch {
		row := &part.rows[batch[i].Index]
		if row.bad != "" {
			continue
		}
		e, why := row.example()
		if why == nil {
			why = inspect(&e)
		}
		if remote.Failed(why) {
			return why
		}
		if why != nil {
			found, row.bad, row.step = true, why.Error(), r.state.Step+1
		}
	}
	if !found {
		return err
	}
	return joinErrors(r.allow(), r.saveBadRows())
}

// badRows lists what cannot be used: of the tables, and of the samples.
func (r *run) badRows() []BadRow {
	var out []BadRow
	for _, b := range r.data.bad {
		out = append(out, b.BadRow)
	}
	for _, row := range r.excluded {
		if !row.gone && row.bad != "" {
			out = append(out, row.badRow())
		}
	}
	for _, part := range []Examples{r.data.Train, r.valid} {
		if s, ok := part.(*Samples); ok {
			for i := range s.rows {
				if row := &s.rows[i]; row.bad != "" && !row.gone {
					out = append(out, row.badRow())
				}
			}
		}
	}
	return out
}

// allow compares the rows that cannot be used with the budget.
func (r *run) allow() error {
	if bad := r.badRows(); len(bad) > r.config.Data.Skip {
		return &BadRowsError{bad, r.config.Data.Skip}
	}
	return nil
}

// saveBadRows writes BadRowsFile, or removes it if there is nothing to list.
func (r *run) saveBadRows() error {
	if !r.ranks.first() {
		return nil
	}
	path, bad := filepath.Join(r.config.Out, BadRowsFile), r.badRows()
	if len(bad) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	return jsonfile.WriteLines(path, bad)
}

// checkRows looks at every row before the first step, and sets aside those that cannot be used if the budget allows it.
func (r *run) checkRows(ctx context.Context, o *Options, fresh bool) error {
	if err := r.inspect(ctx, o.bar); err != nil {
		return err
	}
	if err := r.allow(); err != nil {
		if !fresh { // whoever repairs the tables may then change these rows
			err = joinErrors(err, r.saveBadRows())
		}
		return exit.Usage(err)
	}
	if fresh {
		r.dropBad()
	}
	if r.data.Train.Len() == 0 {
		return exit.Usagef("data.train: no rows are left to train on")
	}
	return nil
}

// recordRows notes in the run directory which rows the run has, and which it does without.
func (r *run) recordRows(o *Options, fresh bool) error {
	if fresh || !r.hasLedger {
		if err := r.writeLedger(); err != nil {
			return err
		}
	}
	if bad := r.badRows(); len(bad) > 0 && o.Warn != nil {
		o.Warn(fmt.Sprintf("%d rows cannot be used and are set aside: %s lists them", len(bad),
			filepath.Join(r.config.Out, BadRowsFile)))
	}
	if r.repaired && r.ranks.first() {
		if err := writeRows(r.config.Out, r.ledger); err != nil {
			return err
		}
	}
	return r.saveBadRows()
}

// dropBad takes rows that cannot be used out of the samples, before there is an order.
func (r *run) dropBad() {
	keep := func(e Examples) Examples {
		s, ok := e.(*Samples)
		if !ok {
			return e
		}
		kept := s.rows[:0] // where they lie: of many rows a copy counts
		for _, row := range s.rows {
			if row.bad == "" {
				kept = append(kept, row)
			} else {
				r.excluded = append(r.excluded, row)
			}
		}
		clear(s.rows[len(kept):])
		return &Samples{rows: kept}
	}
	r.data.Train, r.valid = keep(r.data.Train), keep(r.valid)
}
