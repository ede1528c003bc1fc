package data

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"image"
	"io"

	"golang.org/x/image/bmp"
)

func bmpConfig(raw []byte) (image.Config, error) {
	header, _, err := plainBMP(raw)
	if err != nil {
		return image.Config{}, err
	}
	return bmp.DecodeConfig(bytes.NewReader(header))
}

func decodeBMP(f encodedFile) (*Picture, error) {
	header, pixels, err := plainBMP(f.raw)
	if err != nil {
		return nil, err
	}
	if p := decodeBGR(header, pixels); p != nil {
		return p, nil
	}
	m, err := bmp.Decode(io.MultiReader(bytes.NewReader(header), encodedFile{f.ctx, pixels}.reader()))
	if err != nil {
		return nil, err
	}
	return flatten(m), nil
}

// decodeBGR decodes 24 bits per pixel, without the library's intermediate four bytes per pixel. It returns nil for
// other files, and if pixels are missing.
func decodeBGR(header, pixels []byte) *Picture {
	c, err := bmp.DecodeConfig(bytes.NewReader(header))
	if err != nil || binary.LittleEndian.Uint16(header[28:]) != 24 {
		return nil
	}
	stride := (3*c.Width + 3) &^ 3
	if len(pixels)/stride < c.Height {
		return nil
	}
	p := NewPicture(c.Width, c.Height)
	up := int32(binary.LittleEndian.Uint32(header[22:])) > 0
	for y := range c.Height {
		row, src := p.row(y), pixels[y*stride:]
		if up {
			src = pixels[(c.Height-1-y)*stride:]
		}
		src = src[:len(row)]
		for i := 0; i+2 < len(row) && i+2 < len(src); i += 3 {
			row[i], row[i+1], row[i+2] = src[i+2], src[i+1], src[i]
		}
	}
	return p
}

// plainBMP rewrites everything before the pixels: the library expects a 40-byte header, a complete palette, and the
// pixels directly after it. Files whose pixels have alpha get a 108-byte header, which tells the library so. Pillow
// decides by the bit masks only, not by the header's length.
func plainBMP(raw []byte) (header, pixels []byte, err error) {
	const fileHeader, coreHeader, infoHeader, alphaHeader = 14, 12, 40, 108
	if len(raw) < fileHeader+4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	offset, size := uint64(binary.LittleEndian.Uint32(raw[10:])), uint64(binary.LittleEndian.Uint32(raw[14:]))
	if size > uint64(len(raw)-fileHeader) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	info, rest := raw[fileHeader:fileHeader+size], raw[fileHeader+size:]
	header = make([]byte, fileHeader+infoHeader)
	copy(header, raw[:fileHeader])
	h := header[fileHeader:]
	entry := 4
	switch size {
	case coreHeader:
		entry = 3
		copy(h[4:6], info[4:]) // width, height, planes, bits
		copy(h[8:10], info[6:])
		copy(h[12:16], info[8:])
	case infoHeader, 52, 56, 64, alphaHeader, 124:
		copy(h, info)
	default:
		return nil, nil, errors.New("unknown header length")
	}
	binary.LittleEndian.PutUint32(h, infoHeader)
	binary.LittleEndian.PutUint16(h[12:], 1) // planes, which Pillow ignores
	bits := int(binary.LittleEndian.Uint16(h[14:]))
	alpha, rest, err := bmpCompression(h, info, rest, bits)
	if err != nil {
		return nil, nil, err
	}
	clear(h[16:])
	if alpha {
		h = append(h, make([]byte, alphaHeader-infoHeader)...)
		binary.LittleEndian.PutUint32(h, alphaHeader)
		header = append(header[:fileHeader], h...)
	}
	if bits <= 8 {
		colours := uint64(0)
		if size >= infoHeader {
			colours = uint64(binary.LittleEndian.Uint32(info[32:]))
		}
		colours = cmp.Or(colours, 1<<bits)
		if offset == fileHeader+size {
			offset += uint64(entry) * colours
		}
		n := uint64(entry) * colours
		if n > uint64(len(rest)) {
			return nil, nil, io.ErrUnexpectedEOF
		}
		palette, err := bmpPalette(rest[:n], entry, bits)
		if err != nil {
			return nil, nil, err
		}
		header, rest = append(header, palette...), rest[n:]
	}
	if offset == 0 {
		offset = uint64(len(raw) - len(rest))
	}
	if offset > uint64(len(raw)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	binary.LittleEndian.PutUint32(header[10:], uint32(len(header)))
	return header, raw[offset:], nil
}

// bmpCompression checks the compression in header h, and the bit masks, which are part of longer headers or follow
// the header. It returns the bytes after them.
func bmpCompression(h, info, rest []byte, bits int) (alpha bool, behind []byte, err error) {
	const none, rle8, rle4, bitFields = 0, 1, 2, 3
	if bits == 16 {
		return false, nil, notRead{"BMP", "16 bits per pixel"}
	}
	switch binary.LittleEndian.Uint32(h[16:]) {
	case none:
		return false, rest, nil
	case rle8, rle4:
		return false, nil, notRead{"BMP", "run-length encoding"}
	case bitFields:
		var masks [16]byte
		switch n := len(info); {
		case n >= 56:
			copy(masks[:], info[40:])
		case n >= 52:
			copy(masks[:12], info[40:])
		case len(rest) < 12:
			return false, nil, io.ErrUnexpectedEOF
		default:
			copy(masks[:12], rest)
			rest = rest[12:]
		}
		const rgb, a = "\x00\x00\xff\x00\x00\xff\x00\x00\xff\x00\x00\x00", "\x00\x00\x00\xff"
		switch m := string(masks[:]); {
		case bits == 24 && m[:12] == rgb, bits == 32 && m == rgb+"\x00\x00\x00\x00":
			return false, rest, nil
		case bits == 32 && (m == rgb+a || m == string(make([]byte, 16))):
			return true, rest, nil
		}
		return false, nil, notRead{"BMP", "bit masks other than BGR and BGRA"}
	}
	return false, nil, errors.New("unknown compression")
}

// bmpPalette builds a palette of all 1<<bits colours, four bytes each. Entries that the file lacks are black. If all
// entries are grey and in order, Pillow takes the indices for the picture, 1-bit if there are two entries and 8-bit
// if there are more, whatever the header says.
func bmpPalette(raw []byte, entry, bits int) ([]byte, error) {
	colours := len(raw) / entry
	grey := true
	for i := range colours {
		v := byte(i)
		if colours == 2 {
			v = byte(255 * i)
		}
		e := raw[i*entry:]
		grey = grey && e[0] == v && e[1] == v && e[2] == v
	}
	if grey && (colours < 2 || colours == 2 && bits != 1 || colours > 2 && bits != 8) {
		return nil, notRead{"BMP", "a grey palette of fewer colours than its bits, which Pillow misreads,"}
	}
	out := make([]byte, 4<<bits)
	for i := range 1 << bits {
		switch {
		case i < colours:
			copy(out[4*i:4*i+3], raw[i*entry:])
		case grey:
			out[4*i], out[4*i+1], out[4*i+2] = byte(i), byte(i), byte(i)
		}
	}
	return out, nil
}
