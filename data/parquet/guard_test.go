package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"assay/internal/fuzzing"
	"assay/internal/long"
)

// maxDamaged bounds the memory for reading a damaged file of a few KiB: 4 Mi values of a column, with their levels
// and offsets, and the library's buffers.
const maxDamaged = 160 << 20

// onePage writes a file with one column, lets change modify header and body of its last page, and reassembles the
// file.
func onePage(
	t *testing.T, column parquet.Node, codec compress.Codec, v2 bool,
	change func(h *format.PageHeader, body []byte) []byte,
) string {
	t.Helper()
	version := 1
	if v2 {
		version = 2
	}
	var file bytes.Buffer
	w := parquet.NewWriter(&file, parquet.NewSchema("t", parquet.Group{"instruction": column}),
		parquet.Compression(codec), parquet.DataPageVersion(version))
	for i := range 300 {
		v := parquet.ValueOf(fmt.Sprintf("make it brighter %d", i/100))
		if column.Type().Kind() != parquet.ByteArray {
			v = parquet.ValueOf(int64(i))
		}
		level := 0
		if column.Optional() {
			level = 1
		}
		if _, err := w.WriteRows([]parquet.Row{{v.Level(0, level, 0)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw := file.Bytes()
	footer, err := readFooter(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	var meta format.FileMetaData
	protocol := new(thrift.CompactProtocol)
	if err := thrift.Unmarshal(protocol, footer, &meta); err != nil {
		t.Fatal(err)
	}
	c := &meta.RowGroups[0].Columns[0]
	c.ColumnIndexOffset, c.ColumnIndexLength, c.OffsetIndexOffset, c.OffsetIndexLength = 0, 0, 0, 0
	from, to := c.MetaData.DataPageOffset, c.MetaData.DataPageOffset+c.MetaData.TotalCompressedSize
	if c.MetaData.DictionaryPageOffset != 0 {
		from, to = c.MetaData.DictionaryPageOffset, c.MetaData.DictionaryPageOffset+c.MetaData.TotalCompressedSize
	}
	page, err := readPageHeader(bytes.NewReader(raw), from, to)
	for err == nil && page.to < to {
		page, err = readPageHeader(bytes.NewReader(raw), page.to, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	page.header.CRC = 0
	body := change(&page.header, bytes.Clone(raw[page.body:page.to]))
	page.header.CompressedPageSize = int32(len(body))
	head, err := thrift.Marshal(protocol, &page.header)
	if err != nil {
		t.Fatal(err)
	}
	out := append(append(bytes.Clone(raw[:page.from]), head...), body...)
	c.MetaData.TotalCompressedSize = int64(len(out)) - from
	end, err := thrift.Marshal(protocol, &meta)
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, end...)
	out = append(binary.LittleEndian.AppendUint32(out, uint32(len(end))), "PAR1"...)
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readAll reads all rows of a table, and returns the first error.
func readAll(path string) (rows int, err error) {
	f, err := openPath(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for ; rows < f.Len(); rows++ {
		if _, _, err := f.Read(rows); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

const huge = 1<<31 - 1

var pageCodecs = map[string]compress.Codec{
	"none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd,
	"brotli": &parquet.Brotli,
}

// pageColumns are columns in every encoding whose pages contain lengths.
func pageColumns() map[string]parquet.Node {
	text, number := parquet.String(), parquet.Int(64)
	return map[string]parquet.Node{
		"plain":            parquet.Encoded(text, &parquet.Plain),
		"optional":         parquet.Optional(parquet.Encoded(text, &parquet.Plain)),
		"dictionary":       parquet.Optional(parquet.Encoded(text, &parquet.RLEDictionary)),
		"delta":            parquet.Encoded(number, &parquet.DeltaBinaryPacked),
		"delta lengths":    parquet.Encoded(text, &parquet.DeltaLengthByteArray),
		"delta byte array": parquet.Optional(parquet.Encoded(text, &parquet.DeltaByteArray)),
		"numbers":          parquet.Optional(number),
	}
}

// TestWholePages: undamaged pages are read.
func TestWholePages(t *testing.T) {
	for codecName, codec := range pageCodecs {
		t.Run(codecName, func(t *testing.T) {
			for name, column := range pageColumns() {
				for _, v2 := range []bool{false, true} {
					path := onePage(t, column, codec, v2, func(_ *format.PageHeader, body []byte) []byte { return body })
					if rows, err := readAll(path); err != nil || rows != 300 {
						t.Errorf("%s, %s, version 2 %v: got %d rows, %v, want 300", codecName, name, v2, rows, err)
					}
				}
			}
		})
	}
}

// TestDamagedPages: whatever lengths a page claims, reading it takes bounded memory, and the error names the column.
func TestDamagedPages(t *testing.T) {
	long.Test(t)
	refused := func(what, path string) {
		t.Helper()
		var err error
		fuzzing.Bounded(t, maxDamaged, func() { _, err = readAll(path) })
		if err == nil || !strings.Contains(err.Error(), `"instruction"`) {
			t.Errorf("%s: %v, want an error that names the column", what, err)
		}
	}
	for codecName, codec := range pageCodecs {
		for name, column := range pageColumns() {
			for _, v2 := range []bool{false, true} {
				what := fmt.Sprintf("%s, %s, version 2 %v", codecName, name, v2)
				refused(what+", unpacked size", onePage(t, column, codec, v2, func(h *format.PageHeader, body []byte) []byte {
					h.UncompressedPageSize = huge
					return body
				}))
				refused(what+", values", onePage(t, column, codec, v2, func(h *format.PageHeader, body []byte) []byte {
					h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues = huge, huge
					return body
				}))
			}
		}
	}
	run := binary.AppendUvarint(nil, huge<<1) // run of one value, whose bytes follow
	columns := pageColumns()
	replace := func(body []byte) func(h *format.PageHeader, _ []byte) []byte {
		return func(h *format.PageHeader, _ []byte) []byte {
			h.UncompressedPageSize = int32(len(body))
			return body
		}
	}
	levels := append(binary.LittleEndian.AppendUint32(nil, uint32(len(run)+1)), append(run, 1)...)
	refused("run of levels", onePage(t, columns["numbers"], &parquet.Uncompressed, false, replace(levels)))
	one := append(binary.LittleEndian.AppendUint32(nil, 3), 0xd8, 0x04, 1) // 300 actual values
	refused("run of indices", onePage(t, columns["dictionary"], &parquet.Uncompressed, false,
		replace(append(append(one, 2), append(run, 1)...))))
	many := append([]byte{0x80, 1, 4}, binary.AppendUvarint(nil, huge)...)
	refused("differences", onePage(t, columns["delta"], &parquet.Uncompressed, false, replace(append(many, 0, 0))))
	refused("lengths", onePage(t, columns["delta lengths"], &parquet.Uncompressed, false, replace(append(many, 0, 0))))
	refused("snappy", onePage(t, columns["plain"], &parquet.Snappy, false, func(_ *format.PageHeader, body []byte) []byte {
		_, n := binary.Uvarint(body)
		return append(binary.AppendUvarint(nil, 1<<32-1), body[n:]...)
	}))
	refused("zstd", onePage(t, columns["plain"], &parquet.Zstd, false, func(*format.PageHeader, []byte) []byte {
		frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0} // a single segment with a length of eight bytes
		return append(binary.LittleEndian.AppendUint64(frame, 1<<32), 1, 0, 0)
	}))
	// a decompression bomb, not damage: correct lengths that do not match the header
	zeros := make([]byte, 1<<30)
	for name, codec := range map[string]compress.Codec{"zstd": &parquet.Zstd, "gzip": &parquet.Gzip} {
		packed, err := codec.Encode(nil, zeros)
		if err != nil {
			t.Fatal(err)
		}
		refused("a bomb in "+name, onePage(t, columns["plain"], codec, false,
			func(*format.PageHeader, []byte) []byte { return packed }))
	}
}
