// Package journal keeps what a long command has done so far, so that the same command goes on there after an
// interrupt or a crash. [Lines] is a file of JSON lines; a [Journal] begins with a line that says what the work is.
package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Journal is an open journal of results: JSON lines behind one that says what the work is.
type Journal[Result any] struct{ Lines[Result] }

// Open opens the journal at path, or begins one, and returns what it holds already. head says which work the results
// belong to (inputs, models, options); a journal of other work is an error. A line that a crash cut off is dropped.
func Open[Result any](path string, head any) (*Journal[Result], []Result, error) {
	want, err := json.Marshal(head)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, err
	}
	done, err := readJournal[Result](f, want)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Journal[Result]{Lines[Result]{f}}, done, nil
}

func readJournal[Result any](f *os.File, head []byte) ([]Result, error) {
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	first, rest, whole := bytes.Cut(raw, []byte{'\n'})
	if !whole {
		if err := cut(f, 0); err != nil {
			return nil, err
		}
		_, err := f.Write(append(head, '\n'))
		return nil, err
	}
	if !bytes.Equal(first, head) {
		return nil, fmt.Errorf("it belongs to another run (%.300s): remove it, or choose another output", first)
	}
	var done []Result
	size := int64(len(first) + 1)
	for { // it is ours alone: what cannot be read, and what follows it, is done again
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		var r Result
		if !whole || json.Unmarshal(line, &r) != nil {
			return done, cut(f, size)
		}
		done, rest, size = append(done, r), more, size+int64(len(line)+1)
	}
}
