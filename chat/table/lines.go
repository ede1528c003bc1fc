package table

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"assay/internal/journal"
)

// lines are the lines of a file that are not blank, read when they are wanted.
type lines struct {
	file *os.File
	at   []stretch
}

// stretch is where a line lies.
type stretch struct {
	offset int64
	length int
	number int // from 1, blank ones counted
}

// longestLine bounds the memory of a line: a row with pictures in it may be large.
const longestLine = 256 << 20

func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &lines{file: f}
	if err := l.index(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return l, nil
}

func (l *lines) index() error {
	b := bufio.NewReaderSize(l.file, 1<<16)
	offset := int64(0)
	for number := 1; ; number++ {
		length, blank := 0, true
		for {
			part, err := b.ReadSlice('\n')
			length += len(part)
			blank = blank && len(bytes.TrimSpace(part)) == 0
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if length > longestLine {
				return fmt.Errorf("line %d has %d bytes", number, length)
			}
			if !blank {
				l.at = append(l.at, stretch{offset, length, number})
			}
			offset += int64(length)
			if err != nil {
				return nil
			}
			break
		}
	}
}

// read returns a line.
func (l *lines) read(i int) ([]byte, error) {
	raw := make([]byte, l.at[i].length)
	if _, err := l.file.ReadAt(raw, l.at[i].offset); err != nil {
		return nil, fmt.Errorf("line %d: %w", l.at[i].number, err)
	}
	return raw, nil
}

// row returns the JSON in a line of a journal.
func (l *lines) row(i int) ([]byte, error) {
	raw, err := l.read(i)
	if err != nil {
		return nil, err
	}
	row, good := journal.Row(bytes.TrimSuffix(raw, []byte{'\n'}))
	if !good {
		return nil, fmt.Errorf("line %d of %s is damaged", l.at[i].number, l.file.Name())
	}
	return row, nil
}

func (l *lines) close() error { return l.file.Close() }
