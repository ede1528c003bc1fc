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
	blockRows     = 1 << 10  // rows of one that are decoded at a time where it is read in order
	cachedBytes   = 64 << 20 // as much of them is kept, as it is in memory
	valueBytes    = 40       // of a decoded value, beside its text
)

// parquetTable reads rows of a Parquet file. Small row groups are decoded whole, or a block at a time where they are
// read in order, and what was used last is kept. In large ones a reader stays at the last row: reading in order is
// fast, and any other row needs a seek. With a page index, which our writer adds, a seek decodes one page per column;
// without it, the row group up to the row.
type parquetTable struct {
	file   remote.File
	data   *parquet.File
	schema []*parquetColumn
	starts []int64 // first row of every row group, and the number of rows

	mutex  sync.Mutex
	blocks []parquetBlock // decoded ones, the last used at the end
	last   [2][2]int64    // first rows and ends of the two that were decoded last
	reader parquet.Rows   // into row group open, before its row next
	open   int
	next   int64
}

// parquetBlock is a row group, or a part of one.
type parquetBlock struct {
	from, to int64 // rows of the table
	bytes    int64
	rows     []parquet.Row
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
		block, err := t.block(g, i, size)
		if err != nil {
			return nil, err
		}
		return block.rows[t.starts[g]+i-block.from], nil
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

// block returns row i of row group g with rows around it: what is kept, the next block if the table is read in order,
// or the whole row group.
func (t *parquetTable) block(g int, i, bytes int64) (b parquetBlock, err error) {
	at := t.starts[g] + i
	for k, have := range t.blocks {
		if have.from <= at && at < have.to {
			t.blocks = append(slices.Delete(t.blocks, k, k+1), have)
			return have, nil
		}
	}
	rows := t.starts[g+1] - t.starts[g]
	from := i / blockRows * blockRows
	next := t.open == g && t.next == from || from == 0 && t.last[1][1] == t.starts[g]
	if next {
		b, err = t.nextBlock(g, from, min(from+blockRows, rows))
	} else {
		b, err = t.whole(g)
	}
	if err != nil {
		return b, err
	}
	n := b.to - b.from
	b.bytes = bytes*n/rows + n*int64(len(t.data.RowGroups()[g].ColumnChunks()))*valueBytes
	t.keep(b)
	return b, nil
}

// whole decodes row group g.
func (t *parquetTable) whole(g int) (parquetBlock, error) {
	rows := t.data.RowGroups()[g].Rows()
	defer rows.Close()
	return t.decode(rows, t.starts[g], t.starts[g+1])
}

// nextBlock decodes rows of row group g, at which the reader stands, or which begin it.
func (t *parquetTable) nextBlock(g int, from, to int64) (parquetBlock, error) {
	if t.open != g || t.next != from {
		t.rewind(g)
	}
	b, err := t.decode(t.reader, t.starts[g]+from, t.starts[g]+to)
	if t.next = to; err != nil || b.to == t.starts[g+1] {
		t.rewind(-1)
	}
	return b, err
}

// decode reads rows of the table, at the first of which the reader stands.
func (t *parquetTable) decode(rows parquet.Rows, from, to int64) (parquetBlock, error) {
	b := parquetBlock{from: from, to: to}
	buffer := make([]parquet.Row, 64)
	for {
		left := to - from - int64(len(b.rows))
		if left <= 0 {
			return b, nil
		}
		n, err := rows.ReadRows(buffer[:min(left, int64(len(buffer)))])
		for _, row := range buffer[:n] {
			b.rows = append(b.rows, row.Clone())
		}
		if n == 0 {
			return b, ended(err)
		}
	}
}

// keep keeps a block, and forgets what was used longest ago.
func (t *parquetTable) keep(b parquetBlock) {
	if t.last[0][1] == t.last[1][0] && t.last[1][1] == b.from {
		// The third that was wanted one behind the other: somebody reads the table from the beginning to the end, and keeps
		// no more than two.
		t.blocks = slices.DeleteFunc(t.blocks, func(have parquetBlock) bool { return have.to <= t.last[1][0] })
	}
	t.last = [2][2]int64{t.last[1], {b.from, b.to}}
	total := b.bytes
	for k := len(t.blocks) - 1; k >= 0; k-- {
		if total += t.blocks[k].bytes; total > cachedBytes {
			t.blocks = slices.Delete(t.blocks, 0, k+1)
			break
		}
	}
	t.blocks = append(t.blocks, b)
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
