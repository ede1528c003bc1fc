package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/adler32"
	"image"
	"image/gif"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/codecs"
	"assay/internal/fuzzing"
	"assay/internal/packed"

	"github.com/klauspost/compress/flate"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// FuzzDecode: any bytes decode to a picture of the size in the header, or an error.
func FuzzDecode(f *testing.F) {
	x := fuzzing.New(f)
	for _, raw := range fuzzing.Files(f, 1600, filepath.Join(packed.Unpack(f, pictures), "*")) {
		x.Add(raw, raw[:len(raw)*3/4])
	}
	for _, name := range []string{
		"frame_22_11_11_progressive_r3.jpg", "frame_21_11_11_apart_r2.jpg", "frame_11_22_22_r0.jpg", "halved_4_2_2.jpg",
		"orientation_ratio5_6_1.jpg", "12_8_False.bmp", "108_32_ff0000_ff00_ff_ff000000_True.bmp", "40_4_3_colours_True.bmp",
		"2_16_key1.png", "rare_premultiplied16_MM_1.tif", "tile_II_p3_8.tif", "lossy_alpha_animated0_2_0_2.webp",
	} {
		x.Add(packed.File(f, "testdata/headers.zip", name))
	}
	const pixels = 1 << 14
	x.Run(func(t testing.TB, raw []byte) {
		fuzzing.Bounded(t, 24<<20+64*uint64(len(raw)), func() {
			width, height, refused := Size(raw, Limits{MaxPixels: pixels})
			p, err := Decode(raw, Limits{MaxPixels: pixels})
			switch {
			case err != nil:
			case refused != nil:
				t.Errorf("got a picture, want the error of its size: %v", refused)
			case len(p.Pix) != 3*p.Width*p.Height || p.Width*p.Height != width*height || p.Width != width && p.Width != height:
				t.Errorf("got %d x %d pixels in %d bytes, want %d x %d as in the header", p.Width, p.Height, len(p.Pix), width,
					height)
			}
			if refused == nil {
				plainIsTheLibrarys(t, raw)
			}
		})
	})
}

// plainIsTheLibrarys: our own decoders agree with the library.
func plainIsTheLibrarys(t testing.TB, raw []byte) {
	f := encodedFile{context.Background(), raw}
	format, _ := detectFormat(raw)
	var p *Picture
	var library func(io.Reader) (image.Image, error)
	switch format.name {
	case "PNG":
		p, _ = decodePlainPNG(f)
		library = png.Decode
	case "TIFF":
		p, _ = decodePlainTIFF(f)
		library = tiff.Decode
	case "GIF":
		p, library = decodePlainGIF(raw), gif.Decode
	case "BMP":
		header, pixels, err := plainBMP(raw)
		if err != nil {
			return
		}
		p = decodeBGR(header, pixels)
		library = func(io.Reader) (image.Image, error) {
			return bmp.Decode(io.MultiReader(bytes.NewReader(header), bytes.NewReader(pixels)))
		}
	}
	if p == nil {
		return
	}
	m, err := library(bytes.NewReader(raw))
	if err != nil {
		t.Errorf("%s: got a picture, want the library's error: %v", format.name, err)
	} else if want := flatten(m); !bytes.Equal(p.Pix, want.Pix) || !bytes.Equal(p.bare, want.bare) {
		t.Errorf("%s: got other pixels than the library's, want the same", format.name)
	}
}

// FuzzInflate: libdeflate and Go's package inflate a stream to the same bytes. The checksum is fixed up to match.
func FuzzInflate(f *testing.F) {
	if err := noLibdeflate(); err != nil {
		f.Skip(err)
	}
	x := fuzzing.New(f)
	for _, raw := range fuzzing.Files(f, 4<<10, "../internal/codecs/selftest/*.zlib") {
		x.Add(raw[2:len(raw)-4], raw[2:len(raw)/2])
	}
	const most = 1 << 16
	x.Run(func(t testing.TB, raw []byte) {
		source := bytes.NewReader(raw)
		want, err := io.ReadAll(io.LimitReader(flate.NewReader(source), most))
		if err != nil || len(want) == 0 || len(want) == most {
			return
		}
		stream := append([]byte{0x78, 0x9c}, raw[:len(raw)-source.Len()]...)
		stream = binary.BigEndian.AppendUint32(stream, adler32.Checksum(want))
		got := make([]byte, len(want))
		if err := codecs.Inflate(context.Background(), stream, got); err == nil && !bytes.Equal(got, want) {
			t.Errorf("got other bytes than Go's package gives, want the same or an error") // after which that is asked
		}
	})
}

// FuzzParquet reads arbitrary bytes as a Parquet table: all rows, as a label table and as records.
func FuzzParquet(f *testing.F) {
	x := fuzzing.New(f)
	for _, raw := range fuzzing.Files(f, 6<<10, "testdata/tables/*.parquet") {
		x.Add(raw)
		raw = append([]byte(nil), raw...)
		raw[len(raw)/3] ^= 0x55
		x.Add(raw)
	}
	path := fuzzing.File(f, "t.parquet")
	x.Run(func(t testing.TB, raw []byte) {
		// Each page of a small file may have 4 Mi values that take no bytes, and pages may be reread for each row.
		fuzzTable(t, path, 1<<30, append([]byte("PAR1"), raw[min(4, len(raw)):]...)) // anything else is FuzzText's
	})
}

// FuzzText reads arbitrary bytes as JSON lines, a JSON array, CSV or TSV, chosen by the first byte.
func FuzzText(f *testing.F) {
	x := fuzzing.New(f)
	for i, text := range []string{
		"{\"source\": \"a\", \"edit\": {\"bytes\": \"YQ==\"}, \"instruction\": \"\", \"label\": 1e9}\n{}\n",
		"[{\"source\": null}, [], {\"edit\": {\"path\": {\"path\": 1}}}]",
		"source,edit,instruction\na,\"b\n\",c\n\"\"\"\",,\n",
		"source\tedit\tinstruction\na\t\"b\n\"\tc\n",
		"\xef\xbb\xbfsource,label\n\xff\xfe,1\na\"b,nan\n",
	} {
		x.Add(append([]byte{byte(i)}, text...))
	}
	paths := []string{fuzzing.File(f, "t.jsonl"), fuzzing.File(f, "t.csv"), fuzzing.File(f, "t.tsv")}
	x.Run(func(t testing.TB, raw []byte) {
		if len(raw) == 0 || len(raw) > 1<<14 {
			return // rows of a text are found one after the other: a longer one has nothing new
		}
		fuzzTable(t, paths[int(raw[0])%len(paths)], 64<<20, raw[1:])
	})
}

func fuzzTable(t testing.TB, path string, limit uint64, raw []byte) {
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	fuzzing.Bounded(t, limit+1024*uint64(len(raw)), func() {
		table, err := OpenTable(path, WithRequired())
		if err != nil {
			return
		}
		defer table.Close()
		if table.Len() > 1000 {
			return // a damaged count of rows
		}
		for rec, err := range table.Records() {
			if err != nil {
				continue
			}
			if _, err := rec.MarshalJSON(); err != nil {
				t.Errorf("%s: writing what was read: got error %v, want none", filepath.Base(path), err)
			}
			_, _ = table.Row(rec)
		}
	})
}
