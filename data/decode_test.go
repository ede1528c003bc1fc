package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"assay/internal/packed"
	"assay/internal/testfile"
)

// pictures are files in every format and colour type (tools/oracle/data_decode.py).
const pictures = "testdata/decode.zip"

// unread are pictures that Pillow reads and we refuse, with a part of the error.
var unread = map[string]string{
	"jpeg.tif":        "compression other",
	"grey_alpha.tif":  "channels other",
	"cmyk.tif":        "CMYK",
	"grey_16.png":     "PNG pictures with 16-bit grey above 255, which Pillow clips to white, are not supported: convert",
	"grey_16_key.png": "16-bit grey and a transparent value",
	"grey_16.tif":     "16-bit grey above 255",
}

// A decodedPicture is Pillow's result for a file.
type decodedPicture struct {
	Size   []int
	SHA256 string
}

func TestDecodeIsPillows(t *testing.T) {
	var expect map[string]decodedPicture
	testfile.ReadJSON(t, "testdata/decode.json", &expect)
	dir := packed.Unpack(t, pictures)
	for _, decoder := range decoders {
		t.Run(decoder, func(t *testing.T) {
			withDecoders(t, decoder)
			for name, e := range expect {
				t.Run(name, func(t *testing.T) { isPillows(t, dir, name, e, decoder == "go") })
			}
		})
	}
}

// isPillows compares a picture with Pillow's; JPEG may differ by rounding.
func isPillows(t *testing.T, dir, name string, e decodedPicture, rounded bool) {
	p, err := Open(filepath.Join(dir, name), Limits{})
	if want, ok := unread[name]; ok {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.Width != e.Size[0] || p.Height != e.Size[1] {
		t.Fatalf("%d x %d, want %v", p.Width, p.Height, e.Size)
	}
	if rounded && filepath.Ext(name) == ".jpg" {
		closeToPillow(t, p, filepath.Join(dir, name+".png"))
	} else if sum(p) != e.SHA256 {
		t.Errorf("got pixels of digest %s, want Pillow's %s", sum(p), e.SHA256)
	}
}

// closeToPillow allows for the rounding of the inverse DCT: single levels before the colour conversion.
func closeToPillow(t *testing.T, p *Picture, reference string) {
	t.Helper()
	want, err := Open(reference, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	mean, most := difference(p, want)
	t.Logf("mean %.4f, most %d", mean, most)
	if !(mean <= 0.1) || most > 3 {
		t.Errorf("got %.4f levels away from Pillow's picture, %d at most, want 0.1 and 3", mean, most)
	}
}

func difference(p, q *Picture) (mean float64, most int) {
	total := 0
	for i, v := range p.Pix {
		d := max(int(v), int(q.Pix[i])) - min(int(v), int(q.Pix[i]))
		total += d
		most = max(most, d)
	}
	return float64(total) / float64(len(p.Pix)), most
}

// header is a PNG whose header says width x height pixels, without any pixel data.
func header(width, height uint32) []byte {
	body := append([]byte("IHDR"), make([]byte, 13)...)
	binary.BigEndian.PutUint32(body[4:], width)
	binary.BigEndian.PutUint32(body[8:], height)
	body[12], body[13] = 8, 2
	raw := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), body...)
	return binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(body))
}

func TestLimits(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode(header(20000, 20000), Limits{})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "20000 x 20000") {
		t.Errorf("20000 x 20000 pixels: got error %v, want %v with the size", err, ErrLimit)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("refusing: got %d bytes allocated, want at most %d", used, 1<<20)
	}
	if _, err := Decode(header(1<<24, 1<<24), Limits{}); !errors.Is(err, ErrLimit) {
		t.Errorf("2^24 x 2^24 pixels: got error %v, want %v", err, ErrLimit)
	}
	animated := picture(t, "animated.webp")
	canvas := bytes.Index(animated, []byte("VP8X")) + 12
	animated[canvas], animated[canvas+3] = 1, 1 // two by two pixels, and larger frames
	if _, err := Decode(animated, Limits{MaxPixels: 4}); err == nil ||
		!strings.Contains(err.Error(), "larger than the picture") {
		t.Errorf("a frame larger than its animation: got error %v, want one with %q", err, "larger than the picture")
	}
	photo := "../testdata/oracle/images/coffee.png"
	if _, err := Open(photo, Limits{MaxBytes: 1000}); !errors.Is(err, ErrLimit) ||
		!strings.Contains(err.Error(), photo) {
		t.Errorf("a long file: got error %v, want %v with %q", err, ErrLimit, photo)
	}
	if _, err := Open(photo, Limits{MaxPixels: 100}); !errors.Is(err, ErrLimit) ||
		!strings.Contains(err.Error(), photo) {
		t.Errorf("a large picture: got error %v, want %v with %q", err, ErrLimit, photo)
	}
}

func TestDamage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(packed.Unpack(t, pictures), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("pictures: got %v, %v, want some", files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if name := filepath.Base(path); name == "animated.webp" || name == "frames.gif" || name == "pages.tif" {
				return // half of it holds the first frame or page
			}
			if _, err := Decode(raw[:len(raw)/2], Limits{}); err == nil {
				t.Errorf("%s: half the file: got error %v, want one", path, err)
			}
		})
	}
	t.Run("behind the pixels", func(t *testing.T) { // where the EXIF orientation is
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(files[0]), "exif.webp"))
		if err != nil {
			t.Fatal(err)
		}
		short := bytes.Clone(raw[:len(raw)-2])
		binary.LittleEndian.PutUint32(short[4:], uint32(len(short)-8))
		for _, cut := range [][]byte{raw[:len(raw)-2], short} {
			if _, err := Decode(cut, Limits{}); err == nil || !strings.Contains(err.Error(), "truncated WebP") {
				t.Errorf("two of %d bytes are missing: got error %v, want %q", len(raw), err, "truncated WebP")
			}
		}
		if _, err := Decode(append(bytes.Clone(raw), "more"...), Limits{}); err != nil {
			t.Errorf("more bytes than the file says: got error %v, want none", err)
		}
	})
	for _, c := range []struct{ raw, want string }{
		{"", "empty file"}, {"hello, world", "not a PNG, JPEG"}, {"\xff\xd8\xff\xe0", "truncated JPEG"},
		{"RIFF\x04\x00\x00\x00WEBP", "WebP"}, {"\x00\x00\x00\x1cftypavif\x00\x00", "AVIF pictures are not supported"},
		{"\x00\x00\x00\x0cjP  \r\n\x87\n", "JPEG 2000"}, {"\xff\x4f\xff\x51\x00", "JPEG 2000"},
		{"\x00\x00\x00\x1cftypheic\x00\x00", "HEIC"}, {"II*\x00\xff\xff\xff\x7f", "TIFF"}, {string(header(0, 5)), "PNG"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if _, err := Decode([]byte(c.raw), Limits{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q in it", c.raw, err, c.want)
			}
		})
	}
	if _, err := Open(t.TempDir(), Limits{}); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder: got error %v, want one with %q", err, "folder")
	}
	if _, err := Open("testdata/none.png", Limits{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: got error %v, want %v", err, os.ErrNotExist)
	}
}
