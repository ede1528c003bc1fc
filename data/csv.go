package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// delimited is a text format of rows whose fields are separated by a delimiter: CSV and TSV as Python's csv module
// reads them with its default dialect. A field that starts with a quote ends with one, a doubled quote inside it is
// one quote, and line ends inside it are data; any other quote is data. Rows end with \n, \r\n or \r, and empty lines
// are skipped.
//
// Python accepts a quoted field that is cut off by the end of the file. Here it is an error: the file is truncated,
// or its quotes mean something else.
type delimited struct{ comma byte }

// The states between two bytes of a row.
const (
	fieldStart = iota
	inField
	inQuotes
	quoteInQuotes // the end of the field, or the first of two
)

// next returns the state after a byte, whether the byte belongs to the field, and whether it ends the field. Line
// ends are only passed in inside quotes.
func (d delimited) next(state int, c byte) (after int, keep, ends bool) {
	switch state {
	case inQuotes:
		if c == '"' {
			return quoteInQuotes, false, false
		}
		return inQuotes, true, false
	case fieldStart, quoteInQuotes:
		if c == '"' {
			return inQuotes, state == quoteInQuotes, false
		}
	}
	if c == d.comma {
		return fieldStart, false, true
	}
	return inField, true, false
}

// rows is a rowFinder.
func (d delimited) rows(r io.Reader, found func(raw []byte, start int64, line int) error) error {
	b := bufio.NewReaderSize(r, 1<<16)
	var row []byte
	var start, at int64
	line, first, state := 1, 1, fieldStart
	give := func() error {
		if len(bytes.TrimPrefix(row, bom)) == 0 {
			return nil
		}
		return found(row, start, first)
	}
	for {
		c, err := b.ReadByte()
		if err == io.EOF {
			if state == inQuotes {
				return fmt.Errorf("line %d: a quoted field begins in this row and never ends", first)
			}
			return give()
		} else if err != nil {
			return err
		}
		at++
		ended := false
		if c == '\n' || c == '\r' {
			if c == '\r' {
				if next, err := b.Peek(1); err == nil && next[0] == '\n' {
					if state != inQuotes {
						b.Discard(1) // peeked
						at++
					} else {
						line-- // the line feed counts
					}
				}
			}
			line++
			ended = state != inQuotes
		}
		if !ended {
			if state == fieldStart && at <= int64(len(bom)) &&
				bytes.HasPrefix(bom, append(row[:len(row):len(row)], c)) {
				row = append(row, c) // a byte order mark precedes the first field
				continue
			}
			state, _, _ = d.next(state, c)
			row = append(row, c)
			continue
		}
		if err := give(); err != nil {
			return err
		}
		row, start, first, state = row[:0], at, line, fieldStart
	}
}

// fields splits a row, without its line end, into fields.
func (d delimited) fields(row []byte) []string {
	var out []string
	var field []byte
	state := fieldStart
	for _, c := range row {
		after, keep, ends := d.next(state, c)
		if keep {
			field = append(field, c)
		}
		if ends {
			out, field = append(out, string(field)), field[:0]
		}
		state = after
	}
	return append(out, string(field))
}

var bom = []byte("\ufeff")

// utf16 names the encoding of a file that starts like UTF-16 or UTF-32, "" for others.
func utf16(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}), bytes.HasPrefix(head, []byte{0, 0, 0xfe, 0xff}):
		return "UTF-32"
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return "UTF-16"
	case len(head) >= 4 && head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0,
		len(head) >= 4 && head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0:
		return "UTF-16 without a byte order mark"
	}
	return ""
}

// checkText refuses invalid UTF-8 and NUL bytes.
func checkText(raw []byte) error {
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return nil
	}
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Errorf(
				"not UTF-8: byte %#02x after %.20q: save the file as UTF-8 (it may be Latin-1 or Windows-1252)",
				raw[i], raw[max(0, i-20):i],
			)
		}
		if r == 0 {
			return errors.New("not text: it contains a NUL byte")
		}
		i += n
	}
	return nil
}
