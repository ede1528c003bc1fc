package parquet

import (
	queue "container/list"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

const (
	keptPages  = 16 << 20 // bytes of decoded pages that are cached, besides the last page of each column
	windowRows = 256      // rows decoded from a page at a time while rows are read in order
)

// rowReader reads rows of a Parquet file one by one. For each column it decodes the page that holds the row, which it
// finds from the page headers. So any row costs one page per column, however long its row group is, with or without a
// page index. It caches the last page of each column and other recently used pages. It is not safe for concurrent
// use.
type rowReader struct {
	file  *parquet.File
	guard *guardedFile
	last  []*decodedPage // by leaf column
	kept  map[pageID]*queue.Element
	used  *queue.List // of *decodedPage, most recently used first
	bytes int64
	next  [2]int64 // row group and row after the last one read

	dictionary struct { // the last large one
		id     pageID
		values *largeValues
	}
}

// pageID is a page of a column chunk, by its number.
type pageID struct {
	chunk *guardedChunk
	page  int
}

// decodedPage is a data page in memory.
type decodedPage struct {
	id       pageID
	page     parquet.Page // nil: the values stay in the file
	large    *largeRows
	from, to int64 // rows of the row group that start in it
	lead     int   // values before them, of a row that started in an earlier page
	bytes    int64
	inOrder  int64 // leading rows that were read in order

	window  []parquet.Value // values of rows windows[0] to windows[1]
	ends    []int           // end of each row's values in the window
	windows [2]int64
}

func newRowReader(file *parquet.File, g *guardedFile) *rowReader {
	return &rowReader{file: file, guard: g, last: make([]*decodedPage, len(file.Schema().Columns())),
		kept: map[pageID]*queue.Element{}, used: queue.New()}
}

// row reads row i of row group g. The result does not reference any page.
func (r *rowReader) row(g int, i int64) (parquet.Row, error) {
	inOrder := r.next == [2]int64{int64(g), i} || i == 0
	var row parquet.Row
	for column := range r.last {
		c, err := r.guard.chunk(g, column)
		if err != nil {
			return nil, err
		}
		values, err := r.values(c, i, inOrder)
		if err != nil {
			return nil, err
		}
		row = append(row, values...)
	}
	r.next = [2]int64{int64(g), i + 1}
	return row, nil
}

// values are the values of row i in a column chunk.
func (r *rowReader) values(c *guardedChunk, i int64, inOrder bool) ([]parquet.Value, error) {
	p, err := r.find(c, i)
	if err != nil {
		return nil, err
	}
	page, err := r.page(c, p)
	if err != nil {
		return nil, err
	}
	values, err := page.row(i, inOrder)
	if err != nil {
		return nil, c.wrong(p, err)
	}
	for p++; c.levels[0] > 0 && i+1 == page.to && p < len(c.pages); p++ { // the row may continue in the next page
		if c.pages[p].empty { // the library cannot decode it
			continue
		}
		next, err := r.page(c, p)
		if err != nil {
			return nil, err
		}
		more, err := readValues(next.page, next.lead)
		if err != nil {
			return nil, c.wrong(p, err)
		}
		values = append(values, parquet.Row(more).Clone()...)
		if next.to > next.from {
			break
		}
	}
	return values, nil
}

// find finds the page in which row i starts. Pages whose headers do not give the number of rows are decoded up to
// that page, once.
func (r *rowReader) find(c *guardedChunk, i int64) (int, error) {
	for c.mistaken == nil && c.counted < len(c.pages) && c.rowsTo(c.counted) <= i {
		if _, err := r.page(c, c.counted); err != nil {
			return 0, err
		}
	}
	if c.mistaken != nil {
		return 0, c.mistaken
	}
	p, ok := c.pageOf(i)
	if !ok {
		return 0, fmt.Errorf("column %q: the file is truncated", c.column)
	}
	return p, nil
}

// page returns a decoded page.
func (r *rowReader) page(c *guardedChunk, p int) (*decodedPage, error) {
	last := r.last[c.leaf]
	id := pageID{c, p}
	if last != nil && last.id == id {
		return last, nil
	}
	r.last[c.leaf] = nil
	if last != nil && last.inOrder == last.to-last.from { // the rows are being read in order
		r.forget(last)
	}
	if last != nil && last.large != nil {
		last.large.values.rest()
	}
	if at, ok := r.kept[id]; ok {
		r.used.MoveToFront(at)
		r.last[c.leaf] = at.Value.(*decodedPage)
		return r.last[c.leaf], nil
	}
	page, err := r.decode(c, p)
	if err != nil {
		return nil, c.wrong(p, err)
	}
	r.last[c.leaf] = page
	r.bytes += page.bytes
	r.kept[id] = r.used.PushFront(page)
	for at := r.used.Back(); at != nil && r.bytes > keptPages; {
		old := at.Value.(*decodedPage)
		if at = at.Prev(); r.last[old.id.chunk.leaf] != old {
			r.forget(old)
		}
	}
	return page, nil
}

func (r *rowReader) forget(page *decodedPage) {
	r.bytes -= page.bytes
	r.used.Remove(r.kept[page.id])
	delete(r.kept, page.id)
	parquet.Release(page.page)
}

// decode reads a page with the library, which sees only that page of the column chunk and, before it, the dictionary.
func (r *rowReader) decode(c *guardedChunk, p int) (*decodedPage, error) {
	large, err := r.large(c, p)
	if err != nil {
		return nil, err
	} else if large != nil {
		out := &decodedPage{id: pageID{c, p}, large: large, from: c.rowsTo(p), bytes: large.bytes()}
		out.to = out.from + int64(len(large.number))
		return out, nil
	}
	chunk, ok := r.file.RowGroups()[c.group].ColumnChunks()[c.leaf].(*parquet.FileColumnChunk)
	if !ok {
		return nil, errors.New("it is not in the file")
	}
	at := &c.pages[p]
	seen := &partsOfFile{file: r.guard, from: c.from, parts: [][2]int64{{at.from, at.to}}}
	if first := &c.pages[0]; at.indexed && first.dictionary {
		seen.parts = [][2]int64{{first.from, first.to}, {at.from, at.to}}
	}
	pages := chunk.PagesFrom(seen)
	defer pages.Close()
	page, err := pages.ReadPage()
	if err != nil {
		return nil, ended(err)
	}
	if at.runs {
		if err := r.guard.booleans(c, at, page); err != nil {
			parquet.Release(page)
			return nil, err
		}
	}
	out := &decodedPage{id: pageID{c, p}, page: page, bytes: page.Size()}
	if d := page.Dictionary(); d != nil {
		out.bytes += d.Page().Size()
	}
	if out.from = c.rowsTo(p); p < c.counted && out.from+page.NumRows() != c.pages[p].end {
		parquet.Release(page)
		return nil, fmt.Errorf("it has %d rows, but its header says %d", page.NumRows(), c.pages[p].end-out.from)
	}
	if out.to = out.from + page.NumRows(); p == c.counted {
		c.count(page.NumRows())
		c.compare()
	}
	for _, level := range page.RepetitionLevels() {
		if level == 0 {
			break
		}
		out.lead++
	}
	return out, nil
}

// row returns the values of row i, which starts in the page. They do not reference the page.
func (d *decodedPage) row(i int64, inOrder bool) ([]parquet.Value, error) {
	if i == d.from+d.inOrder {
		d.inOrder++
	}
	if d.large != nil {
		v, err := d.large.value(i - d.from)
		return []parquet.Value{v}, err
	}
	if d.windows[0] > i || i >= d.windows[1] {
		n := int64(1)
		if inOrder {
			n = windowRows
		}
		if err := d.take(i, min(i+n, d.to)); err != nil {
			return nil, err
		}
	}
	begin := 0
	if k := i - d.windows[0]; k > 0 {
		begin = d.ends[k-1]
	}
	return parquet.Row(d.window[begin:d.ends[i-d.windows[0]]]).Clone(), nil
}

// take decodes the values of rows [from, to) into the window.
func (d *decodedPage) take(from, to int64) (err error) {
	d.windows, d.ends = [2]int64{}, d.ends[:0]
	part := d.page.Slice(from-d.from, to-d.from)
	if d.window, err = readValues(part, int(part.NumValues())); err != nil {
		return err
	}
	for k, v := range d.window {
		if k > 0 && v.RepetitionLevel() == 0 {
			d.ends = append(d.ends, k)
		}
	}
	if d.ends = append(d.ends, len(d.window)); int64(len(d.ends)) != to-from {
		return fmt.Errorf("it has values for %d rows instead of %d", len(d.ends), to-from)
	}
	d.windows = [2]int64{from, to}
	return nil
}

// readValues reads the first values of a page.
func readValues(page parquet.Page, n int) ([]parquet.Value, error) {
	values, from := make([]parquet.Value, n), page.Values()
	for k := 0; k < n; {
		got, err := from.ReadValues(values[k:])
		if k += got; k < n && (err != nil || got == 0) {
			return nil, ended(err)
		}
	}
	return values, nil
}

// close releases all pages.
func (r *rowReader) close() {
	clear(r.last)
	for at := r.used.Front(); at != nil; at = r.used.Front() {
		r.forget(at.Value.(*decodedPage))
	}
}

// partsOfFile presents some parts of a file as if they were contiguous.
type partsOfFile struct {
	file  io.ReaderAt
	from  int64 // offset at which it appears to start
	parts [][2]int64
}

// ReadAt implements io.ReaderAt.
func (f *partsOfFile) ReadAt(p []byte, off int64) (n int, err error) {
	at := off - f.from
	for _, part := range f.parts {
		size := part[1] - part[0]
		if at >= size {
			at -= size
			continue
		}
		want := int(min(int64(len(p)-n), size-at))
		got, err := f.file.ReadAt(p[n:n+want], part[0]+at)
		if n += got; got < want {
			return n, ended(err)
		}
		if n == len(p) {
			return n, nil
		}
		at = 0
	}
	return n, io.EOF
}
