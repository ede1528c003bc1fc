package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Lines is an append-only file of JSON lines. A truncated last line is dropped on opening.
type Lines[Row any] struct {
	file   *File
	summed bool // each line ends with a checksum, as in a [Journal]
}

// LineError is an error in one line of a file.
type LineError struct {
	Path string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// OpenLines opens or creates the file at path, and returns its rows. A line that is not a valid row, or that check
// (may be nil) rejects, is a [LineError], and the file is not changed.
func OpenLines[Row any](path string, check func(Row) error) (*Lines[Row], []Row, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	rows, size, err := readLines(path, raw, check)
	if err != nil {
		return nil, nil, err
	}
	f, err := OpenFile(path, size)
	if err != nil {
		return nil, nil, err
	}
	return &Lines[Row]{file: f}, rows, nil
}

// readLines reads complete lines and returns their size in bytes.
func readLines[Row any](path string, raw []byte, check func(Row) error) (rows []Row, size int64, err error) {
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(raw, []byte{'\n'})
		if !whole {
			return rows, size, nil
		}
		var r Row
		err := json.Unmarshal(line, &r)
		if err == nil && check != nil {
			err = check(r)
		}
		if err != nil {
			return nil, 0, &LineError{path, n, err}
		}
		rows, raw, size = append(rows, r), rest, size+int64(len(line)+1)
	}
}

// Write appends rows. They survive the end of the process.
func (l *Lines[Row]) Write(rows ...Row) error {
	_, err := l.write(rows)
	return err
}

// write is Write, and returns the offset of each row's line.
func (l *Lines[Row]) write(rows []Row) (starts []int64, err error) {
	var b bytes.Buffer
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		if l.summed {
			line = summed(line)
		}
		starts = append(starts, l.file.Size()+int64(b.Len()))
		b.Write(append(line, '\n'))
	}
	_, err = l.file.Write(b.Bytes())
	return starts, err
}

// Close flushes the file to disk and closes it.
func (l *Lines[Row]) Close() error { return errors.Join(l.file.Sync(), l.file.Close()) }
