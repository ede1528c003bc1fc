package data

import (
	"encoding/binary"
	"image"
	"image/gif"

	"assay/internal/lzw"
)

// decodeGIF decodes the first frame. If it is smaller than the picture, the rest is transparent (here white) if the
// frame has a transparent colour, else the first colour of its palette, as in Pillow.
func decodeGIF(f encodedFile) (*Picture, error) {
	if p := decodePlainGIF(f.raw); p != nil && f.ctx.Err() == nil {
		return p, nil
	}
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

// decodePlainGIF decodes a first frame that covers the picture and has no transparent colour, at twice the speed of
// image/gif. It returns nil for any other file, or for a damaged one.
func decodePlainGIF(raw []byte) *Picture {
	const header, colourTable, interlaced = 13, 1 << 7, 1 << 6
	if len(raw) < header {
		return nil
	}
	width, height := int(binary.LittleEndian.Uint16(raw[6:])), int(binary.LittleEndian.Uint16(raw[8:]))
	var palette []byte
	b := raw[header:]
	takePalette := func(flags byte) bool {
		if flags&colourTable == 0 {
			return true
		}
		n := 3 << (flags&7 + 1)
		if len(b) < n {
			return false
		}
		palette, b = b[:n], b[n:]
		return true
	}
	if !takePalette(raw[10]) {
		return nil
	}
	if b = skipExtensions(b); len(b) < 11 || b[0] != 0x2c || binary.LittleEndian.Uint32(b[1:]) != 0 ||
		int(binary.LittleEndian.Uint16(b[5:])) != width || int(binary.LittleEndian.Uint16(b[7:])) != height {
		return nil
	}
	flags := b[9]
	b = b[10:]
	if !takePalette(flags) || len(palette) == 0 || len(b) < 2 || b[0] < 2 || b[0] > 8 {
		return nil
	}
	packed, _ := gifBlocks(b[1:])
	indices := make([]byte, width*height)
	if !new(lzw.Table).Unpack(indices, packed, uint(b[0]), false) {
		return nil
	}
	table := paletteOf(palette)
	for i := len(palette) / 3; i < 256; i++ {
		table[i] = 1 << 24 // no colour
	}
	return gifPicture(width, height, indices, table, flags&interlaced != 0)
}

// gifPicture converts indices into a palette to a picture; nil if an index has no colour.
func gifPicture(width, height int, indices []byte, table *[256]uint32, interlaced bool) *Picture {
	passes := [][2]int{{0, 1}} // the first row, and the step to the next
	if interlaced {
		passes = [][2]int{{0, 8}, {4, 8}, {2, 4}, {1, 2}}
	}
	p := NewPicture(width, height)
	for _, pass := range passes {
		for y := pass[0]; y < height; y += pass[1] {
			if !paletteRow(p.row(y), indices[:width], table) {
				return nil
			}
			indices = indices[width:]
		}
	}
	return p
}

// skipExtensions skips the extensions at the start of b and returns the rest; nil if one of them changes how the
// picture is shown, or is cut off.
func skipExtensions(b []byte) []byte {
	const extension, graphicControl, comment, application, transparent = 0x21, 0xf9, 0xfe, 0xff, 1
	for len(b) > 7 && b[0] == extension {
		switch {
		case b[1] == graphicControl && b[2] == 4 && b[3]&transparent == 0 && b[7] == 0:
		case b[1] == comment, b[1] == application && b[2] > 0:
		default:
			return nil
		}
		if _, b = gifBlocks(b[2:]); b == nil {
			return nil
		}
	}
	return b
}

// paletteOf converts an RGB palette to the table that paletteRow takes.
func paletteOf(rgb []byte) *[256]uint32 {
	table := new([256]uint32)
	for i := range len(rgb) / 3 {
		c := rgb[3*i:]
		table[i] = uint32(c[0]) | uint32(c[1])<<8 | uint32(c[2])<<16
	}
	return table
}

// gifBlocks joins sub-blocks up to the empty one, and returns the bytes after it; nil if it is missing.
func gifBlocks(b []byte) (data, rest []byte) {
	for len(b) > 0 && int(b[0]) < len(b) {
		n := int(b[0])
		if n == 0 {
			return data, b[1:]
		}
		data, b = append(data, b[1:1+n]...), b[1+n:]
	}
	return nil, nil
}
