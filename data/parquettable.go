package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"assay/internal/remote"
)

const (
	maxWholeGroup = 16 << 20 // row groups of up to this many bytes are decoded whole
	cachedBytes   = 64 << 20 // as many of them are kept, as they are in memory
	valueBytes    = 40       // of a decoded value, beside its text
)

// parquetTable reads rows of a Parquet file. Small row groups are decoded whole, and the last used are kept. In large
// ones a reader stays at the last row: reading in order is fast, and any other row needs a seek. With a page index,
// which our writer adds, a seek decodes one page per column; without it, the row group up to the row.
type parquetTable struct {
	file   remote.File
	data   *parquet.File
	schema []*parquetColumn
	starts []int64 // first row of every row group, and the number of rows

	mutex  sync.Mutex
	groups []parquetGroup // decoded ones, the last used at the end
	last   [2]int         // the row groups that were decoded last
	reader parquet.Rows   // into row group open, before its row next
	open   int
	next   int64
}

type parquetGroup struct {
	index int
	bytes int64
	rows  []parquet.Row
}

func openParquet(f remote.File) (*parquetTable, error) {
	size, err := remote.Size(f)
	if err != nil {
		return nil, err
	}
	t := &parquetTable{file: f, starts: []int64{0}, open: -1}
	err = guard(func() error {
		g, err := newParquetGuard(f, size)
		if err != nil {
			return err
		}
		t.data, err = parquet.OpenFile(g, size, parquet.SkipBloomFilters(true))
		if err != nil {
			return err
		}
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
		row, err := t.row(g, int64(i)-t.starts[g])
		if err == nil {
			rec = t.record(row)
		}
		return err
	})
	return rec, err
}

func (t *parquetTable) row(g int, i int64) (parquet.Row, error) {
	if size := t.data.Metadata().RowGroups[g].TotalByteSize; size <= maxWholeGroup {
		group, err := t.group(g, size)
		if err != nil {
			return nil, err
		}
		return group.rows[i], nil
	}
	if t.open != g {
		t.rewind(g)
	}
	if t.next != i {
		if err := t.reader.SeekToRow(i); err != nil {
			t.rewind(-1)
			return nil, err
		}
	}
	rows := make([]parquet.Row, 1)
	if n, err := t.reader.ReadRows(rows); n != 1 {
		t.rewind(-1)
		return nil, ended(err)
	}
	t.next = i + 1
	return rows[0].Clone(), nil
}

// rewind puts the reader at the start of row group g; -1: closes it.
func (t *parquetTable) rewind(g int) {
	if t.reader != nil {
		t.reader.Close()
		t.reader = nil
	}
	t.open, t.next = g, 0
	if g >= 0 {
		t.reader = t.data.RowGroups()[g].Rows()
	}
}

// group returns row group g decoded.
func (t *parquetTable) group(g int, bytes int64) (parquetGroup, error) {
	for k, have := range t.groups {
		if have.index == g {
			t.groups = append(slices.Delete(t.groups, k, k+1), have)
			return have, nil
		}
	}
	from := t.data.RowGroups()[g]
	group := parquetGroup{g, bytes, nil}
	rows := from.Rows()
	defer rows.Close()
	buffer := make([]parquet.Row, 64)
	for int64(len(group.rows)) < from.NumRows() {
		n, err := rows.ReadRows(buffer)
		for _, row := range buffer[:n] {
			group.rows = append(group.rows, row.Clone())
		}
		if n == 0 {
			return group, ended(err)
		}
	}
	group.bytes += from.NumRows() * int64(len(from.ColumnChunks())) * valueBytes
	t.groups = slices.DeleteFunc(t.groups, func(have parquetGroup) bool { return t.inOrder(have.index, g) })
	t.last = [2]int{t.last[1], g}
	total := group.bytes
	for k := len(t.groups) - 1; k >= 0; k-- {
		if total += t.groups[k].bytes; total > cachedBytes {
			t.groups = slices.Delete(t.groups, 0, k+1)
			break
		}
	}
	t.groups = append(t.groups, group)
	return group, nil
}

// inOrder tells whether row group old was two before g, and g is the third that was wanted one behind the other: then
// somebody reads the table from the beginning to the end, and keeps no more than two.
func (t *parquetTable) inOrder(old, g int) bool {
	return t.last == [2]int{g - 2, g - 1} && old <= g-2
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
	t.rewind(-1)
	return t.file.Close()
}
