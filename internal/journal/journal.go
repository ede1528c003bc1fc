// Package journal keeps the results of a long command, so that the same command resumes after an interrupt or a crash.
// [File] is append-only, [Lines] is a file of JSON lines, a [Journal] begins with a line that identifies the work, and
// an [Index] finds the line of a row.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"assay/internal/filelock"
)

// Journal is an open journal of results: JSON lines after one that identifies the work. One process at a time holds
// it.
type Journal[Result any] struct {
	Lines[Result]
	lock *os.File
}

// Close closes the journal and leaves its file.
func (j *Journal[Result]) Close() error { return errors.Join(j.Lines.Close(), j.lock.Close()) }

// Open opens the journal at path, or begins one, and returns its results. head identifies the work (inputs, models,
// options); a journal of other work, or one that is open elsewhere, is an error. A line that a crash cut off is
// dropped, and so is a damaged one with all after it.
func Open[Result any](path string, head any) (j *Journal[Result], done []Result, err error) {
	none := func() error { return nil }
	j, err = openEach(path, head, none, func(r Result, _ int64) { done = append(done, r) })
	if err != nil {
		return nil, nil, err
	}
	return j, done, nil
}

// openEach is Open that passes each result, with the offset of its line, to each. begin is called once the journal is
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
		return nil, fmt.Errorf("%s: another process writes it: wait for it, or choose another output", path)
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

// read passes each result, with the offset of its line, to each, and returns the bytes of whole lines; 0 if not even
// the head is whole.
func read[Result any](path string, head []byte, each func(r Result, at int64)) (size int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a crash cut it off
			return size, nil
		} else if err != nil {
			return 0, err
		}
		text := line[:len(line)-1]
		if size == 0 && !bytes.Equal(text, head) {
			return 0, fmt.Errorf("it belongs to another run (%.300s): remove it, or choose another output", text)
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

// summed appends a checksum: a tab, and eight digits of CRC-32C. JSON has no tab at its end.
func summed(line []byte) []byte {
	return fmt.Appendf(line[:len(line):len(line)], "\t%08x", crc32.Checksum(line, castagnoli))
}

// Row returns the JSON of a line without its checksum; false if the line is damaged. Lines of earlier versions have
// none.
func Row(line []byte) ([]byte, bool) {
	at := len(line) - sumSize
	if at < 0 || line[at] != '\t' {
		return line, true
	}
	return line[:at], bytes.Equal(line, summed(line[:at]))
}
