package data

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"assay/internal/remote"
)

// textTable is a JSONL, JSON, CSV or TSV file with the positions of its rows.
type textTable struct {
	file   remote.File
	rows   []span
	format *delimited // nil: JSON
	header []string   // of CSV
}

// span is the position of one row in the file.
type span struct {
	start  int64
	length int32
	line   int32 // from 1; 0: not known
}

// A rowFinder calls found for each row of a text file in order, with its bytes, which it may reuse. The first row of
// a CSV file is its header.
type rowFinder func(r io.Reader, found func(raw []byte, start int64, line int) error) error

// openText finds the rows of a file and checks that they are text. format is nil for JSON.
func openText(f remote.File, find rowFinder, format *delimited) (*textTable, error) {
	t := &textTable{file: f, format: format}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	err := find(f, func(raw []byte, start int64, line int) error {
		at := fmt.Sprintf("line %d", line)
		if line == 0 {
			at = fmt.Sprintf("row %d", len(t.rows)+1)
		}
		if len(raw) > math.MaxInt32 {
			return fmt.Errorf("%s: longer than 2 GiB", at)
		}
		if err := checkText(raw); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		t.rows = append(t.rows, span{start, int32(len(raw)), int32(line)})
		return nil
	})
	if err != nil || format == nil {
		return t, err
	}
	if len(t.rows) == 0 {
		return nil, errors.New("empty, want a header line with the column names")
	}
	if t.header, err = t.fields(t.rows[0]); err == nil {
		t.rows = t.rows[1:]
	}
	return t, err
}

// lineRows finds the lines that are not blank.
func lineRows(r io.Reader, found func(raw []byte, start int64, line int) error) error {
	b := bufio.NewReaderSize(r, 1<<16)
	var row []byte
	var start int64
	for line := 1; ; line++ {
		part, err := b.ReadSlice('\n')
		row = append(row[:0], part...)
		for err == bufio.ErrBufferFull {
			part, err = b.ReadSlice('\n')
			row = append(row, part...)
		}
		if len(bytes.TrimSpace(bytes.TrimPrefix(row, bom))) > 0 {
			if err := found(row, start, line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		start += int64(len(row))
	}
}

// arrayRows finds the elements of a JSON array.
func arrayRows(r io.Reader, found func(raw []byte, start int64, line int) error) error {
	in := bufio.NewReader(r)
	skipped := 0
	if head, err := in.Peek(len(bom)); err == nil && bytes.Equal(head, bom) {
		skipped, _ = in.Discard(len(bom)) // peeked
	}
	d := json.NewDecoder(in)
	if _, err := d.Token(); err != nil {
		return err
	}
	for n := 1; d.More(); n++ {
		var row json.RawMessage
		if err := d.Decode(&row); err != nil {
			return fmt.Errorf("row %d: %w", n, jsonError(err))
		}
		if err := found(row, int64(skipped)+d.InputOffset()-int64(len(row)), 0); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("unexpected data after the array")
	}
	return nil
}

// jsonError explains NaN and Infinity, which Python writes but JSON does not allow.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) &&
		(bytes.Contains([]byte(err.Error()), []byte("'N'")) || bytes.Contains([]byte(err.Error()), []byte("'I'"))) {
		return fmt.Errorf("%w: NaN and Infinity are not valid JSON: write null", err)
	}
	return err
}

func (t *textTable) bytes(s span) ([]byte, error) {
	raw := make([]byte, s.length)
	_, err := t.file.ReadAt(raw, s.start)
	return bytes.TrimPrefix(raw, bom), err
}

func (t *textTable) fields(s span) ([]string, error) {
	raw, err := t.bytes(s)
	if err != nil {
		return nil, err
	}
	return t.format.fields(raw), nil
}

func (t *textTable) read(i int) (Record, error) {
	var rec Record
	if t.format == nil {
		raw, err := t.bytes(t.rows[i])
		if err == nil {
			err = jsonError(json.Unmarshal(raw, &rec))
		}
		return rec, err
	}
	fields, err := t.fields(t.rows[i])
	if err != nil {
		return rec, err
	}
	if len(fields) != len(t.header) {
		return rec, fmt.Errorf("%d fields, but %d columns", len(fields), len(t.header))
	}
	for k, v := range fields {
		rec.Fields = append(rec.Fields, Field{t.header[k], v})
	}
	return rec, nil
}

func (t *textTable) columns() []string { return t.header }

func (t *textTable) len() int { return len(t.rows) }

func (t *textTable) where(i int) string {
	if line := t.rows[i].line; line > 0 {
		return fmt.Sprintf("%s:%d", t.file.Name(), line)
	}
	return fmt.Sprintf("%s: row %d", t.file.Name(), i+1)
}

func (t *textTable) Close() error { return t.file.Close() }
