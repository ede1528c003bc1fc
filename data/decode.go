package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/png"
	"io"
	"os"

	"golang.org/x/image/webp"

	"assay/internal/remote"
)

// Limits bounds the memory that an untrusted picture may take. Zero values mean the defaults.
type Limits struct {
	MaxPixels int64 // width x height from the header; default 64 Mi
	MaxBytes  int64 // of the file; default 256 MiB
}

func (l Limits) pixels() int64 {
	if l.MaxPixels > 0 {
		return l.MaxPixels
	}
	return 64 << 20
}

func (l Limits) bytes() int64 {
	if l.MaxBytes > 0 {
		return l.MaxBytes
	}
	return 256 << 20
}

// ErrLimit is wrapped by errors about pictures that exceed the limits.
var ErrLimit = errors.New("picture too large")

// Open decodes the picture file at path; see Decode. Files larger than MaxBytes are refused without being read in
// full.
func Open(path string, l Limits) (*Picture, error) {
	raw, err := readLimited(path, l.bytes())
	if err != nil {
		return nil, err
	}
	p, err := Decode(raw, l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func readLimited(path string, limit int64) ([]byte, error) {
	if remote.Is(path) {
		raw, err := remote.ReadAll(context.Background(), path, limit)
		if errors.Is(err, remote.ErrTooLarge) {
			err = fmt.Errorf("%s: %w: more than %d bytes", path, ErrLimit, limit)
		}
		return raw, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s, err := f.Stat(); err == nil && s.IsDir() {
		return nil, fmt.Errorf("%s: a folder, want a picture file", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, limit+1)) // Stat may report the size of a pipe, or the file may grow
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s: %w: more than %d bytes", path, ErrLimit, limit)
	}
	return raw, err
}

// encodedFile is a picture file in memory; its readers fail once the context is done.
type encodedFile struct {
	ctx context.Context
	raw []byte
}

func (f encodedFile) reader() *reader { return &reader{f.ctx, bytes.NewReader(f.raw)} }

// A reader returns few bytes at a time, so that decoding a small but expensive file can also be cancelled.
type reader struct {
	ctx context.Context
	raw *bytes.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.raw.Read(b[:min(len(b), 1<<10)])
}

// ReadAt implements io.ReaderAt, which the TIFF decoder uses.
func (r *reader) ReadAt(b []byte, at int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.raw.ReadAt(b, at)
}

// A codec is a picture format: its magic bytes and its decoder.
type codec struct {
	name   string
	magic  string // ? matches any byte
	config func(raw []byte) (image.Config, error)
	decode func(encodedFile) (*Picture, error)
	// metadata returns the file's EXIF block and XMP packet, nil if absent.
	metadata func(raw []byte) (exif, xmp []byte)
}

var formats = []codec{
	{"PNG", "\x89PNG\r\n\x1a\n", fromBytes(png.DecodeConfig), decodePNG, pngMetadata},
	{"JPEG", "\xff\xd8\xff", jpegConfig, decodeJPEG, jpegMetadata},
	{"WebP", "RIFF????WEBP", fromBytes(webp.DecodeConfig), decodeWebP, webpMetadata},
	{"GIF", "GIF8?a", fromBytes(gif.DecodeConfig), decodeGIF, nil},
	{"BMP", "BM", bmpConfig, decodeBMP, nil},
	{"TIFF", "II*\x00", tiffConfig, decodeTIFF, tiffMetadata},
	{"TIFF", "MM\x00*", tiffConfig, decodeTIFF, tiffMetadata},
}

// fromBytes adapts a library's DecodeConfig to a byte slice.
func fromBytes(decode func(io.Reader) (image.Config, error)) func(raw []byte) (image.Config, error) {
	return func(raw []byte) (image.Config, error) { return decode(bytes.NewReader(raw)) }
}

// Decode decodes a PNG, JPEG, WebP, GIF (the first frame), BMP or TIFF picture as Pillow and transformers'
// convert_to_rgb do. It turns the picture upright by its EXIF orientation, expands palettes and grey, and composites
// transparency over white. It ignores colour profiles, as they do.
//
//   - 16-bit channels lose their low byte. 16-bit grey, which Pillow's conversion to RGB clips to 255 and so turns
//     white, is refused unless no value is above 255.
//   - PNG, GIF, BMP, TIFF and WebP, lossy or not, decode to Pillow's exact bytes, and so does JPEG with
//     libjpeg-turbo. Without libjpeg-turbo (see JPEGDecoder), JPEG differs by the rounding of the inverse DCT.
//   - AVIF, HEIC and JPEG 2000 are refused with an error that names the format, and so are files that would decode
//     differently from Pillow or not at all; docs/pictures.md lists them.
//   - The size is read from the header and checked before anything is decoded; truncated or damaged data is an error.
func Decode(raw []byte, l Limits) (*Picture, error) {
	return DecodeContext(context.Background(), raw, l)
}

// DecodeContext is Decode, but stops when ctx is done, within about a KiB or a few rows of the file, and returns the
// context's cause. (A WebP file is decoded in sixteenths, or in one go by Go's package; a strip of a TIFF file and a
// GIF file are decoded in one go: tenths of a second for 10 megapixels.) Time and memory grow with the number of
// pixels, which Size reports without decoding.
func DecodeContext(ctx context.Context, raw []byte, l Limits) (p *Picture, err error) {
	f, err := detectFormat(raw)
	if err != nil {
		return nil, err
	}
	defer func() { // the bytes are untrusted: turn a panic in a decoder into an error of this picture
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("damaged %s: %v", f.name, r)
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, _, err := Size(raw, l); err != nil {
		return nil, err
	}
	p, err = f.decode(encodedFile{ctx, raw})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, damaged(f, err)
	}
	if f.metadata != nil {
		p = p.upright(orientation(f.metadata(raw)))
	}
	return p, nil
}

func detectFormat(raw []byte) (codec, error) {
next:
	for _, f := range formats {
		if len(raw) < len(f.magic) {
			continue
		}
		for i := range len(f.magic) {
			if f.magic[i] != '?' && f.magic[i] != raw[i] {
				continue next
			}
		}
		return f, nil
	}
	if len(raw) == 0 {
		return codec{}, errors.New("empty file, want a picture")
	}
	return codec{}, notReadFormat(raw)
}

func damaged(f codec, err error) error {
	if errors.As(err, new(notRead)) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated %s, its data ends too early: %w", f.name, err)
	}
	return fmt.Errorf("damaged or unsupported %s: %w", f.name, err)
}
