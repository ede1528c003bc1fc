package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Index is what became of the rows of a table, in a journal on disk: in memory each row takes eight bytes, however
// long its result is. It is safe for concurrent use.
type Index[Result any] struct {
	journal *Journal[Result]
	place   func(Result) int

	mu    sync.Mutex     // of what follows
	at    []int64        // by row: where its line begins; 0: it has none, since the head begins there
	held  map[int]Result // rows that are not in the journal
	count int
}

// OpenIndex opens the journal at path, or begins one, for a table of so many rows; place is the row of a result. keep
// says of each result that is there whether it still holds. Errors are those of [Open].
func OpenIndex[Result any](
	path string, head any, rows int, place func(Result) int, keep func(Result) bool,
) (*Index[Result], error) {
	x := &Index[Result]{place: place, at: make([]int64, rows), held: map[int]Result{}}
	var err error
	x.journal, err = openEach(path, head, func(r Result, at int64) {
		if i := place(r); i >= 0 && i < rows && keep(r) {
			x.set(i, at)
		}
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (x *Index[Result]) set(row int, at int64) {
	if _, ok := x.held[row]; !ok && x.at[row] == 0 {
		x.count++
	}
	delete(x.held, row)
	x.at[row] = at
}

// Has tells whether a row has a result.
func (x *Index[Result]) Has(row int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, held := x.held[row]
	return held || x.at[row] != 0
}

// Len is the number of rows that have a result.
func (x *Index[Result]) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.count
}

// Write adds results, which survive the end of the process.
func (x *Index[Result]) Write(results ...Result) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	starts, err := x.journal.write(results)
	if err != nil {
		return err
	}
	for k, r := range results {
		x.set(x.place(r), starts[k])
	}
	return nil
}

// Hold keeps a result in memory alone: one that the next run is to find anew.
func (x *Index[Result]) Hold(r Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := x.place(r)
	if _, ok := x.held[i]; !ok && x.at[i] == 0 {
		x.count++
	}
	x.held[i] = r
}

// Get reads the result of a row; ok: it has one.
func (x *Index[Result]) Get(row int) (r Result, ok bool, err error) {
	x.mu.Lock()
	held, ok := x.held[row]
	at, size := x.at[row], x.journal.file.Size()
	x.mu.Unlock()
	if ok || at == 0 {
		return held, ok, nil
	}
	f := x.journal.file
	line, err := bufio.NewReaderSize(io.NewSectionReader(f.file, at, size-at), 512).ReadBytes('\n')
	if err == nil {
		text, good := Row(line[:len(line)-1])
		if err = json.Unmarshal(text, &r); err == nil && (!good || x.place(r) != row) {
			err = errors.New("another process changed it")
		}
	}
	if err != nil {
		return r, false, fmt.Errorf("%s: the result of row %d: %w", f.file.Name(), row+1, err)
	}
	return r, true, nil
}

// Path is the journal's file.
func (x *Index[Result]) Path() string { return x.journal.file.file.Name() }

// Sync makes what was written survive a loss of power.
func (x *Index[Result]) Sync() error { return x.journal.file.Sync() }

// Close closes the journal and leaves its file.
func (x *Index[Result]) Close() error { return x.journal.Close() }
