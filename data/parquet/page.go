package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// pageBody has the header fields that the check of a page needs.
type pageBody struct {
	values     int64 // including nulls
	size       int64 // uncompressed
	encoding   format.Encoding
	dictionary bool
	plainBytes [2]int64 // of levels, which are never compressed (version 2)
	version    int
	packed     bool
}

func (p *pageHeader) describe() (b pageBody, err error) {
	h := &p.header
	b = pageBody{size: int64(h.UncompressedPageSize), packed: true}
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		b.version, b.values, b.encoding = 1, int64(h.DataPageHeader.V.NumValues), h.DataPageHeader.V.Encoding
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		b.version, b.values, b.encoding = 2, int64(v.NumValues), v.Encoding
		b.plainBytes = [2]int64{int64(v.RepetitionLevelsByteLength), int64(v.DefinitionLevelsByteLength)}
		b.packed = !v.IsCompressed.Valid || v.IsCompressed.V
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		b.dictionary, b.values = true, int64(h.DictionaryPageHeader.V.NumValues)
		b.encoding = h.DictionaryPageHeader.V.Encoding
		former := b.encoding == format.PlainDictionary //lint:ignore SA1019 files that have it are read
		if former {
			b.encoding = format.Plain
		}
	default:
		return b, fmt.Errorf("it is of unknown type %v", h.Type)
	}
	if b.size < 0 || b.values < 0 || min(b.plainBytes[0], b.plainBytes[1]) < 0 ||
		b.plainBytes[0]+b.plainBytes[1] > p.to-p.body {
		return b, errors.New("lengths in its header are negative or exceed the page")
	}
	if most := pageSlack + pageRatio*(p.to-p.body); b.size > most {
		return b, fmt.Errorf("its header claims %d uncompressed bytes; %d bytes decompress to at most %d", b.size,
			p.to-p.body, most)
	}
	return b, b.count(b.values)
}

// count checks a number of values against the size of the page.
func (b *pageBody) count(n int64) error {
	if most := valueSlack + valueRatio*b.size; n < 0 || n > most {
		return fmt.Errorf("it claims %d values; a page of %d bytes has at most %d", n, b.size, most)
	}
	return nil
}

// check decompresses a page, discarding the data, and validates all lengths in it.
func (g *guardedFile) check(c *guardedChunk, page *guardedPage) error {
	p, err := readPageHeader(g.file, page.from, c.to)
	if err != nil {
		return err
	}
	b, err := p.describe()
	if err != nil {
		return err
	}
	if b.dictionary && c.width*b.values > b.size {
		return fmt.Errorf("it claims %d values of %d bytes in %d bytes", b.values, c.width, b.size)
	}
	at, levels := p.body, b.plainBytes[0]+b.plainBytes[1]
	if b.version == 2 {
		for i, n := range b.plainBytes {
			raw := make([]byte, n)
			if _, err := g.file.ReadAt(raw, at); err != nil {
				return err
			}
			if err := b.runs(raw, bits.Len(uint(c.levels[i]))); err != nil {
				return err
			}
			at += n
		}
	}
	codec := c.codec
	if !b.packed {
		codec = format.Uncompressed
	}
	body, err := g.unpack.open(codec, io.NewSectionReader(g.file, at, p.to-at), b.size)
	if err != nil {
		return err
	}
	counted := &counter{r: io.LimitReader(body, b.size+1)}
	if err := b.read(c, bufio.NewReader(counted)); err != nil {
		return err
	}
	if codec == format.Uncompressed { // uncompressed data cannot expand
		return nil
	}
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return err
	}
	if n := counted.n + levels; counted.n > b.size || n+pageSlack/16+n < b.size {
		return fmt.Errorf("it does not decompress to the %d bytes in its header", b.size)
	}
	return nil
}

// read reads the parts that contain lengths: levels, dictionary indices, deltas.
func (b *pageBody) read(c *guardedChunk, r *bufio.Reader) error {
	if b.dictionary {
		return nil
	}
	if b.version == 1 {
		for _, most := range c.levels {
			if most == 0 {
				continue
			}
			raw, err := b.prefixed(r)
			if err != nil {
				return fmt.Errorf("its levels: %w", err)
			}
			if err := b.runs(raw, bits.Len(uint(most))); err != nil {
				return err
			}
		}
	}
	switch b.encoding {
	case format.RLEDictionary, format.PlainDictionary: //lint:ignore SA1019 files that have it are read
		width, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil // only nulls
		} else if err != nil {
			return err
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return b.runs(raw, int(width))
	case format.RLE:
		raw, err := b.prefixed(r)
		if err != nil {
			return err
		}
		return b.runs(raw, 1)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		head, err := r.Peek(4 * binary.MaxVarintLen64)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return b.deltas(head)
	case format.DeltaByteArray:
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return b.prefixes(raw)
	}
	return nil
}

// prefixed reads length-prefixed bytes.
func (b *pageBody) prefixed(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	if n > b.size {
		return nil, fmt.Errorf("%d bytes of %d", n, b.size)
	}
	raw, err := io.ReadAll(io.LimitReader(r, n))
	if err == nil && int64(len(raw)) < n {
		err = io.ErrUnexpectedEOF
	}
	return raw, err
}

// runs checks the total length of RLE and bit-packed runs, the latter in groups of eight values.
func (b *pageBody) runs(raw []byte, width int) error {
	total := int64(0)
	for len(raw) > 0 {
		u, n := binary.Uvarint(raw)
		if n <= 0 || u > 1<<40 {
			return errors.New("a run has no valid length")
		}
		raw = raw[n:]
		count, bytes := int64(u>>1), int64(width+7)/8
		if u&1 != 0 {
			bytes = count * int64(width)
			count *= 8
		}
		total += count
		if err := b.count(total); err != nil {
			return err
		}
		raw = raw[min(bytes, int64(len(raw))):]
	}
	return nil
}

// booleans decodes the values of a page of booleans in runs again: of a run of true the library sets one in eight, and
// it takes every run for a multiple of eight values.
func (g *guardedFile) booleans(c *guardedChunk, at *guardedPage, page parquet.Page) error {
	h, err := readPageHeader(g.file, at.from, c.to)
	if err != nil {
		return err
	}
	_, body, b, err := g.open(c, &h)
	if err != nil {
		return err
	}
	for _, most := range c.levels {
		if most > 0 && b.version == 1 {
			if _, err := b.prefixed(body); err != nil {
				return err
			}
		}
	}
	raw, err := b.prefixed(body)
	if err != nil {
		return err
	}
	runs := rle.Encoding{BitWidth: 1}
	values, err := runs.DecodeLevels(nil, raw)
	if err != nil {
		return err
	}
	n := int(page.NumValues() - page.NumNulls())
	if len(values) < n {
		return fmt.Errorf("it has %d booleans instead of %d", len(values), n)
	}
	wrong := page.Data()
	packed := wrong.Boolean()
	clear(packed)
	for i, v := range values[:n] {
		packed[i/8] |= v << (i % 8)
	}
	return nil
}

// deltas checks the header of delta-encoded values: block size, miniblocks per block, number of values.
func (b *pageBody) deltas(raw []byte) error {
	var u uint64
	for range 3 {
		var n int
		if u, n = binary.Uvarint(raw); n <= 0 {
			return errors.New("its deltas have no header")
		}
		raw = raw[n:]
	}
	return b.count(int64(min(u, 1<<62)))
}

// prefixes checks the total size of strings that share prefixes with the previous ones.
func (b *pageBody) prefixes(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	if err := b.deltas(raw); err != nil {
		return err
	}
	lengths, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, slices.Clip(raw))
	if err != nil {
		return err
	}
	total := int64(0)
	for _, n := range lengths {
		total += int64(max(n, 0))
	}
	if most := pageSlack + pageRatio*b.size; total > most {
		return fmt.Errorf("its strings share %d bytes of prefixes; at most %d are allowed", total, most)
	}
	return nil
}

// unpacker decompresses pages as streams, so memory depends on the actual data, whatever a header claims.
type unpacker struct{ zstd *zstd.Decoder }

func (u *unpacker) open(codec format.CompressionCodec, packed *io.SectionReader, size int64) (io.Reader, error) {
	if codec == format.Uncompressed || packed.Size() == 0 {
		return packed, nil
	}
	switch codec {
	case format.Snappy:
		if size <= largePage {
			return openSnappy(packed, size)
		}
		marks, err := markSnappy(packed, size)
		return &snappyReader{packed: packed, marks: marks}, err
	case format.Gzip:
		return gzip.NewReader(packed)
	case format.Brotli:
		return brotli.NewReader(packed), nil
	case format.Zstd:
		if u.zstd == nil {
			var err error
			u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(128<<20))
			if err != nil {
				return nil, err
			}
		}
		var h zstd.Header
		head := make([]byte, min(zstd.HeaderMaxSize, packed.Size()))
		if _, err := packed.ReadAt(head, 0); err != nil {
			return nil, err
		}
		if err := h.Decode(head); err != nil {
			return nil, err
		}
		if most := uint64(max(2*size, 8<<20)); h.HasFCS && h.FrameContentSize > uint64(size) || h.WindowSize > most {
			return nil, fmt.Errorf("its zstd frame claims more than the %d bytes in its header", size)
		}
		return u.zstd, u.zstd.Reset(packed)
	}
	return nil, fmt.Errorf("it is compressed with %v, which is not supported: write the Parquet file with zstd or snappy",
		codec)
}

// openSnappy decompresses a block in one go, as blocks are not streams. Three bytes of a block decompress to at most
// 64.
func openSnappy(packed *io.SectionReader, size int64) (io.Reader, error) {
	raw, err := io.ReadAll(packed)
	if err != nil {
		return nil, err
	}
	n, err := snappy.DecodedLen(raw)
	if err != nil {
		return nil, err
	}
	if int64(n) > size || n > 22*len(raw) {
		return nil, fmt.Errorf("its snappy data claims %d bytes; its header says %d", n, size)
	}
	body, err := snappy.Decode(nil, raw)
	return bytes.NewReader(body), err
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
