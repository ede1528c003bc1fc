package data

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
)

// keyed makes one colour transparent as Pillow does: it compares the low bytes of the file's colour with the high
// bytes of each pixel, which is correct for samples that were originally 8 bits.
func keyed(m *image.RGBA64, key [3]byte) image.Image {
	for p := m.Pix; len(p) >= 8; p = p[8:] {
		if p[0] == key[0] && p[2] == key[1] && p[4] == key[2] {
			p[6], p[7] = 0, 0
		}
	}
	return &image.NRGBA64{Pix: m.Pix, Stride: m.Stride, Rect: m.Rect}
}

// withoutChunk returns a copy of a PNG with the chunk at an offset renamed to one that decoders skip.
func withoutChunk(raw []byte, at int) []byte {
	raw = bytes.Clone(raw)
	copy(raw[at+4:], "noNe")
	end := at + 8 + int(binary.BigEndian.Uint32(raw[at:]))
	binary.BigEndian.PutUint32(raw[end:], crc32.ChecksumIEEE(raw[at+4:end]))
	return raw
}

// chunk returns the offset of the first chunk of a kind before a PNG's pixels, 0 if there is none of at least 2
// bytes.
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

// flattened is flatten, but refuses 16-bit grey that Pillow's conversion to RGB would clip.
func flattened(m image.Image, format string) (*Picture, error) {
	if grey, ok := m.(*image.Gray16); ok {
		for i := 0; i < len(grey.Pix); i += 2 {
			if grey.Pix[i] > 0 {
				return nil, notRead{format, deepGrey}
			}
		}
	}
	return flatten(m), nil
}

// paste copies q into p with its top left corner at (left, top); what does not fit is cut off.
func (p *Picture) paste(q *Picture, left, top int) {
	for y := range min(q.Height, p.Height-top) {
		copy(p.row(top + y)[3*min(left, p.Width):], q.row(y))
	}
}
