package data

import (
	"bytes"
	"context"
	"image"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zlib"
	"golang.org/x/image/tiff"

	"assay/internal/codecs"
	"assay/internal/lzw"
)

// TIFF tags, and the values that are checked.
const (
	tiffWidth        = 256
	tiffHeight       = 257
	tiffBits         = 258
	tiffCompression  = 259
	tiffPhotometric  = 262
	tiffFillOrder    = 266
	tiffStrips       = 273
	tiffSamples      = 277
	tiffRows         = 278
	tiffStripLengths = 279
	tiffPlanes       = 284
	tiffPredictor    = 317
	tiffTileWidth    = 322
	tiffTileHeight   = 323
	tiffTiles        = 324
	tiffTileLengths  = 325
	tiffExtra        = 338
	tiffFormat       = 339
	tiffXMP          = 700

	whiteIsZero, blackIsZero, photometricRGB, photometricPalette = 0, 1, 2, 3

	noCompression, fax3, fax4, tiffLZW, deflate, packBits, oldDeflate = 1, 3, 4, 5, 8, 32773, 32946
)

// tiffAsked are the tags whose values are read.
var tiffAsked = []uint16{
	tiffWidth, tiffHeight, tiffBits, tiffCompression, tiffPhotometric, tiffFillOrder, tiffStrips, tiffSamples, tiffRows,
	tiffStripLengths, tiffPlanes, tiffPredictor, tiffTileWidth, tiffTileHeight, tiffTiles, tiffTileLengths, tiffExtra,
	tiffFormat,
}

// tiffConfig refuses files that the library cannot read or decodes differently from Pillow.
func tiffConfig(raw []byte) (image.Config, error) {
	if dir, ok := readDirectory(raw); ok {
		if with := tiffUnread(dir); with != "" {
			return image.Config{}, notRead{"TIFF", with}
		}
	}
	return tiff.DecodeConfig(bytes.NewReader(raw))
}

// tiffUnread names the feature of a file that is not supported, "" if there is none.
func tiffUnread(dir tiffDirectory) string {
	bits := dir[tiffBits].numbers()
	if len(bits) == 0 {
		bits = []float64{1}
	}
	compression, photometric := dir.number(tiffCompression, noCompression), dir.number(tiffPhotometric, whiteIsZero)
	fax := compression == fax3 || compression == fax4
	packed := compression == tiffLZW || compression == deflate || compression == oldDeflate
	if !fax && !packed && !slices.Contains([]float64{noCompression, packBits}, compression) {
		return "compression other than Group 3 and 4, LZW, Deflate and PackBits"
	}
	if why := dir.samplesUnread(photometric, bits); why != "" {
		return why
	}
	switch predictor := dir.number(tiffPredictor, 1); {
	case dir.number(tiffFillOrder, 1) != 1 && !fax:
		return "reversed bits (FillOrder 2)"
	case dir.number(tiffPlanes, 1) != 1:
		return "planar channels (PlanarConfiguration 2)"
	case predictor != 1 && (predictor != 2 || !packed || bits[0] == 1):
		return "a predictor other than horizontal differencing in LZW and Deflate"
	case bits[0] == 16 && photometric == whiteIsZero:
		return "16-bit grey whose zero is white"
	case len(dir[tiffStripLengths].data)+len(dir[tiffTileLengths].data) == 0:
		return "strips of unknown length (no StripByteCounts)"
	case moreBlocks(dir):
		return "more strips or tiles than the picture has room for"
	}
	return ""
}

// samplesUnread names the property of the samples that is not supported, "" if there is none. bits has the bits of
// each channel.
func (dir tiffDirectory) samplesUnread(photometric float64, bits []float64) string {
	switch {
	case photometric > photometricPalette:
		return "CMYK, YCbCr or Lab colours"
	case slices.ContainsFunc(dir[tiffFormat].numbers(), func(v float64) bool { return v != 1 }):
		return "signed or floating-point samples"
	case slices.ContainsFunc(bits, func(b float64) bool { return b != bits[0] || b != 1 && b != 8 && b != 16 }):
		return "samples that are not 1, 8 or 16 bits"
	case !dir.channelsRead(photometric, len(bits)):
		return "channels other than grey, palette, RGB and RGB with alpha (ExtraSamples 1 or 2)"
	case dir.number(tiffSamples, 1) != float64(len(bits)):
		return "different channel counts in BitsPerSample and SamplesPerPixel"
	}
	return ""
}

// channelsRead reports whether that number of channels is grey, palette, RGB, or RGB with alpha.
func (dir tiffDirectory) channelsRead(photometric float64, channels int) bool {
	if photometric != photometricRGB {
		return channels == 1
	}
	extra := dir[tiffExtra].numbers()
	return channels == 3 || channels == 4 && len(extra) == 1 && (extra[0] == 1 || extra[0] == 2)
}

// moreBlocks reports whether there are more strips or tiles than the picture has room for. Pillow starts again at the
// top with those.
func moreBlocks(dir tiffDirectory) bool {
	width, height := dir.number(tiffWidth, 0), dir.number(tiffHeight, 0)
	blocks, across, down := dir[tiffStrips], width, dir.number(tiffRows, height)
	if e, tiled := dir[tiffTiles]; tiled {
		blocks, across, down = e, dir.number(tiffTileWidth, width), dir.number(tiffTileHeight, height)
	}
	return float64(blocks.count()) > math.Ceil(width/across)*math.Ceil(height/down)
}

// decodeTIFF decodes the first page: plain RGB itself, at twice the speed of the library, everything else with the
// library.
func decodeTIFF(f encodedFile) (*Picture, error) {
	if p, err := decodePlainTIFF(f); p != nil || err != nil {
		return p, err
	}
	m, err := tiff.Decode(f.reader())
	if err != nil {
		return nil, err
	}
	p, err := flattened(m, "TIFF")
	if err != nil {
		return nil, err
	}
	// Fax compression stores white as 0, and PhotometricInterpretation says what 0 means; the library always decodes
	// it as white.
	dir, _ := readDirectory(f.raw)
	fax := slices.Contains([]float64{fax3, fax4}, dir.number(tiffCompression, noCompression))
	if fax && dir.number(tiffPhotometric, whiteIsZero) == blackIsZero {
		for i, v := range p.Pix {
			p.Pix[i] = 255 - v
		}
	}
	return p, nil
}

// decodePlainTIFF decodes 8-bit RGB in strips. It returns no picture for any other file, or for a damaged one; an
// error only if the context is done.
func decodePlainTIFF(f encodedFile) (*Picture, error) {
	dir, ok := wholeDirectory(f.raw)
	bits := dir[tiffBits].numbers()
	_, tiled := dir[tiffTiles]
	if !ok || tiled || dir.number(tiffPhotometric, 0) != photometricRGB || len(bits) != 3 || bits[0] != 8 ||
		dir.number(tiffFillOrder, 1) != 1 {
		return nil, nil
	}
	width, height := int(dir.number(tiffWidth, 0)), int(dir.number(tiffHeight, 0))
	rows := int(min(dir.number(tiffRows, float64(height)), float64(height)))
	c, err := tiff.DecodeConfig(bytes.NewReader(f.raw)) // the size that was checked
	if err != nil || c.Width != width || c.Height != height || rows < 1 {
		return nil, nil
	}
	offsets, lengths := dir[tiffStrips].places(), dir[tiffStripLengths].places()
	if n := (height + rows - 1) / rows; len(offsets) != n || len(lengths) != n {
		return nil, nil
	}
	p := NewPicture(width, height)
	var table lzw.Table
	for i, offset := range offsets {
		if f.ctx.Err() != nil {
			return nil, errStopped
		}
		if offset > uint64(len(f.raw)) || lengths[i] > uint64(len(f.raw))-offset {
			return nil, nil
		}
		strip := p.Pix[3*width*rows*i : min(3*width*rows*(i+1), len(p.Pix))]
		packed := f.raw[offset : offset+lengths[i]]
		if !unpackStrip(f.ctx, strip, packed, dir.number(tiffCompression, noCompression), &table) {
			return nil, nil
		}
		if dir.number(tiffPredictor, 1) == 2 {
			for ; len(strip) > 0; strip = strip[3*width:] {
				unfilter(1, strip[:3*width], strip[:3*width], 3)
			}
		}
	}
	return p, nil
}

// unpackStrip decompresses a strip into dst, and reports whether it fills dst exactly.
func unpackStrip(ctx context.Context, dst, packed []byte, compression float64, table *lzw.Table) bool {
	switch compression {
	case noCompression:
		return copy(dst, packed) == len(dst) && len(packed) == len(dst)
	case tiffLZW:
		return table.Unpack(dst, packed, 8, true)
	case deflate, oldDeflate:
		if inflatesWhole(len(packed), len(dst)) {
			return codecs.Inflate(ctx, packed, dst) == nil
		}
		r, err := zlib.NewReader(bytes.NewReader(packed))
		if err != nil {
			return false
		}
		if _, err := io.ReadFull(r, dst); err != nil {
			return false
		}
		n, err := r.Read(make([]byte, 1))
		return n == 0 && err == io.EOF // reaching the end verifies the checksum
	}
	return false
}
