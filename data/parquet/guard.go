package parquet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"assay/internal/remote"
)

// What a page may claim. The library allocates memory for it before looking at the actual data.
const (
	pageSlack  = 16 << 20 // a page decompresses to at most this many bytes ...
	pageRatio  = 1100     // ... plus so many for each compressed byte; deflate, the densest common codec, reaches 1,032
	valueSlack = 4 << 20  // a page has at most this many values that take no bytes (nulls, runs of one value) ...
	valueRatio = 8        // ... plus so many for each byte: booleans are bits
)

// guardedFile is the io.ReaderAt through which the library reads a Parquet file. Before it returns bytes of a page it
// checks that the page decompresses to the size in its header, and holds as many values as the header says. Otherwise
// a damaged page of a few bytes costs 4 GiB and more. It also knows which rows a page has.
type guardedFile struct {
	file     io.ReaderAt
	mutex    sync.Mutex
	byColumn [][]*guardedChunk // by row group and leaf column
	chunks   []*guardedChunk   // non-empty ones, by offset, without overlaps
	unpack   unpacker
}

// guardedChunk is a column chunk: a sequence of pages, each preceded by its header.
type guardedChunk struct {
	column      string
	group, leaf int
	from, to    int64   // bytes of the file
	starts      []int64 // page offsets from the metadata
	rows        int64   // of the row group
	codec       format.CompressionCodec
	levels      [2]int // largest repetition and definition level
	width       int64  // bytes per value of fixed length
	bytes       bool   // values are of variable length
	pages       []guardedPage
	walked      bool
	mistaken    error // the metadata contradict the pages
	counted     int   // number of leading pages whose row counts are known
}

// guardedPage is the position of a page, with its header. A part of a chunk in which no page was found is a page with
// an error.
type guardedPage struct {
	from, to   int64
	end        int64 // rows of the row group that start in it or before; only of counted pages
	dictionary bool
	indexed    bool // its values are indices into the dictionary
	runs       bool // its values are booleans in runs
	empty      bool // it has no values: pyarrow may end a column chunk with such a page
	checked    bool
	err        error
}

// damagedPage is the error for a damaged page, with its position.
type damagedPage struct {
	column string
	at     int64
	err    error
}

func (e *damagedPage) Error() string {
	return fmt.Sprintf("column %q: the page at byte %d is damaged: %v", e.column, e.at, e.err)
}

func (e *damagedPage) Unwrap() error { return e.err }

// newGuard reads the metadata and checks their lengths.
func newGuard(f io.ReaderAt, size int64) (*guardedFile, error) {
	raw, err := readFooter(f, size)
	if err != nil {
		return nil, err
	}
	var meta format.FileMetaData
	protocol := new(thrift.CompactProtocol)
	if err := thrift.NewDecoder(protocol.NewReaderFromBytes(raw)).Decode(&meta); err != nil {
		return nil, err
	}
	g := &guardedFile{file: f}
	chunks := 0
	for _, group := range meta.RowGroups {
		chunks += len(group.Columns)
	}
	if n := len(meta.RowGroups); n > 0 && n*len(meta.RowGroups[0].Columns) > chunks {
		return nil, errors.New("row groups have different columns")
	}
	return g, nil
}

// watch starts checking the pages of the open file.
func (g *guardedFile) watch(file *parquet.File) error {
	for i, group := range file.RowGroups() {
		g.byColumn = append(g.byColumn, nil)
		for j, chunk := range group.ColumnChunks() {
			c, err := newGuardedChunk(file, i, j, chunk)
			if err != nil {
				return fmt.Errorf("row group %d, column %q: %w", i, c.column, err)
			}
			g.byColumn[i] = append(g.byColumn[i], c)
			if c.from < c.to {
				g.chunks = append(g.chunks, c)
			}
		}
	}
	slices.SortFunc(g.chunks, func(a, b *guardedChunk) int { return cmp.Compare(a.from, b.from) })
	for i, c := range g.chunks {
		if i > 0 && g.chunks[i-1].to > c.from {
			return fmt.Errorf("column %q overlaps column %q", c.column, g.chunks[i-1].column)
		}
	}
	return nil
}

func newGuardedChunk(file *parquet.File, group, column int, chunk parquet.ColumnChunk) (*guardedChunk, error) {
	m := &file.Metadata().RowGroups[group].Columns[column].MetaData
	c := &guardedChunk{column: strings.Join(m.PathInSchema, "."), codec: m.Codec, group: group, leaf: column,
		rows: file.RowGroups()[group].NumRows()}
	leaf, ok := chunk.(*parquet.FileColumnChunk).Node().(*parquet.Column)
	if !ok {
		return c, errors.New("it is not in the schema")
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
	case format.ByteArray:
		c.bytes = true
	}
	c.from, c.starts = m.DataPageOffset, []int64{m.DataPageOffset}
	if m.DictionaryPageOffset != 0 {
		c.from, c.starts = m.DictionaryPageOffset, append(c.starts, m.DictionaryPageOffset)
	}
	if m.TotalCompressedSize < 0 || c.from < 0 || c.from > file.Size()-m.TotalCompressedSize {
		return c, errors.New("it is outside the file")
	}
	c.to = c.from + m.TotalCompressedSize
	return c, nil
}

// chunk returns a column chunk with its pages.
func (g *guardedFile) chunk(group, column int) (*guardedChunk, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	c := g.byColumn[group][column]
	return c, c.walk(g.file)
}

// ReadAt reads from the file; reading bytes of a damaged page is an error.
func (g *guardedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := g.file.ReadAt(p, off)
	g.mutex.Lock()
	defer g.mutex.Unlock()
	end := off + int64(n)
	first := sort.Search(len(g.chunks), func(i int) bool { return g.chunks[i].to > off })
	for _, c := range g.chunks[first:] {
		if c.from >= end {
			break
		}
		if err := c.walk(g.file); err != nil {
			return int(max(c.from-off, 0)), err
		}
		first := sort.Search(len(c.pages), func(i int) bool { return c.pages[i].to > off })
		for i := first; i < len(c.pages) && c.pages[i].from < end; i++ {
			page := &c.pages[i]
			if !page.checked {
				if page.err = g.check(c, page); remote.Failed(page.err) {
					return int(max(page.from-off, 0)), page.err
				}
				page.checked = true
			}
			if page.err != nil {
				return int(max(page.from-off, 0)), c.wrong(i, page.err)
			}
		}
	}
	return n, err
}

// walk finds the pages of a chunk by their headers, once. Page offsets in the metadata are only checked against them.
func (c *guardedChunk) walk(f io.ReaderAt) error {
	if c.walked {
		return nil
	}
	lost, at := slices.Clone(c.starts), c.from
	c.pages, c.counted = nil, 0
	for at < c.to {
		header, err := readPageHeader(f, at, c.to)
		if remote.Failed(err) {
			return err
		} else if err != nil {
			c.pages = append(c.pages, guardedPage{from: at, to: c.to, checked: true, err: err})
			break
		}
		lost = slices.DeleteFunc(lost, func(start int64) bool { return start == at })
		c.pages = append(c.pages, guardedPage{from: at, to: header.to, dictionary: header.dictionary(),
			indexed: header.indexed(), runs: header.encoding() == format.RLE, empty: header.empty()})
		if n, known := header.rows(c.levels[0] > 0); known && c.counted == len(c.pages)-1 {
			c.count(n)
		}
		at = header.to
	}
	c.walked = true
	for _, start := range lost { // after a damaged page there may be one; a chunk without values has none
		if start < at || start > c.to {
			c.mistaken = &damagedPage{c.column, c.from,
				fmt.Errorf("the metadata have a page at byte %d, where none starts", start)}
			return nil
		}
	}
	c.compare()
	return nil
}

// count records how many rows start in the next page, and that empty pages after it have none.
func (c *guardedChunk) count(rows int64) {
	c.pages[c.counted].end = c.rowsTo(c.counted) + rows
	if c.counted++; c.counted < len(c.pages) && c.pages[c.counted].empty {
		c.count(0)
	}
}

// compare checks that the pages have as many rows as the row group, once all are counted.
func (c *guardedChunk) compare() {
	if n := c.rowsTo(c.counted); c.counted == len(c.pages) && n != c.rows {
		c.mistaken = fmt.Errorf("column %q: damaged: its pages have %d rows, its row group %d", c.column, n, c.rows)
	}
}

// rowsTo is the number of rows that start before page p; all pages before it must be counted.
func (c *guardedChunk) rowsTo(p int) int64 {
	if p == 0 {
		return 0
	}
	return c.pages[p-1].end
}

// pageOf returns the counted page in which row i starts.
func (c *guardedChunk) pageOf(i int64) (p int, ok bool) {
	p = sort.Search(c.counted, func(p int) bool { return c.pages[p].end > i })
	return p, p < c.counted
}

// wrong wraps the error of reading page p.
func (c *guardedChunk) wrong(p int, err error) error {
	if damaged := (*damagedPage)(nil); errors.As(err, &damaged) || remote.Failed(err) {
		return err
	}
	return &damagedPage{c.column, c.pages[p].from, err}
}

// pageHeader is the header of a page, and the position of its body.
type pageHeader struct {
	from, body, to int64
	header         format.PageHeader
}

func (h *pageHeader) dictionary() bool { return h.header.Type == format.DictionaryPage }

// encoding is that of the values of a data page.
func (h *pageHeader) encoding() format.Encoding {
	if h.header.Type == format.DataPageV2 {
		return h.header.DataPageHeaderV2.V.Encoding
	}
	return h.header.DataPageHeader.V.Encoding
}

func (h *pageHeader) indexed() bool {
	e := h.encoding()
	return e == format.RLEDictionary || e == format.PlainDictionary //lint:ignore SA1019 files that have it are read
}

// empty reports whether the page has no values.
func (h *pageHeader) empty() bool {
	return h.header.DataPageHeader.V.NumValues == 0 && h.header.DataPageHeaderV2.V.NumValues == 0
}

// rows is how many rows start in the page. If rows have several values, only version 2 headers say it.
func (h *pageHeader) rows(repeated bool) (n int64, known bool) {
	switch h.header.Type {
	case format.DataPage:
		return int64(h.header.DataPageHeader.V.NumValues), !repeated || h.empty()
	case format.DataPageV2:
		return int64(h.header.DataPageHeaderV2.V.NumRows), true
	}
	return 0, true
}

// readPageHeader reads the header of the page at an offset of a chunk that ends at to.
func readPageHeader(f io.ReaderAt, at, to int64) (page pageHeader, err error) {
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
			return page, fmt.Errorf("its header claims %d bytes, the column has %d more", page.header.CompressedPageSize,
				to-page.body)
		}
		return page, nil
	}
}
