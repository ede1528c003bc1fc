package data

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"

	"assay/data/parquet"
	"assay/internal/atomicfile"
)

// Kind is the type of a column that is written. Every column may be null.
type Kind = parquet.Kind

// The kinds of columns.
const (
	KindText    = parquet.Text     // string
	KindNumber  = parquet.Number   // double
	KindInteger = parquet.Integer  // int64
	KindBool    = parquet.Bool     // boolean
	KindImage   = parquet.Picture  // {bytes: binary, path: string}, Hugging Face's Image feature
	KindJSON    = parquet.JSON     // anything else, as JSON text
	KindImages  = parquet.Pictures // a list of pictures
)

// Column is a column that is written.
type Column struct {
	Name string
	Kind Kind
}

// Writer writes a table row by row; Close completes it without closing the underlying writer.
type Writer interface {
	Write(Record) error
	Close() error
}

// WriteTable writes a label table (JSONL or Parquet, by extension) atomically: an error from rows aborts it. The same
// rows produce the same bytes.
func WriteTable(path string, rows iter.Seq2[Row, error]) error {
	f, err := FormatOf(path)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, func(out io.Writer) error {
		w, err := NewWriter(out, f, LabelColumns)
		if err != nil {
			return err
		}
		for row, err := range rows {
			if err != nil {
				return err
			}
			if len(row.References) > 0 && f == FormatParquet {
				return fmt.Errorf("row %q has %d sources, but Parquet label tables hold one: write .jsonl", row.ID,
					1+len(row.References))
			}
			if err := w.Write(row.Record()); err != nil {
				return fmt.Errorf("row %q: %w", row.ID, err)
			}
		}
		return w.Close()
	})
}

// NewWriter writes a table of the given columns. JSONL writes records as they are. Parquet writes the values of the
// given columns, null if missing, and adds the metadata by which Hugging Face `datasets` recognises pictures.
func NewWriter(out io.Writer, f Format, columns []Column) (Writer, error) {
	switch f {
	case FormatJSONL:
		return newJSONLWriter(out), nil
	case FormatParquet:
		return newParquetWriter(out, nil, columns)
	}
	return nil, fmt.Errorf("tables can only be written as JSONL or Parquet")
}

// NewWriter writes records of this table, with added columns that were Set on them. From Parquet to Parquet all
// columns keep their types; a column with the name of an added one is replaced. From text to Parquet the types are
// inferred by reading the table once.
func (t *Table) NewWriter(out io.Writer, f Format, added ...Column) (Writer, error) {
	if f != FormatParquet {
		return NewWriter(out, f, nil)
	}
	if p, ok := t.source.(*parquetTable); ok {
		return newParquetWriter(out, p.File, added)
	}
	columns, err := t.inferColumns()
	if err != nil {
		return nil, err
	}
	columns = slices.DeleteFunc(columns, func(c Column) bool {
		return slices.ContainsFunc(added, func(a Column) bool { return a.Name == c.Name })
	})
	return newParquetWriter(out, nil, append(columns, added...))
}

// jsonlWriter writes JSONL.
type jsonlWriter struct {
	out *bufio.Writer
	to  *json.Encoder
}

func newJSONLWriter(out io.Writer) *jsonlWriter {
	b := bufio.NewWriter(out)
	l := &jsonlWriter{b, json.NewEncoder(b)}
	l.to.SetEscapeHTML(false)
	return l
}

func (l *jsonlWriter) Write(r Record) error { return l.to.Encode(r) }

func (l *jsonlWriter) Close() error { return l.out.Flush() }

// parquetWriter writes records to a Parquet file.
type parquetWriter struct{ to *parquet.Writer }

func newParquetWriter(out io.Writer, like *parquet.File, columns []Column) (Writer, error) {
	written := make([]parquet.Column, len(columns))
	for i, c := range columns {
		written[i] = parquet.Column(c)
	}
	w, err := parquet.NewWriter(out, like, written)
	return parquetWriter{w}, err
}

func (w parquetWriter) Write(r Record) error {
	columns := w.to.Columns()
	values := make([]any, len(columns))
	for i, c := range columns {
		v, _ := r.Get(c.Name)
		var err error
		if values[i], err = cell(c.Kind, v); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	return w.to.Write(r.raw, values)
}

func (w parquetWriter) Close() error { return w.to.Close() }
