package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/gif"
	"image/png"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

func decodePNG(f encodedFile) (*Picture, error) {
	raw := f.raw
	const depth, colours = 24, 25 // places in the header, which is the first chunk
	if len(raw) > colours && raw[colours] == 0 {
		if key := chunk(raw, "tRNS"); key > 0 {
			if raw[depth] == 16 {
				return nil, errors.New("16-bit grey with a transparent value: save it with 8 bits a channel")
			}
			// Pillow compares the key with grey that it has scaled to 8 bits: below 8 bits a key other than 0 is
			// never met
			if v := binary.BigEndian.Uint16(raw[key+8:]); raw[depth] < 8 && v != 0 {
				raw = bytes.Clone(raw)
				copy(raw[key+4:], "noNe") // a chunk that decoders skip
				end := key + 8 + int(binary.BigEndian.Uint32(raw[key:]))
				binary.BigEndian.PutUint32(raw[end:], crc32.ChecksumIEEE(raw[key+4:end]))
			}
		}
	}
	m, err := png.Decode(encodedFile{f.ctx, raw}.reader())
	if err != nil {
		return nil, err
	}
	return flattened(m)
}

// chunk returns where the first chunk of that kind lies before a PNG's pixels, 0 if there is none of at least 2 bytes.
func chunk(raw []byte, kind string) int {
	for at := 8; at+12 <= len(raw); {
		n := uint64(binary.BigEndian.Uint32(raw[at:]))
		name := string(raw[at+4 : at+8])
		if n+12 > uint64(len(raw)-at) || name == "IDAT" {
			break
		}
		if name == kind && n >= 2 {
			return at
		}
		at += int(n) + 12
	}
	return 0
}

func decodeBMP(f encodedFile) (*Picture, error) {
	m, err := bmp.Decode(f.reader())
	if err != nil {
		return nil, err
	}
	return flattened(m)
}

// decodeTIFF decodes the first page.
func decodeTIFF(f encodedFile) (*Picture, error) {
	m, err := tiff.Decode(f.reader())
	if err != nil {
		return nil, err
	}
	p, err := flattened(m)
	if err != nil {
		return nil, err
	}
	// Fax compression makes zeros of white, whose meaning is then that of zeros; the library makes white of it always.
	compression, _ := tiffTag(f.raw, 259)
	const blackIsZero = 1
	if meaning, _ := tiffTag(f.raw, 262); (compression == 3 || compression == 4) && meaning == blackIsZero {
		for i, v := range p.Pix {
			p.Pix[i] = 255 - v
		}
	}
	return p, nil
}

// flattened is flatten, but refuses 16-bit grey beyond what Pillow's conversion to RGB keeps.
func flattened(m image.Image) (*Picture, error) {
	grey, ok := m.(*image.Gray16)
	if !ok {
		return flatten(m), nil
	}
	for i := 0; i+1 < len(grey.Pix); i += 2 {
		if high := grey.Pix[i]; high > 0 {
			return nil, fmt.Errorf(
				"16-bit grey of up to %d and more, which Pillow would clip to 255: save it with 8 bits a channel",
				int(high)<<8|int(grey.Pix[i+1]),
			)
		}
	}
	return flatten(grey), nil
}

// decodeGIF decodes the first frame. It may be smaller than the picture: the rest is transparent (here white) if the
// frame has a transparent colour, else the first colour of its palette, as in Pillow.
func decodeGIF(f encodedFile) (*Picture, error) {
	c, err := gif.DecodeConfig(f.reader())
	if err != nil {
		return nil, err
	}
	m, err := gif.Decode(f.reader())
	if err != nil {
		return nil, err
	}
	frame := m.(*image.Paletted)
	if frame.Rect == image.Rect(0, 0, c.Width, c.Height) {
		return flatten(frame), nil
	}
	rest, clear := overWhite(frame.Palette[0]), false
	for _, entry := range frame.Palette {
		if _, _, _, a := entry.RGBA(); a == 0 {
			rest, clear = [3]byte{255, 255, 255}, true
		}
	}
	out := NewPicture(c.Width, c.Height)
	for i := 0; i < len(out.Pix); i += 3 {
		copy(out.Pix[i:i+3], rest[:])
	}
	inside := flatten(frame)
	out.paste(inside, frame.Rect.Min.X, frame.Rect.Min.Y)
	out.bareLost = inside.bareLost || clear
	return out, nil
}

// paste copies q into p with its top left corner at (left, top); what does not fit is cut off.
func (p *Picture) paste(q *Picture, left, top int) {
	for y := range min(q.Height, p.Height-top) {
		copy(p.row(top + y)[3*min(left, p.Width):], q.row(y))
	}
}
