package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"regexp"
	"slices"
)

// Colour types of PNG.
const (
	pngGrey    = 0
	pngRGB     = 2
	pngPalette = 3
	pngRGBA    = 6
)

// Offsets in a PNG file's header, which is its first chunk.
const (
	pngDepth     = 24
	pngColours   = 25
	pngInterlace = 28
	pngFirst     = 33 // the first chunk after the header
)

// decodePNG decodes common files itself, at twice the speed of image/png, and leaves all others to image/png, whose
// errors are then reported.
func decodePNG(f encodedFile) (*Picture, error) {
	if p, err := decodePlainPNG(f); p != nil || errors.Is(err, errStopped) {
		return p, err
	}
	raw := f.raw
	var key []byte // of 16-bit RGB
	if at := chunk(raw, "tRNS"); at > 0 && raw[pngDepth] != 8 {
		key = raw[at+8:]
		switch {
		case raw[pngColours] == pngGrey && raw[pngDepth] == 16:
			return nil, notRead{"PNG", "16-bit grey and a transparent value"}
		case raw[pngColours] == pngGrey:
			// Pillow compares its low byte with grey already scaled to 8 bits: of the values that the depth allows
			// only 0 can match, and white, which is composited over white anyway
			step := byte(255 / (1<<raw[pngDepth] - 1))
			if raw[pngDepth] == 1 && key[0]|key[1] != 0 || key[1]%step != 0 {
				raw = withoutChunk(raw, at)
			} else if key[1] != 0 {
				return nil, errors.New("a transparent value of more bits than the samples")
			}
		case raw[pngColours] == pngRGB:
			raw = withoutChunk(raw, at)
		}
	}
	m, err := png.Decode(encodedFile{f.ctx, raw}.reader())
	if err != nil {
		return nil, err
	}
	if deep, ok := m.(*image.RGBA64); ok && len(key) >= 6 {
		m = keyed(deep, [3]byte{key[1], key[3], key[5]})
	}
	return flattened(m, "PNG")
}

// errStopped is the error of a decoder whose context is done.
var errStopped = errors.New("stopped")

// decodePlainPNG decodes 8-bit RGB, RGBA and palettes, neither interlaced nor with a transparent colour. It returns
// no picture for any other file, or for a damaged one.
func decodePlainPNG(f encodedFile) (*Picture, error) {
	packed, palette := plainPNG(f.raw)
	if packed == nil {
		return nil, nil
	}
	width, height := int(binary.BigEndian.Uint32(f.raw[16:])), int(binary.BigEndian.Uint32(f.raw[20:]))
	pixel := map[byte]int{pngRGB: 3, pngPalette: 1, pngRGBA: 4}[f.raw[pngColours]]
	r, err := inflated(f.ctx, packed, (1+pixel*width)*height)
	if err != nil {
		return nil, err
	}
	p := NewPicture(width, height)
	switch f.raw[pngColours] {
	case pngRGB:
		err = pngRows(f.ctx, r, height, pixel, func(y int) []byte { return p.row(y) }, nil)
	case pngPalette:
		row, before := make([]byte, width), make([]byte, width)
		err = pngRows(f.ctx, r, height, pixel, func(int) []byte {
			row, before = before, row
			return row
		}, func(y int) { paletteRow(p.row(y), row, palette) })
	case pngRGBA:
		m := image.NewNRGBA(image.Rect(0, 0, width, height))
		row := func(y int) []byte { return m.Pix[y*m.Stride:][:m.Stride] }
		if err = pngRows(f.ctx, r, height, pixel, row, nil); err == nil {
			p = flatten(m)
		}
	}
	if err != nil {
		return nil, err
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF { // reaching the end verifies the checksum
		return nil, err
	}
	return p, nil
}

// plainPNG returns the compressed pixels of a file that decodePlainPNG decodes, and the palette if it has one.
func plainPNG(raw []byte) (packed []byte, palette *[256]uint32) {
	const signature = 8
	if len(raw) < pngFirst || raw[pngDepth] != 8 || !bytes.Equal(raw[pngDepth+2:pngFirst-4], []byte{0, 0, 0}) {
		return nil, nil
	}
	var order, colours []byte // order: a letter for each chunk
	var parts [][]byte
	for at := signature; at+12 <= len(raw) && !bytes.HasSuffix(order, []byte("E")); {
		name, body := pngChunk(raw[at:])
		kind := pngLetter(name, len(body))
		switch kind {
		case '?':
			return nil, nil
		case 'P':
			colours = body
		case 'D':
			parts = append(parts, body)
		}
		order = append(order, kind)
		at += len(body) + 12
	}
	want := pngChunks[raw[pngColours]]
	if want == nil || !want.Match(order) {
		return nil, nil
	}
	if len(colours) > 0 {
		palette = paletteOf(colours)
	}
	return bytes.Join(parts, nil), palette
}

// pngChunks are the chunk orders of common files, by colour type.
var pngChunks = map[byte]*regexp.Regexp{
	pngRGB:     regexp.MustCompile("^Ha*D+a*E$"),
	pngRGBA:    regexp.MustCompile("^Ha*D+a*E$"),
	pngPalette: regexp.MustCompile("^Ha*Pa*D+a*E$"),
}

// pngLetter is the letter of a chunk of n bytes in pngChunks; "?": common files do not have such a chunk.
func pngLetter(name string, n int) byte {
	switch {
	case name == "IHDR" && n == 13:
		return 'H'
	case name == "PLTE" && n%3 == 0 && n > 0 && n <= 768:
		return 'P'
	case name == "IDAT":
		return 'D'
	case name == "IEND" && n == 0:
		return 'E'
	case slices.Contains([]string{"", "IHDR", "PLTE", "IEND", "tRNS"}, name):
		return '?'
	}
	return 'a'
}

// pngChunk returns the chunk at the start of b, which has at least 12 bytes; "" if it is cut off or its checksum is
// wrong.
func pngChunk(b []byte) (name string, body []byte) {
	n := uint64(binary.BigEndian.Uint32(b))
	if n+12 > uint64(len(b)) || binary.BigEndian.Uint32(b[n+8:]) != crc32.ChecksumIEEE(b[4:n+8]) {
		return "", nil
	}
	return string(b[4:8]), b[8 : n+8]
}

// pngRows reads each row, with pixel bytes per pixel, into the slice that row returns, undoes its filter, and calls
// done.
func pngRows(ctx context.Context, r io.Reader, height, pixel int, row func(y int) []byte, done func(y int)) error {
	var kind [1]byte
	var before []byte
	for y := range height {
		if y%16 == 0 && ctx.Err() != nil {
			return errStopped
		}
		here := row(y)
		if before == nil {
			before = make([]byte, len(here))
		}
		if _, err := io.ReadFull(r, kind[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, here); err != nil {
			return err
		}
		if !unfilter(kind[0], here, before, pixel) {
			return errors.New("unknown filter")
		}
		if done != nil {
			done(y)
		}
		before = here
	}
	return nil
}

// unfilter undoes the filter of a row with pixel bytes per pixel; before is the previous row.
func unfilter(kind byte, row, before []byte, pixel int) bool {
	before = before[:len(row)]
	switch kind {
	case 0:
	case 1:
		for i := pixel; i < len(row); i++ {
			row[i] += row[i-pixel]
		}
	case 2:
		addBytes(row, before)
	case 3:
		for i := range pixel {
			row[i] += before[i] / 2
		}
		for i := pixel; i < len(row); i++ {
			row[i] += byte((int(row[i-pixel]) + int(before[i])) / 2)
		}
	case 4:
		unfilterPaeth(row, before, pixel)
	default:
		return false
	}
	return true
}

// addBytes adds b to a byte by byte, eight at a time.
func addBytes(a, b []byte) {
	const low = 0x7f7f7f7f7f7f7f7f
	for len(a) >= 8 && len(b) >= 8 {
		x, y := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)
		binary.LittleEndian.PutUint64(a, x&low+y&low^(x^y)&^low)
		a, b = a[8:], b[8:]
	}
	for i := range a {
		a[i] += b[i]
	}
}

// unfilterPaeth adds to each byte its prediction from the bytes to the left, above, and above left. For pixels of
// three or four bytes it handles three channels at a time, which do not depend on each other.
func unfilterPaeth(row, before []byte, pixel int) {
	if pixel < 3 {
		for at := range pixel {
			unfilterPaeth1(row, before, at, pixel)
		}
		return
	}
	var a, b, c, x, y, z int // left, and above left
	for i := 0; i+2 < len(row) && i+2 < len(before); i += pixel {
		d, e, f := int(before[i]), int(before[i+1]), int(before[i+2])
		a, b, c = int(row[i]+paeth(a, d, x)), int(row[i+1]+paeth(b, e, y)), int(row[i+2]+paeth(c, f, z))
		row[i], row[i+1], row[i+2] = byte(a), byte(b), byte(c)
		x, y, z = d, e, f
	}
	if pixel == 4 {
		unfilterPaeth1(row, before, 3, pixel)
	}
}

// unfilterPaeth1 handles one byte of each pixel.
func unfilterPaeth1(row, before []byte, at, pixel int) {
	left, corner := 0, 0
	for i := at; i < len(row) && i < len(before); i += pixel {
		up := int(before[i])
		left = int(row[i] + paeth(left, up, corner))
		row[i], corner = byte(left), up
	}
}

// paeth returns whichever of left, up and corner is closest to left + up - corner. Its branches compile to
// conditional moves, since no CPU can predict them.
func paeth(left, up, corner int) byte {
	a, b := up-corner, left-corner
	c := a + b
	a, b, c = max(a, -a), max(b, -b), max(c, -c)
	out := corner
	if b <= c {
		out = up
	}
	if a <= min(b, c) {
		out = left
	}
	return byte(out)
}
