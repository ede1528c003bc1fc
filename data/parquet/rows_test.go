package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"assay/internal/fuzzing"
	"assay/internal/long"
)

// pieces compresses with snappy as the original library does: independent pieces of 64 KiB.
type pieces struct{ compress.Codec }

// Encode implements compress.Codec.
func (pieces) Encode(dst, src []byte) ([]byte, error) {
	dst = binary.AppendUvarint(dst[:0], uint64(len(src)))
	for len(src) > 0 {
		piece := src[:min(len(src), snappyPiece)]
		packed := snappy.Encode(nil, piece)
		_, head := binary.Uvarint(packed)
		dst, src = append(dst, packed[head:]...), src[len(piece):]
	}
	return dst, nil
}

// picture is the picture in row i of the test tables, partly compressible; nil in every 7th row.
func (w anyRows) picture(i int) []byte {
	if i%7 == 3 {
		return nil
	}
	if w.repeats {
		i = i % 40
	}
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	out := bytes.Repeat(fmt.Appendf(nil, "picture %d ", i), 20)
	for range w.bytes / 8 {
		out = binary.LittleEndian.AppendUint64(out, rng.Uint64())
	}
	return out
}

// anyRows is a table of n rows: a picture, a text, and a list of texts.
type anyRows struct {
	n, bytes, page, group int
	codec                 compress.Codec
	version               int
	encoding              string
	repeats               bool
}

func (w anyRows) tags(i int) (tags []string) {
	for k := range i * 5 % 8 {
		tags = append(tags, fmt.Sprintf("%d of %d", k, i))
	}
	return tags
}

func (w anyRows) write(t *testing.T) string {
	t.Helper()
	image := parquet.Optional(parquet.Encoded(parquet.Leaf(parquet.ByteArrayType), &parquet.Plain))
	if w.encoding == "dictionary" {
		image = parquet.Optional(parquet.Encoded(parquet.Leaf(parquet.ByteArrayType), &parquet.RLEDictionary))
	}
	schema := parquet.NewSchema("t", parquet.Group{
		"edit":        parquet.Optional(parquet.Group{"bytes": image, "path": parquet.Optional(parquet.String())}),
		"instruction": parquet.String(),
		"tags":        parquet.List(parquet.String()),
	})
	var file bytes.Buffer
	out := parquet.NewGenericWriter[any](&file, schema, parquet.Compression(w.codec), parquet.DataPageVersion(w.version),
		parquet.PageBufferSize(w.page), parquet.MaxRowsPerRowGroup(int64(w.group)))
	for i := range w.n {
		bytes := parquet.NullValue().Level(0, 1, 0)
		if p := w.picture(i); p != nil {
			bytes = parquet.ByteArrayValue(p).Level(0, 2, 0)
		}
		row := parquet.Row{bytes, parquet.ValueOf(fmt.Sprint("p", i)).Level(0, 2, 1),
			parquet.ValueOf(fmt.Sprint("make it ", i)).Level(0, 0, 2)}
		for k, tag := range w.tags(i) {
			row = append(row, parquet.ValueOf(tag).Level(min(k, 1), 1, 3))
		}
		if len(w.tags(i)) == 0 {
			row = append(row, parquet.NullValue().Level(0, 0, 3))
		}
		if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wrong returns what is wrong with row i as read.
func (w anyRows) wrong(row []Field, i int) string {
	var tags []string
	list, _ := get(row, "tags").([]any)
	for _, tag := range list {
		text, _ := tag.(string)
		tags = append(tags, text)
	}
	edit, _ := get(row, "edit").(fields)
	image, _ := get(edit, "bytes").([]byte)
	text, path := get(row, "instruction"), get(edit, "path")
	if !bytes.Equal(image, w.picture(i)) || path != fmt.Sprint("p", i) || text != fmt.Sprint("make it ", i) ||
		!reflect.DeepEqual(tags, w.tags(i)) {
		return fmt.Sprintf("row %d: got a picture of %d bytes, %v, %v, %v, want %d bytes, p%[1]d, make it %[1]d, %v", i,
			len(image), path, text, tags, len(w.picture(i)), w.tags(i))
	}
	return ""
}

// check reads all rows, in order and at random.
func (w anyRows) check(t *testing.T, path string) (large bool) {
	t.Helper()
	table := open(t, path)
	for i := range 2 * w.n {
		if i >= w.n {
			i = i * 7919 % w.n
		}
		rec, _, err := table.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := w.wrong(rec, i); wrong != "" {
			t.Fatalf("%+v: row %d: got %s, want what was written", w, i, wrong)
		}
	}
	return table.rows.last[0].large != nil
}

// TestAnyRow: rows are read as they were written, in order and at random, whatever the page layout.
func TestAnyRow(t *testing.T) {
	testAnyRow(t, false, pageCodecs)
	testAnyRow(t, true, map[string]compress.Codec{"in pieces": pieces{&parquet.Snappy}})
}

func TestAnyRowOfLargePages(t *testing.T) {
	long.Test(t)
	testAnyRow(t, true, pageCodecs)
}

func testAnyRow(t *testing.T, large bool, codecs map[string]compress.Codec) {
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			for version := 1; version <= 2; version++ {
				for _, encoding := range []string{"plain", "dictionary"} {
					w := anyRows{n: 60, bytes: 100, page: 1 << 9, group: 40, codec: codec, version: version, encoding: encoding,
						repeats: name == "zstd"}
					if large {
						w.bytes, w.page = 60_000, 4<<20
					}
					if got := w.check(t, w.write(t)); got != large {
						t.Errorf("%s: %+v: got values that stay in the file %t, want %t", name, w, got, large)
					}
				}
			}
		})
	}
}

// seekableCodecs are the codecs that allow decompressing a part of a page.
var seekableCodecs = map[string]compress.Codec{"none": &parquet.Uncompressed, "snappy": pieces{&parquet.Snappy}}

// TestLargePagesTakeLittle: reading a picture from a 20 MiB page takes little more memory than the picture.
func TestLargePagesTakeLittle(t *testing.T) {
	long.Test(t)
	for name, codec := range seekableCodecs {
		t.Run(name, func(t *testing.T) {
			w := anyRows{n: 200, bytes: 100_000, page: 64 << 20, group: 200, codec: codec, version: 1}
			path := w.write(t)
			fuzzing.Bounded(t, 6<<20, func() {
				table := open(t, path)
				for _, i := range []int{199, 0, 17, 18, 150, 17} {
					rec, _, err := table.Read(i)
					if err != nil {
						t.Fatal(err)
					}
					if wrong := w.wrong(rec, i); wrong != "" {
						t.Errorf("%s: row %d: got %s, want what was written", name, i, wrong)
					}
				}
			})
		})
	}
}

// TestDamagedLargePages: a damaged byte is an error that names the column, or the values read are still correct.
func TestDamagedLargePages(t *testing.T) {
	long.Test(t)
	for _, encoding := range []string{"plain", "dictionary"} {
		for name, codec := range seekableCodecs {
			w := anyRows{n: 30, bytes: 60_000, page: 4 << 20, group: 30, codec: codec, version: 1, encoding: encoding}
			path := w.write(t)
			fuzzing.Damage(t, 60, []string{path}, func() (bool, error) {
				table, err := openPath(path)
				if err != nil {
					return true, nil
				}
				defer table.Close()
				refused := false
				for i := range table.Len() {
					rec, _, err := table.Read(i)
					if err != nil {
						if !strings.HasPrefix(err.Error(), "column") {
							return false, err
						}
						refused = true
						continue
					}
					if wrong := w.wrong(rec, i); wrong != "" {
						return false, fmt.Errorf("%s, %s: %s", name, encoding, wrong)
					}
				}
				return refused, nil
			})
		}
	}
}

// TestRowsOverPages: a version 1 page may end within a row, whose values continue in the next pages.
func TestRowsOverPages(t *testing.T) {
	w := anyRows{n: 40, bytes: 10, page: 1 << 20, group: 40, codec: &parquet.Uncompressed, version: 1}
	path := w.write(t)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	footer, err := readFooter(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	protocol := new(thrift.CompactProtocol)
	var meta format.FileMetaData
	if err := thrift.Unmarshal(protocol, footer, &meta); err != nil {
		t.Fatal(err)
	}
	c := &meta.RowGroups[0].Columns[3].MetaData
	for k := range meta.RowGroups[0].Columns {
		other := &meta.RowGroups[0].Columns[k]
		other.OffsetIndexOffset, other.OffsetIndexLength, other.ColumnIndexOffset, other.ColumnIndexLength = 0, 0, 0, 0
	}
	out := bytes.Clone(raw[:c.DataPageOffset])
	var levels, defined []byte
	var texts [][]byte
	for i := range w.n {
		for k, tag := range w.tags(i) {
			levels, defined, texts = append(levels, byte(min(k, 1))), append(defined, 1), append(texts, []byte(tag))
		}
		if len(w.tags(i)) == 0 {
			levels, defined, texts = append(levels, 0), append(defined, 0), append(texts, nil)
		}
	}
	runs := func(levels []byte) (out []byte) {
		for _, level := range levels {
			out = append(out, 2, level) // runs of length one
		}
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(out))), out...)
	}
	for from := 0; from < len(levels); from += 3 {
		to := min(from+3, len(levels))
		body := append(runs(levels[from:to]), runs(defined[from:to])...)
		for k := from; k < to; k++ {
			if defined[k] == 1 {
				body = append(binary.LittleEndian.AppendUint32(body, uint32(len(texts[k]))), texts[k]...)
			}
		}
		h := format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(len(body)),
			CompressedPageSize: int32(len(body))}
		h.DataPageHeader.Valid = true
		h.DataPageHeader.V = format.DataPageHeader{NumValues: int32(to - from), Encoding: format.Plain,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}
		head, err := thrift.Marshal(protocol, &h)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, head...), body...)
	}
	c.TotalCompressedSize = int64(len(out)) - c.DataPageOffset
	end, err := thrift.Marshal(protocol, &meta)
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, end...)
	out = append(binary.LittleEndian.AppendUint32(out, uint32(len(end))), "PAR1"...)
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	w.check(t, path)
	for _, i := range []int{39, 0, 20, 38, 39} { // with nothing read before
		table := open(t, path)
		if rec, _, err := table.Read(i); err != nil || w.wrong(rec, i) != "" {
			t.Errorf("row %d: got %s, %v, want what was written", i, w.wrong(rec, i), err)
		}
	}
}
