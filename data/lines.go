package data

import (
	"context"
	"errors"
	"fmt"

	"assay/internal/remote"
)

// Lines are the non-blank lines of a JSONL file, verbatim. It is safe for concurrent use.
type Lines struct{ text *textTable }

// OpenLines finds the lines of a file. It does not check their content.
func OpenLines(path string) (*Lines, error) {
	f, err := remote.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	l := &Lines{&textTable{file: f}}
	err = lineRows(f, func(raw []byte, start int64, line int) error {
		l.text.rows = append(l.text.rows, span{start, int32(len(raw)), int32(line)})
		if len(raw) > maxLine {
			return fmt.Errorf("line %d has %d bytes", line, len(raw))
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return l, nil
}

// maxLine bounds the memory of a line: a row with pictures in it may be large.
const maxLine = 256 << 20

// Len is the number of lines.
func (l *Lines) Len() int { return l.text.len() }

// Read returns line i, from 0.
func (l *Lines) Read(i int) ([]byte, error) { return l.text.bytes(l.text.rows[i]) }

// Where is the location of a line, as FILE:NUMBER.
func (l *Lines) Where(i int) string { return l.text.where(i) }

// Close closes the file.
func (l *Lines) Close() error { return l.text.Close() }
