// Package parquet reads rows of Parquet files one by one, in any order, and writes Parquet files. It is built on
// github.com/parquet-go/parquet-go, which handles the format: schemas, encodings, levels.
//
// A row is read in three steps. The headers of a column's pages are walked once to find the page with the row
// (guard.go). The page is checked, since the library allocates whatever a damaged page claims (page.go), and decoded
// by the library (rows.go); a page of pictures larger than 1 MiB stays in the file, and the value is read in place
// (large.go, snappy.go). Then the columns' values are assembled into fields (column.go).
package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"assay/internal/remote"
)

// File reads the rows of a Parquet file in any order. It is safe for concurrent use.
type File struct {
	file   remote.File
	data   *parquet.File
	schema []*column
	starts []int64 // first row of every row group, and the number of rows

	mutex sync.Mutex
	rows  *rowReader
}

// Field is one named value of a row: nil, string, bool, int64, float64, []byte, []any, or a group of fields.
type Field struct {
	Name  string
	Value any
}

// Raw is a row in the form stored in the file, for a Writer to copy.
type Raw []parquet.Value

// Open opens a Parquet file. group converts a nested group of fields to a value.
func Open(f remote.File, group func([]Field) any) (*File, error) {
	size, err := remote.Size(f)
	if err != nil {
		return nil, err
	}
	t := &File{file: f, starts: []int64{0}}
	err = guard(func() error {
		g, err := newGuard(f, size)
		if err != nil {
			return err
		}
		t.data, err = parquet.OpenFile(g, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
		if err != nil {
			return err
		}
		t.rows = newRowReader(t.data, g)
		return g.watch(t.data)
	})
	if remote.Failed(err) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	if err := checkNames(t.data); err != nil {
		return nil, err
	}
	halves := halfFloats(t.data.Metadata().Schema)
	for _, c := range t.data.Root().Columns() {
		t.schema = append(t.schema, newColumn(c, halves, group))
	}
	for i, g := range t.data.RowGroups() {
		for _, c := range t.data.Metadata().RowGroups[i].Columns {
			// on damaged data the library's LZ4 doubles its buffer until memory runs out
			if c.MetaData.Codec == format.Lz4Raw {
				return nil, errors.New("its columns are compressed with LZ4, which is not supported: " +
					"write the Parquet file with zstd or snappy")
			}
		}
		if n := g.NumRows(); n < 0 || n > t.data.NumRows() {
			return nil, fmt.Errorf("damaged Parquet file: row group %d has %d rows", i, n)
		}
		t.starts = append(t.starts, t.starts[len(t.starts)-1]+g.NumRows())
	}
	return t, nil
}

// readFooter reads the metadata. It checks their length and the lengths in them, since the library would allocate
// memory for them before reading.
func readFooter(f io.ReaderAt, size int64) ([]byte, error) {
	var tail [8]byte
	if size < 12 {
		return nil, errors.New("the file is truncated")
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-12 {
		return nil, fmt.Errorf("its footer claims %d bytes of metadata, but the file has %d bytes: is it truncated?", n, size)
	}
	metadata := make([]byte, n)
	if _, err := f.ReadAt(metadata, size-8-n); err != nil {
		return nil, err
	}
	return metadata, checkThrift(metadata)
}

// guard turns panics of the Parquet library, which damaged files can cause, into errors.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged: %v", r)
		}
	}()
	return f()
}

// Columns are the column names.
func (t *File) Columns() []string {
	names := []string{}
	for _, s := range t.schema {
		names = append(names, s.name)
	}
	return names
}

// Len is the number of rows.
func (t *File) Len() int { return int(t.starts[len(t.starts)-1]) }

// Read reads row i, from 0.
func (t *File) Read(i int) (fields []Field, raw Raw, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g := sort.Search(len(t.starts)-1, func(g int) bool { return t.starts[g+1] > int64(i) })
	err = guard(func() error {
		row, err := t.rows.row(g, int64(i)-t.starts[g])
		if err == nil {
			fields, raw = t.fields(row), Raw(row)
		}
		return err
	})
	return fields, raw, err
}

func ended(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errors.New("the file is truncated")
	}
	return err
}

// fields assembles the fields of a row from its values.
func (t *File) fields(row parquet.Row) (fields []Field) {
	leaves := make([][]parquet.Value, len(t.data.Schema().Columns()))
	row.Range(func(column int, values []parquet.Value) bool {
		leaves[column] = values
		return true
	})
	for _, s := range t.schema {
		fields = append(fields, Field{s.name, s.value(leaves[s.first:s.last])})
	}
	return fields
}

// Close closes the file.
func (t *File) Close() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.rows.close()
	return t.file.Close()
}
