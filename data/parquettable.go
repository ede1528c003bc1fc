package data

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

// parquetTable reads rows of a Parquet file in any order.
type parquetTable struct {
	file   remote.File
	data   *parquet.File
	schema []*parquetColumn
	starts []int64 // first row of every row group, and the number of rows

	mutex sync.Mutex
	rows  *parquetRows
}

func openParquet(f remote.File) (*parquetTable, error) {
	size, err := remote.Size(f)
	if err != nil {
		return nil, err
	}
	t := &parquetTable{file: f, starts: []int64{0}}
	err = guard(func() error {
		g, err := newParquetGuard(f, size)
		if err != nil {
			return err
		}
		t.data, err = parquet.OpenFile(g, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
		if err != nil {
			return err
		}
		t.rows = newParquetRows(t.data, g)
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
		t.schema = append(t.schema, newParquetColumn(c, halves))
	}
	for i, g := range t.data.RowGroups() {
		for _, c := range t.data.Metadata().RowGroups[i].Columns {
			// on damaged data the library's LZ4 doubles its buffer until memory runs out
			if c.MetaData.Codec == format.Lz4Raw {
				return nil, errors.New("its columns are compressed with LZ4, which is not read: " +
					"write the Parquet file with zstd or snappy")
			}
		}
		if n := g.NumRows(); n < 0 || n > t.data.NumRows() {
			return nil, fmt.Errorf("damaged Parquet file: row group %d of %d rows", i, n)
		}
		t.starts = append(t.starts, t.starts[len(t.starts)-1]+g.NumRows())
	}
	return t, nil
}

// readFooter reads the metadata. It checks their length and those in them, since the library would allocate them before
// it reads any.
func readFooter(f io.ReaderAt, size int64) ([]byte, error) {
	var tail [8]byte
	if size < 12 {
		return nil, errors.New("the file ends too early")
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-12 {
		return nil, fmt.Errorf("its end announces %d bytes of metadata, the file has %d: is it cut short?", n, size)
	}
	metadata := make([]byte, n)
	if _, err := f.ReadAt(metadata, size-8-n); err != nil {
		return nil, err
	}
	return metadata, checkThrift(metadata)
}

// guard turns panics of the Parquet library, which damaged files may cause, into errors.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged: %v", r)
		}
	}()
	return f()
}

func (t *parquetTable) columns() []string {
	names := []string{}
	for _, s := range t.schema {
		names = append(names, s.name)
	}
	return names
}

func (t *parquetTable) len() int { return int(t.starts[len(t.starts)-1]) }

func (t *parquetTable) where(i int) string { return fmt.Sprintf("%s: row %d", t.file.Name(), i+1) }

func (t *parquetTable) read(i int) (rec Record, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g := sort.Search(len(t.starts)-1, func(g int) bool { return t.starts[g+1] > int64(i) })
	err = guard(func() error {
		row, err := t.rows.row(g, int64(i)-t.starts[g])
		if err == nil {
			rec = t.record(row)
		}
		return err
	})
	return rec, err
}

func ended(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errors.New("the file ends too early")
	}
	return err
}

// record puts a row's values together.
func (t *parquetTable) record(row parquet.Row) Record {
	leaves := make([][]parquet.Value, len(t.data.Schema().Columns()))
	row.Range(func(column int, values []parquet.Value) bool {
		leaves[column] = values
		return true
	})
	rec := Record{raw: row}
	for _, s := range t.schema {
		rec.Fields = append(rec.Fields, Field{s.name, s.value(leaves[s.first:s.last])})
	}
	return rec
}

func (t *parquetTable) Close() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.rows.close()
	return t.file.Close()
}
