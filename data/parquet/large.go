package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// largePage is the uncompressed size in bytes above which a page of pictures is not decoded. Some writers (pyarrow)
// put 1,024 pictures into a page, whatever their size, and a row needs one of them. The value is read in place:
// snappy pages are decompressed starting at the nearest mark before it, other compressed pages from their beginning.
// The page is not cached.
const largePage = 1 << 20

// largeValues are the byte strings of a page, data or dictionary, that stay in the file, with their positions.
type largeValues struct {
	file  *guardedFile
	codec format.CompressionCodec
	lies  [2]int64     // byte range in the file, without levels of version 2
	size  int64        // uncompressed
	marks []snappyMark // of snappy
	from  []uint32     // of the uncompressed body
	to    []uint32

	pieces snappyReader // of snappy
	unpack unpacker     // for codecs that are read from the beginning
	body   io.Reader
	at     int64 // position in the uncompressed body
	last   int
	bytes  []byte // of the last value read: consecutive rows are often edits of one source
}

// largeRows are the rows of a page whose values, or whose dictionary, are large. Every row has one value.
type largeRows struct {
	column int
	levels []uint8 // definition levels; nil: every value is defined
	most   uint8   // level of a value that is defined
	number []int32 // by row: index of its value; arbitrary for null
	values *largeValues
}

// isLarge reports whether the values of the page should stay in the file.
func (c *guardedChunk) isLarge(p *pageHeader) bool {
	b, err := p.describe()
	return err == nil && c.levels[0] == 0 && c.bytes && b.size > largePage && b.encoding == format.Plain
}

// large prepares a page of large values, or of indices into a dictionary of large values; nil for other pages.
func (r *rowReader) large(c *guardedChunk, p int) (*largeRows, error) {
	h, err := readPageHeader(r.guard.file, c.pages[p].from, c.to)
	if err != nil {
		return nil, err
	}
	out := &largeRows{column: c.leaf, most: uint8(c.levels[1])}
	switch first := &c.pages[0]; {
	case c.isLarge(&h):
		out.values, err = r.guard.largeValues(c, &h, out)
		return out, err
	case c.pages[p].indexed && first.dictionary:
		d, err := readPageHeader(r.guard.file, first.from, c.to)
		if err != nil || !c.isLarge(&d) {
			return nil, err
		}
		if r.dictionary.id != (pageID{c, 0}) {
			values, err := r.guard.largeValues(c, &d, nil)
			if err != nil {
				return nil, err
			}
			r.dictionary.id, r.dictionary.values = pageID{c, 0}, values
		}
		out.values = r.dictionary.values
		return out, r.guard.indices(c, &h, out)
	}
	return nil, nil
}

// open checks a page, and returns its uncompressed body.
func (g *guardedFile) open(c *guardedChunk, h *pageHeader) (*largeValues, *bufio.Reader, pageBody, error) {
	b, err := h.describe()
	if err != nil {
		return nil, nil, b, err
	}
	var probe [1]byte
	if _, err := g.ReadAt(probe[:], h.from); err != nil { // reading through the guard checks the page
		return nil, nil, b, err
	}
	if h.header.CRC != 0 {
		sum := crc32.NewIEEE()
		if _, err := io.Copy(sum, io.NewSectionReader(g.file, h.body, h.to-h.body)); err != nil {
			return nil, nil, b, err
		}
		if sum.Sum32() != uint32(h.header.CRC) {
			return nil, nil, b, errors.New("its checksum is wrong")
		}
	}
	levels := b.plainBytes[0] + b.plainBytes[1]
	v := &largeValues{file: g, codec: c.codec, lies: [2]int64{h.body + levels, h.to}, size: b.size - levels}
	if !b.packed {
		v.codec = format.Uncompressed
	}
	if v.codec == format.Snappy {
		if v.marks, err = markSnappy(v.section(), v.size); err != nil {
			return nil, nil, b, err
		}
	}
	body, err := v.stream()
	return v, bufio.NewReaderSize(body, 1<<16), b, err
}

func (v *largeValues) section() *io.SectionReader {
	return io.NewSectionReader(v.file.file, v.lies[0], v.lies[1]-v.lies[0])
}

// stream decompresses from the beginning.
func (v *largeValues) stream() (io.Reader, error) {
	if v.codec == format.Snappy {
		v.pieces = snappyReader{packed: v.section(), marks: v.marks}
		return &v.pieces, nil
	}
	return v.unpack.open(v.codec, v.section(), v.size)
}

// rest releases the memory of the decompressors.
func (v *largeValues) rest() {
	v.pieces, v.unpack, v.body, v.bytes = snappyReader{}, unpacker{}, nil, nil
}

// largeValues finds the positions of the values of a page, and which rows are null (rows is nil for a dictionary).
func (g *guardedFile) largeValues(c *guardedChunk, h *pageHeader, rows *largeRows) (*largeValues, error) {
	v, body, b, err := g.open(c, h)
	if err != nil {
		return nil, err
	}
	n, at := b.values, int64(0)
	if rows != nil {
		if at, err = g.definitions(c, h, &b, body, rows); err != nil {
			return nil, err
		}
		if rows.levels != nil {
			n = int64(countDefined(rows))
		}
	}
	for range n {
		var length [4]byte
		if _, err := io.ReadFull(body, length[:]); err != nil {
			return nil, ended(err)
		}
		from := at + 4
		if at = from + int64(binary.LittleEndian.Uint32(length[:])); at > v.size {
			return nil, errors.New("a value is longer than the page")
		}
		if _, err := body.Discard(int(at - from)); err != nil {
			return nil, ended(err)
		}
		v.from, v.to = append(v.from, uint32(from)), append(v.to, uint32(at))
	}
	v.rest()
	return v, nil
}

// countDefined numbers the values of the rows that have one.
func countDefined(rows *largeRows) (n int) {
	for i, level := range rows.levels {
		if rows.number[i] = int32(n); level == rows.most {
			n++
		}
	}
	return n
}

// definitions reads the definition levels of a page. at is the number of bytes of the body that it consumed.
func (g *guardedFile) definitions(
	c *guardedChunk, h *pageHeader, b *pageBody, body *bufio.Reader, rows *largeRows,
) (at int64, err error) {
	rows.number = make([]int32, b.values)
	for i := range rows.number {
		rows.number[i] = int32(i)
	}
	if c.levels[1] == 0 {
		return 0, nil
	}
	var raw []byte
	if b.version == 2 {
		raw = make([]byte, b.plainBytes[1])
		_, err = g.file.ReadAt(raw, h.body+b.plainBytes[0])
	} else {
		raw, err = b.prefixed(body)
		at = 4 + int64(len(raw))
	}
	if err != nil {
		return 0, err
	}
	levels := rle.Encoding{BitWidth: bits.Len(uint(c.levels[1]))}
	if rows.levels, err = levels.DecodeLevels(nil, raw); err != nil {
		return 0, err
	}
	if int64(len(rows.levels)) < b.values {
		return 0, fmt.Errorf("it has %d levels of %d values", len(rows.levels), b.values)
	}
	rows.levels = slices.Clip(rows.levels[:b.values])
	return at, nil
}

// indices reads the dictionary indices of the rows of a page.
func (g *guardedFile) indices(c *guardedChunk, h *pageHeader, rows *largeRows) error {
	_, body, b, err := g.open(c, h)
	if err != nil {
		return err
	}
	if _, err := g.definitions(c, h, &b, body, rows); err != nil {
		return err
	}
	n := len(rows.number)
	if rows.levels != nil {
		n = countDefined(rows)
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	indices, err := new(rle.DictionaryEncoding).DecodeInt32(nil, raw)
	if err != nil {
		return err
	}
	if len(indices) < n {
		return fmt.Errorf("it has %d indices of %d values", len(indices), n)
	}
	for i, k := range rows.number {
		if rows.levels != nil && rows.levels[i] != rows.most {
			continue
		}
		if rows.number[i] = indices[k]; rows.number[i] < 0 || int(rows.number[i]) >= len(rows.values.from) {
			return fmt.Errorf("its dictionary has no value %d", rows.number[i])
		}
	}
	return nil
}

// value returns the value of row i of the page, from 0.
func (l *largeRows) value(i int64) (parquet.Value, error) {
	level := int(l.most)
	if l.levels != nil && l.levels[i] != l.most {
		return parquet.Value{}.Level(0, int(l.levels[i]), l.column), nil
	}
	raw, err := l.values.get(int(l.number[i]))
	return parquet.ByteArrayValue(raw).Level(0, level, l.column), err
}

// bytes is its memory use.
func (l *largeRows) bytes() int64 {
	return int64(5*len(l.number) + 8*len(l.values.from) + 16*len(l.values.marks))
}

// get reads a value.
func (v *largeValues) get(k int) ([]byte, error) {
	if k == v.last && v.bytes != nil {
		return bytes.Clone(v.bytes), nil
	}
	from, to := int64(v.from[k]), int64(v.to[k])
	out := make([]byte, to-from)
	if v.codec == format.Uncompressed {
		if n, err := v.section().ReadAt(out, from); n < len(out) {
			return nil, ended(err)
		}
		return out, nil
	}
	if v.body == nil || from < v.at && v.codec != format.Snappy {
		body, err := v.stream()
		if err != nil {
			return nil, err
		}
		v.body, v.at = body, 0
	}
	if v.codec == format.Snappy {
		v.pieces.at, v.at = from, from
	}
	body := v.body
	v.body = nil
	if _, err := io.CopyN(io.Discard, body, from-v.at); err != nil {
		return nil, ended(err)
	}
	if _, err := io.ReadFull(body, out); err != nil {
		return nil, ended(err)
	}
	v.body, v.at, v.last, v.bytes = body, to, k, out
	return bytes.Clone(out), nil
}
