// Package journal stores the results of a long command on disk as they come, so that the same command resumes after
// an interrupt or a crash. A [File] is append-only, and [Lines] is such a file of JSON lines. A [Journal] starts with
// a line that identifies the work, and each line has a checksum. An [Index] is a journal that finds the result of a
// row of a table.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"assay/internal/exit"
	"assay/internal/filelock"
)

// Journal is an open journal: a line that identifies the work, then one JSON line per result. Only one process at a
// time can have it open.
type Journal[Result any] struct {
	Lines[Result]
	lock *os.File
}

// Close closes the journal. Its file stays.
func (j *Journal[Result]) Close() error { return errors.Join(j.Lines.Close(), j.lock.Close()) }

// Open opens or creates the journal at path, and returns its results. head identifies the work (inputs, models,
// options); a journal of other work is an error of usage, and one that another process has open is an error. A
// truncated last line is dropped, and so is a damaged line with everything after it.
func Open[Result any](path string, head any) (j *Journal[Result], done []Result, err error) {
	none := func() error { return nil }
	j, err = openEach(path, head, none, func(r Result, _ int64) { done = append(done, r) })
	if err != nil {
		return nil, nil, err
	}
	return j, done, nil
}

// openEach is Open, but passes each result and the offset of its line to each. begin is called once the journal is
// locked.
func openEach[Result any](
	path string, head any, begin func() error, each func(r Result, at int64),
) (j *Journal[Result], err error) {
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	if err = begin(); err == nil {
		j, err = open(path, head, each)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	j.lock = lock
	return j, nil
}

// lockFile locks a file against other processes.
func lockFile(path string) (*os.File, error) {
	f, err := filelock.Take(path)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("%s: another process is writing it: wait for it, or choose another output", path)
	}
	return f, err
}

func open[Result any](path string, head any, each func(r Result, at int64)) (*Journal[Result], error) {
	first, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	size, err := read(path, first, each)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := OpenFile(path, size)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		if _, err := f.Write(append(first, '\n')); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &Journal[Result]{Lines: Lines[Result]{f, true}}, nil
}

// read passes each result and the offset of its line to each, and returns the size of all complete lines in bytes; 0
// if even the head is incomplete.
func read[Result any](path string, head []byte, each func(r Result, at int64)) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a crash truncated it
			return size, nil
		} else if err != nil {
			return 0, err
		}
		text := line[:len(line)-1]
		if size == 0 && !bytes.Equal(text, head) {
			return 0, exit.Usagef("it belongs to another run (%.300s): remove it, or choose another output", text)
		}
		if size > 0 {
			row, good := Row(text)
			var r Result
			if !good || json.Unmarshal(row, &r) != nil {
				return size, nil
			}
			each(r, size)
		}
		size += int64(len(line))
	}
}

// sumSize is the size of a line's checksum.
const sumSize = len("\t01234567")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed appends a checksum: a tab and eight hex digits of CRC-32C. JSON never ends like this.
func summed(line []byte) []byte {
	return fmt.Appendf(line[:len(line):len(line)], "\t%08x", crc32.Checksum(line, castagnoli))
}

// Row returns the JSON of a line without its checksum; false if the line is damaged. Lines from earlier versions have
// no checksum.
func Row(line []byte) ([]byte, bool) {
	at := len(line) - sumSize
	if at < 0 || line[at] != '\t' {
		return line, true
	}
	return line[:at], bytes.Equal(line, summed(line[:at]))
}
