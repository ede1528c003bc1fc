package data

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/parquet-go/parquet-go"

	"assay/internal/atomicfile"
)

// Kind is the type of a column that is written.
type Kind int

const (
	KindText    Kind = iota // string
	KindNumber              // double
	KindInteger             // int64
	KindBool                // boolean
	KindImage               // {bytes: binary, path: string}, Hugging Face's Image feature
	KindJSON                // anything else, as JSON text
)

// Column is a column that is written. Every one may be null.
type Column struct {
	Name string
	Kind Kind
}

// Writer writes a table row by row; Close completes it, without closing what it is written to.
type Writer interface {
	Write(Record) error
	Close() error
}

// WriteTable writes a label table (JSONL or Parquet by the name of the file), complete or not at all: an error of rows
// ends it. The same rows give the same bytes.
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
			if err := w.Write(row.Record()); err != nil {
				return fmt.Errorf("row %q: %w", row.ID, err)
			}
		}
		return w.Close()
	})
}

// NewWriter writes a table of the given columns. JSONL writes records as they are. Parquet takes the values of the
// columns out of them, null where there are none, and adds metadata by which Hugging Face `datasets` knows the
// pictures.
func NewWriter(out io.Writer, f Format, columns []Column) (Writer, error) {
	switch f {
	case FormatJSONL:
		return newJSONLWriter(out), nil
	case FormatParquet:
		return newParquetWriter(out, nil, columns)
	}
	return nil, fmt.Errorf("tables are written as JSONL or Parquet")
}

// NewWriter writes records of this table, with added columns that were Set on them. From Parquet to Parquet all
// columns keep their types; one with the name of an added column is replaced. From text to Parquet the types are
// found by reading the table once.
func (t *Table) NewWriter(out io.Writer, f Format, added ...Column) (Writer, error) {
	if f != FormatParquet {
		return NewWriter(out, f, nil)
	}
	if p, ok := t.source.(*parquetTable); ok {
		return newParquetWriter(out, p, added)
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

const (
	groupBytes = 32 << 20 // of values in a row group, about
	groupRows  = 1 << 14
)

// parquetWriter writes what it keeps of another file's columns, then its own.
type parquetWriter struct {
	out     *parquet.GenericWriter[any]
	kept    []int // leaf column of the other file -> leaf column here, -1: dropped
	leaves  int   // kept leaf columns
	columns []Column
	bytes   int // since the last row group
	rows    int
}

func newParquetWriter(out io.Writer, like *parquetTable, columns []Column) (*parquetWriter, error) {
	if like != nil {
		columns = append(like.halves(columns), columns...)
	}
	w, codec := &parquetWriter{columns: columns}, &pageCodec{}
	var schema orderedGroup
	if like != nil {
		for i, s := range like.schema {
			drop := slices.ContainsFunc(columns, func(c Column) bool { return c.Name == s.name })
			for range s.last - s.first {
				to := -1
				if !drop {
					to = w.leaves
					w.leaves++
				}
				w.kept = append(w.kept, to)
			}
			if !drop {
				schema.fields = append(schema.fields, copiedField{like.data.Root().Fields()[i], codec})
			}
		}
	}
	for i, c := range columns {
		if slices.ContainsFunc(columns[:i], func(b Column) bool { return b.Name == c.Name }) {
			return nil, fmt.Errorf("two columns %q", c.Name)
		}
		schema.fields = append(schema.fields, parquet.Group{c.Name: c.Kind.node()}.Fields()...)
	}
	options := []parquet.WriterOption{
		parquet.NewSchema("schema", schema),
		parquet.Compression(codec),
		parquet.CreatedBy("assay", "1", ""),
		parquet.DataPageStatistics(false),
	}
	for _, path := range schema.binary() { // bounds of pictures would only make the file larger
		options = append(options, parquet.SkipPageBounds(path...), parquet.SkipPageStatistics(path...))
	}
	if features := features(like, columns); features != "" {
		options = append(options, parquet.KeyValueMetadata("huggingface", features))
	}
	return w, guard(func() error {
		w.out = parquet.NewGenericWriter[any](out, options...)
		return nil
	})
}

// halves are the file's columns of half floats that added ones do not replace. They are written as doubles, since the
// library does not write half floats.
func (t *parquetTable) halves(added []Column) (own []Column) {
	for _, s := range t.schema {
		if s.half && !s.column.Repeated() &&
			!slices.ContainsFunc(added, func(c Column) bool { return c.Name == s.name }) {
			own = append(own, Column{s.name, KindNumber})
		}
	}
	return own
}

func (w *parquetWriter) Write(r Record) error {
	var row parquet.Row
	for _, v := range r.raw {
		if to := w.kept[v.Column()]; to >= 0 {
			row = append(row, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), to))
		}
	}
	leaf := w.leaves
	for _, c := range w.columns {
		v, _ := r.Get(c.Name)
		values, err := c.Kind.values(v)
		if err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
		for _, v := range values {
			row = append(row, v.Level(0, v.DefinitionLevel(), leaf))
			leaf++
		}
	}
	for _, v := range row {
		w.bytes += 16
		if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			w.bytes += len(v.ByteArray())
		}
	}
	w.rows++
	err := guard(func() error {
		_, err := w.out.WriteRows([]parquet.Row{row})
		return err
	})
	if err == nil && (w.bytes >= groupBytes || w.rows >= groupRows) {
		w.bytes, w.rows = 0, 0
		err = w.out.Flush()
	}
	return err
}

func (w *parquetWriter) Close() error { return w.out.Close() }
