// Package journal keeps what a long command has done so far in a file beside its output, so that the same command goes on
// there after an interrupt or a crash: one JSON line that says what the work is, then one for every result.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Journal is an open journal of results.
type Journal[Result any] struct{ f *os.File }

// Open opens the journal at path, or begins one, and returns what it holds already. head says which work the results belong
// to (inputs, models, options); a journal of other work is an error. A line that a crash cut off is dropped.
func Open[Result any](path string, head any) (*Journal[Result], []Result, error) {
	want, err := json.Marshal(head)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, err
	}
	j := &Journal[Result]{f}
	done, err := j.read(want)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return j, done, nil
}

func (j *Journal[Result]) read(head []byte) ([]Result, error) {
	raw, err := io.ReadAll(j.f)
	if err != nil {
		return nil, err
	}
	first, rest, whole := bytes.Cut(raw, []byte{'\n'})
	if !whole {
		if err := j.f.Truncate(0); err != nil {
			return nil, err
		}
		_, err := j.f.WriteAt(append(head, '\n'), 0)
		return nil, errors.Join(err, j.end(int64(len(head))+1))
	}
	if !bytes.Equal(first, head) {
		return nil, fmt.Errorf("it belongs to another run (%.300s): remove it, or choose another output", first)
	}
	var done []Result
	size := int64(len(first) + 1)
	for {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		var r Result
		if !whole || json.Unmarshal(line, &r) != nil {
			return done, errors.Join(j.f.Truncate(size), j.end(size))
		}
		done, rest, size = append(done, r), more, size+int64(len(line)+1)
	}
}

func (j *Journal[Result]) end(size int64) error {
	_, err := j.f.Seek(size, io.SeekStart)
	return err
}

// Write adds results; they survive the end of the process.
func (j *Journal[Result]) Write(results ...Result) error {
	var b bytes.Buffer
	for _, r := range results {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	_, err := j.f.Write(b.Bytes())
	return err
}

// Close closes the file and leaves it.
func (j *Journal[Result]) Close() error { return j.f.Close() }
