package data

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// What a page may announce. The library takes the memory for it before it looks at what is there.
const (
	pageSlack  = 16 << 20 // a page unpacks to at most this many bytes ...
	pageRatio  = 1100     // ... and so many for each packed one; deflate, the densest that is common, reaches 1,032
	valueSlack = 4 << 20  // a page has at most this many values that take no bytes (nulls, runs of one value) ...
	valueRatio = 8        // ... and so many for each byte: booleans are bits
)

// parquetGuard is a Parquet file as the library reads it. Before it hands out bytes of a page it checks that the page
// unpacks to what its header says, and holds as many values: else a damaged page of a few bytes costs 4 GiB and more.
type parquetGuard struct {
	file   io.ReaderAt
	mutex  sync.Mutex
	chunks []*guardedChunk // by offset, without overlaps
	unpack unpacker
}

// guardedChunk is a column chunk: pages, each behind its header.
type guardedChunk struct {
	column   string
	from, to int64   // bytes of the file
	starts   []int64 // offsets of pages, as the metadata have them
	codec    format.CompressionCodec
	levels   [2]int // largest repetition and definition level
	width    int64  // bytes of a value of a fixed length
	pages    []guardedPage
	walked   bool
}

// guardedPage is where a page lies, with its header. A part of a chunk in which no page was found is one with an error.
type guardedPage struct {
	from, body, to int64
	header         format.PageHeader
	checked        bool
	err            error
}

// newParquetGuard reads the metadata and checks their lengths, those of indexes too, and where column chunks lie.
func newParquetGuard(f io.ReaderAt, size int64) (*parquetGuard, error) {
	raw, err := readFooter(f, size)
	if err != nil {
		return nil, err
	}
	var meta format.FileMetaData
	protocol := new(thrift.CompactProtocol)
	if err := thrift.NewDecoder(protocol.NewReaderFromBytes(raw)).Decode(&meta); err != nil {
		return nil, err
	}
	g := &parquetGuard{file: f}
	chunks := 0
	for _, group := range meta.RowGroups {
		chunks += len(group.Columns)
	}
	if n := len(meta.RowGroups); n > 0 && n*len(meta.RowGroups[0].Columns) > chunks {
		return nil, errors.New("row groups have different columns")
	}
	return g, checkIndexes(f, size, &meta)
}

// checkIndexes checks the page indexes of all column chunks: where they lie, and the lengths in them.
func checkIndexes(f io.ReaderAt, size int64, meta *format.FileMetaData) error {
	total := int64(0)
	for i, group := range meta.RowGroups {
		for j := range group.Columns {
			c := &group.Columns[j]
			for _, part := range [][2]int64{
				{c.ColumnIndexOffset, int64(c.ColumnIndexLength)}, {c.OffsetIndexOffset, int64(c.OffsetIndexLength)},
			} {
				at, n := part[0], part[1]
				if total += n; at < 0 || n < 0 || at > size-n || total > size {
					return fmt.Errorf("row group %d, column %q: its page index does not lie in the file", i,
						strings.Join(c.MetaData.PathInSchema, "."))
				}
				if n == 0 {
					continue
				}
				raw := make([]byte, n)
				if _, err := f.ReadAt(raw, at); err != nil {
					return err
				}
				if err := checkThrift(raw); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// watch begins to check the pages of the open file.
func (g *parquetGuard) watch(file *parquet.File) error {
	for i, group := range file.RowGroups() {
		for j, chunk := range group.ColumnChunks() {
			c, err := newGuardedChunk(file, i, j, chunk)
			if err != nil {
				return fmt.Errorf("row group %d, column %q: %w", i, c.column, err)
			}
			if c.from < c.to {
				g.chunks = append(g.chunks, c)
			}
		}
	}
	slices.SortFunc(g.chunks, func(a, b *guardedChunk) int { return cmp.Compare(a.from, b.from) })
	for i, c := range g.chunks {
		if i > 0 && g.chunks[i-1].to > c.from {
			return fmt.Errorf("column %q lies in column %q", c.column, g.chunks[i-1].column)
		}
	}
	return nil
}

func newGuardedChunk(file *parquet.File, group, column int, chunk parquet.ColumnChunk) (*guardedChunk, error) {
	m := &file.Metadata().RowGroups[group].Columns[column].MetaData
	c := &guardedChunk{column: strings.Join(m.PathInSchema, "."), codec: m.Codec}
	leaf, ok := chunk.(*parquet.FileColumnChunk).Node().(*parquet.Column)
	if !ok {
		return c, errors.New("it has no place in the schema")
	}
	c.levels = [2]int{leaf.MaxRepetitionLevel(), leaf.MaxDefinitionLevel()}
	switch m.Type {
	case format.Int32, format.Float:
		c.width = 4
	case format.Int64, format.Double:
		c.width = 8
	case format.Int96:
		c.width = 12
	case format.FixedLenByteArray:
		c.width = int64(leaf.Type().Length())
	}
	c.from, c.starts = m.DataPageOffset, []int64{m.DataPageOffset}
	if m.DictionaryPageOffset != 0 {
		c.from, c.starts = m.DictionaryPageOffset, append(c.starts, m.DictionaryPageOffset)
	}
	if m.TotalCompressedSize < 0 || c.from < 0 || c.from > file.Size()-m.TotalCompressedSize {
		return c, errors.New("it does not lie in the file")
	}
	c.to = c.from + m.TotalCompressedSize
	if all := file.OffsetIndexes(); len(all) > 0 {
		for _, p := range all[group*len(file.Metadata().RowGroups[group].Columns)+column].PageLocations {
			c.starts = append(c.starts, p.Offset)
		}
	}
	return c, nil
}

// ReadAt reads from the file; what belongs to a page that is damaged is an error.
func (g *parquetGuard) ReadAt(p []byte, off int64) (int, error) {
	n, err := g.file.ReadAt(p, off)
	g.mutex.Lock()
	defer g.mutex.Unlock()
	end := off + int64(n)
	first, _ := slices.BinarySearchFunc(g.chunks, off, func(c *guardedChunk, off int64) int {
		return cmp.Compare(c.to-1, off)
	})
	for _, c := range g.chunks[min(first, len(g.chunks)):] {
		if c.from >= end {
			break
		}
		if !c.walked {
			c.walk(g.file)
		}
		for i := range c.pages {
			page := &c.pages[i]
			if page.to <= off || page.from >= end {
				continue
			}
			if !page.checked {
				page.checked, page.err = true, g.check(c, page)
			}
			if page.err != nil {
				return int(max(page.from-off, 0)), fmt.Errorf("column %q: its page at byte %d is damaged: %w", c.column, page.from,
					page.err)
			}
		}
	}
	return n, err
}

// walk finds the pages of a chunk by their headers. Other places that the metadata name are none.
func (c *guardedChunk) walk(f io.ReaderAt) {
	c.walked = true
	known := map[int64]bool{c.to: true} // a chunk without values has no pages
	bad := func(at int64, err error) {
		c.pages = append(c.pages, guardedPage{from: at, to: c.to, checked: true, err: err})
	}
	for at := c.from; at < c.to; {
		page, err := readPageHeader(f, at, c.to)
		if err != nil {
			bad(at, err)
			break
		}
		known[at] = true
		c.pages = append(c.pages, page)
		at = page.to
	}
	for _, at := range c.starts {
		if end := c.pages[len(c.pages)-1]; !known[at] && (end.err == nil || at < end.from) {
			bad(c.from, fmt.Errorf("the metadata have a page at byte %d, where none begins", at))
			return
		}
	}
}

// readPageHeader reads the header of the page at an offset of a chunk that ends at to.
func readPageHeader(f io.ReaderAt, at, to int64) (page guardedPage, err error) {
	for size := int64(1 << 10); ; size *= 8 { // statistics in it may be long
		raw := make([]byte, min(size, to-at))
		if _, err := f.ReadAt(raw, at); err != nil {
			return page, err
		}
		rest, err := skipThriftStruct(raw, 0)
		if err != nil {
			if size < to-at {
				continue
			}
			return page, errors.New("it has no header")
		}
		n := len(raw) - len(rest)
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), raw[:n], &page.header); err != nil {
			return page, err
		}
		page.from, page.body = at, at+int64(n)
		page.to = page.body + int64(page.header.CompressedPageSize)
		if page.header.CompressedPageSize < 0 || page.to > to {
			return page, fmt.Errorf("its header announces %d bytes, the column has %d more", page.header.CompressedPageSize,
				to-page.body)
		}
		return page, nil
	}
}
