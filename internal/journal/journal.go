// Package journal keeps what a long command has done so far, so that the same command goes on there after an interrupt
// or a crash. [File] only grows, [Lines] is a file of JSON lines, and a [Journal] begins with a line that says what the
// work is.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"syscall"
)

// Journal is an open journal of results: JSON lines behind one that says what the work is.
// One process at a time has it.
type Journal[Result any] struct {
	Lines[Result]
	lock *os.File
}

// Close closes the journal and leaves its file.
func (j *Journal[Result]) Close() error { return errors.Join(j.Lines.Close(), j.lock.Close()) }

// Open opens the journal at path, or begins one, and returns what it holds already. head says which work the results
// belong to (inputs, models, options); a journal of other work is an error, and so is one that is open elsewhere. A
// line that a crash cut off is dropped, and so is one that is damaged, with all behind it.
func Open[Result any](path string, head any) (j *Journal[Result], done []Result, err error) {
	lock, err := lockFile(path)
	if err != nil {
		return nil, nil, err
	}
	if j, done, err = open[Result](path, head); err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	j.lock = lock
	return j, done, nil
}

// lockFile keeps others out of a file. The kernel gives the lock back however the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close()
		return nil, fmt.Errorf("%s: another process writes it: wait for it, or choose another output", path)
	} // a file system without locks goes without
	return f, nil
}

func open[Result any](path string, head any) (*Journal[Result], []Result, error) {
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
	return &Journal[Result]{Lines: Lines[Result]{f, true}}, done, nil
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
	for {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		row, good := Row(line)
		var r Result
		if !whole || !good || json.Unmarshal(row, &r) != nil {
			return done, size, nil
		}
		done, rest, size = append(done, r), more, size+int64(len(line)+1)
	}
}

// sumSize is the size of the sum that stands behind a line.
const sumSize = len("\t01234567")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed is a line with its sum: a tab, and eight digits of CRC-32C. JSON has no tab at its end.
func summed(line []byte) []byte {
	return fmt.Appendf(line[:len(line):len(line)], "\t%08x", crc32.Checksum(line, castagnoli))
}

// Row is the JSON in a line of a journal, without the sum behind it; false if the line is damaged. Lines of earlier
// versions have no sum.
func Row(line []byte) ([]byte, bool) {
	at := len(line) - sumSize
	if at < 0 || line[at] != '\t' {
		return line, true
	}
	return line[:at], bytes.Equal(line, summed(line[:at]))
}
