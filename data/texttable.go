package data

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

// textTable is a JSONL, JSON or CSV file and where its rows lie in it.
type textTable struct {
	file   *os.File
	rows   []span
	header []string // of CSV
}

// span is where one row lies.
type span struct {
	start  int64
	length int32
	line   int32 // from 1; 0: not known
}

// A rowFinder calls found for the rows of a text file, one after the other. The first row of a CSV file is its header.
type rowFinder func(r io.Reader, found func(start, end int64, line int)) error

func openText(f *os.File, find rowFinder, named bool) (*textTable, error) {
	t := &textTable{file: f}
	var tooLong error
	_, err := f.Seek(0, io.SeekStart)
	if err == nil {
		err = find(f, func(start, end int64, line int) {
			if end-start > math.MaxInt32 && tooLong == nil {
				tooLong = fmt.Errorf("line %d: longer than 2 GiB", line)
			}
			t.rows = append(t.rows, span{start, int32(end - start), int32(line)})
		})
	}
	if err == nil {
		err = tooLong
	}
	if err != nil || !named {
		return t, err
	}
	if len(t.rows) == 0 {
		return nil, fmt.Errorf("empty, want a line with the columns' names")
	}
	if t.header, err = t.fields(t.rows[0]); err == nil {
		t.header[0] = string(bytes.TrimPrefix([]byte(t.header[0]), []byte("\ufeff")))
		t.rows = t.rows[1:]
	}
	return t, err
}

// lineRows finds the lines that are not blank.
func lineRows(r io.Reader, found func(start, end int64, line int)) error {
	b := bufio.NewReaderSize(r, 1<<16)
	var start, at int64
	blank, line := true, 1
	for {
		part, err := b.ReadSlice('\n')
		if len(bytes.TrimSpace(bytes.TrimPrefix(part, []byte("\ufeff")))) > 0 {
			blank = false
		}
		at += int64(len(part))
		if err == bufio.ErrBufferFull {
			continue
		}
		if !blank {
			found(start, at, line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		start, blank = at, true
		line++
	}
}

// arrayRows finds the elements of a JSON array.
func arrayRows(r io.Reader, found func(start, end int64, line int)) error {
	d := json.NewDecoder(r)
	if _, err := d.Token(); err != nil {
		return err
	}
	for n := 1; d.More(); n++ {
		var row json.RawMessage
		if err := d.Decode(&row); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		found(d.InputOffset()-int64(len(row)), d.InputOffset(), 0)
	}
	_, err := d.Token()
	return err
}

func csvRows(r io.Reader, found func(start, end int64, line int)) error {
	c := csv.NewReader(r)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	for {
		start := c.InputOffset()
		_, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := c.FieldPos(0)
		found(start, c.InputOffset(), line)
	}
}

func (t *textTable) bytes(s span) ([]byte, error) {
	raw := make([]byte, s.length)
	_, err := t.file.ReadAt(raw, s.start)
	return bytes.TrimPrefix(raw, []byte("\ufeff")), err
}

func (t *textTable) fields(s span) ([]string, error) {
	raw, err := t.bytes(s)
	if err != nil {
		return nil, err
	}
	return csv.NewReader(bytes.NewReader(raw)).Read()
}

func (t *textTable) read(i int) (Record, error) {
	var rec Record
	if t.header == nil {
		raw, err := t.bytes(t.rows[i])
		if err == nil {
			err = json.Unmarshal(raw, &rec)
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
