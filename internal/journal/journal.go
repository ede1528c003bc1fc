// Package journal keeps what a long command has done so far, so that the same command goes on there after an interrupt or
// a crash. A [File] goes on at a size that is known to be good, [Lines] is such a file of JSON lines, and a [Journal]
// begins with a line that says what the work is.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Journal is an open journal of results: JSON lines behind one that says what the work is.
type Journal[Result any] struct{ Lines[Result] }

// Open opens the journal at path, or begins one, and returns what it holds already. head says which work the results
// belong to (inputs, models, options); a journal of other work is an error. A line that a crash cut off is dropped.
func Open[Result any](path string, head any) (*Journal[Result], []Result, error) {
	first, err := json.Marshal(head)
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	done, size, err := read[Result](text, first)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := OpenFile(path, size)
	if err != nil {
		return nil, nil, err
	}
	if size == 0 {
		if _, err := f.Write(append(first, '\n')); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	}
	return &Journal[Result]{Lines[Result]{f}}, done, nil
}

// read returns the results in a journal, and how many bytes of it are whole lines; 0 if not even the head is.
func read[Result any](text, head []byte) (done []Result, size int64, err error) {
	first, rest, whole := bytes.Cut(text, []byte{'\n'})
	if !whole {
		return nil, 0, nil
	}
	if !bytes.Equal(first, head) {
		return nil, 0, fmt.Errorf("it belongs to another run (%.300s): remove it, or choose another output", first)
	}
	size = int64(len(first) + 1)
	for { // it is ours alone: what cannot be read, and what follows it, is done again
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		var r Result
		if !whole || json.Unmarshal(line, &r) != nil {
			return done, size, nil
		}
		done, rest, size = append(done, r), more, size+int64(len(line)+1)
	}
}
