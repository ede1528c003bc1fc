package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Lines is a file of JSON lines that is only ever appended to. A line that a crash cut off is dropped when it is
// opened.
type Lines[Row any] struct{ f *os.File }

// LineError says which line of a file is refused.
type LineError struct {
	Path string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// OpenLines opens the file at path, or begins one, and returns the rows that it holds. check (may be nil) refuses a
// row: then, and where a line is no row, the error is a [LineError], and the file stays as it is.
func OpenLines[Row any](path string, check func(Row) error) (*Lines[Row], []Row, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, err
	}
	raw, err := io.ReadAll(f)
	var rows []Row
	var size int64
	if err == nil {
		rows, size, err = readLines(path, raw, check)
	}
	if err == nil {
		err = cut(f, size)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &Lines[Row]{f}, rows, nil
}

// readLines reads whole lines and returns their length in bytes.
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

// cut ends the file after size bytes; what is written next follows there.
func cut(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	_, err := f.Seek(size, io.SeekStart)
	return err
}

// Write adds rows; they survive the end of the process.
func (l *Lines[Row]) Write(rows ...Row) error {
	var b bytes.Buffer
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	_, err := l.f.Write(b.Bytes())
	return err
}

// Close writes what the system still holds to the disk, and closes the file.
func (l *Lines[Row]) Close() error { return errors.Join(l.f.Sync(), l.f.Close()) }
