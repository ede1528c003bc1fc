package journal

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Index is a journal of the results of a table's rows. In memory a row takes one bit, however long its result. It is
// safe for concurrent use.
type Index[Result any] struct {
	journal *Journal[Result]
	place   func(Result) int

	mu    sync.Mutex     // guards the fields below
	has   []uint64       // a bit for each row: it is in the journal
	at    *os.File       // the offset of each row's line, in eight bytes; an unlinked file
	held  map[int]Result // rows that are not in the journal
	count int
}

// OpenIndex opens or creates the journal at path for a table with this number of rows; place returns the row of a
// result. keep decides whether an existing result is still valid. Errors are those of [Open].
func OpenIndex[Result any](
	path string, head any, rows int, place func(Result) int, keep func(Result) bool,
) (*Index[Result], error) {
	x := &Index[Result]{place: place, has: make([]uint64, (rows+63)/64), held: map[int]Result{}}
	var lost error
	begin := func() (err error) {
		x.at, err = nameless(path + ".index")
		return err
	}
	var err error
	x.journal, err = openEach(path, head, begin, func(r Result, at int64) {
		if i := place(r); i >= 0 && i < rows && keep(r) && lost == nil {
			lost = x.set(i, at)
		}
	})
	if err = errors.Join(err, lost); err != nil {
		if x.journal != nil {
			err = errors.Join(err, x.journal.Close())
		}
		if x.at != nil {
			err = errors.Join(err, x.at.Close())
		}
		return nil, err
	}
	return x, nil
}

// nameless creates an unlinked file, which disappears when it is closed or the process ends.
func nameless(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// set records the offset of a row's line.
func (x *Index[Result]) set(row int, at int64) error {
	if _, err := x.at.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(at)), 8*int64(row)); err != nil {
		return err
	}
	if !x.there(row) {
		x.count++
	}
	delete(x.held, row)
	x.has[row/64] |= 1 << (row % 64)
	return nil
}

// there reports whether a row has a result. x.mu is held.
func (x *Index[Result]) there(row int) bool {
	_, held := x.held[row]
	return held || x.has[row/64]>>(row%64)&1 > 0
}

// Has reports whether a row has a result.
func (x *Index[Result]) Has(row int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.there(row)
}

// Len is the number of rows that have a result.
func (x *Index[Result]) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.count
}

// Write appends results. They survive the end of the process.
func (x *Index[Result]) Write(results ...Result) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	starts, err := x.journal.write(results)
	if err != nil {
		return err
	}
	for k, r := range results {
		if err := x.set(x.place(r), starts[k]); err != nil {
			return err
		}
	}
	return nil
}

// Hold keeps a result in memory only: the next run computes it again.
func (x *Index[Result]) Hold(r Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := x.place(r)
	if !x.there(i) {
		x.count++
	}
	x.held[i] = r
}

// Get reads the result of a row; ok is false if it has none.
func (x *Index[Result]) Get(row int) (r Result, ok bool, err error) {
	x.mu.Lock()
	held, ok := x.held[row]
	there, size := x.there(row), x.journal.file.Size()
	x.mu.Unlock()
	if ok || !there {
		return held, ok, nil
	}
	f, line, where := x.journal.file, []byte(nil), make([]byte, 8)
	if _, err = x.at.ReadAt(where, 8*int64(row)); err == nil {
		at := int64(binary.LittleEndian.Uint64(where))
		line, err = bufio.NewReaderSize(io.NewSectionReader(f.file, at, size-at), 512).ReadBytes('\n')
	}
	if err == nil {
		text, good := Row(line[:len(line)-1])
		if err = json.Unmarshal(text, &r); err == nil && (!good || x.place(r) != row) {
			err = errors.New("another process changed the file")
		}
	}
	if err != nil {
		return r, false, fmt.Errorf("%s: the result of row %d: %w", f.file.Name(), row+1, err)
	}
	return r, true, nil
}

// Path is the path of the journal.
func (x *Index[Result]) Path() string { return x.journal.file.file.Name() }

// Sync flushes the journal to disk.
func (x *Index[Result]) Sync() error { return x.journal.file.Sync() }

// Close closes the journal. Its file stays.
func (x *Index[Result]) Close() error { return errors.Join(x.at.Close(), x.journal.Close()) }
