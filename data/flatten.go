package data

import (
	"encoding/binary"
	"image"
	"image/color"
	"sync/atomic"
)

// flatten converts a decoded picture to RGB, composited over white. It reads each pixel once: converting a row must
// not scan the whole picture.
func flatten(m image.Image) *Picture {
	p := NewPicture(m.Bounds().Dx(), m.Bounds().Dy())
	convert := rowsOf(m)
	var transparent atomic.Bool
	parallel(p.Height, len(p.Pix), func(from, to int) {
		for y := from; y < to; y++ {
			if !convert(p.row(y), y) {
				transparent.Store(true)
			}
		}
	})
	if transparent.Load() {
		p.keepBare(m)
	}
	return p
}

// A rowConversion writes row y of a picture, counted from its top, as RGB bytes, and reports whether all of it is
// opaque.
type rowConversion func(dst []byte, y int) (opaque bool)

func rowsOf(m image.Image) rowConversion {
	switch m := m.(type) {
	case *image.Gray:
		return func(dst []byte, y int) bool { return greyRow(dst, m.Pix[y*m.Stride:], 1) }
	case *image.Gray16: // at most 255: see flattened
		return func(dst []byte, y int) bool { return greyRow(dst, m.Pix[y*m.Stride+1:], 2) }
	case *image.NRGBA:
		return func(dst []byte, y int) bool {
			src := m.Pix[y*m.Stride:]
			return opaqueRow(dst, src) || blendRow(dst, src, 1)
		}
	case *image.NRGBA64:
		return func(dst []byte, y int) bool { return blendRow(dst, m.Pix[y*m.Stride:], 2) }
	case *image.RGBA: // returned by decoders of opaque pictures, and by TIFF's for premultiplied alpha
		return func(dst []byte, y int) bool {
			src := m.Pix[y*m.Stride:]
			return opaqueRow(dst, src) || premultipliedRow(dst, src, 1, true)
		}
	case *image.RGBA64:
		return func(dst []byte, y int) bool { return premultipliedRow(dst, m.Pix[y*m.Stride:], 2, true) }
	case *image.CMYK:
		return func(dst []byte, y int) bool { return cmykRow(dst, m.Pix[y*m.Stride:]) }
	case *image.Paletted:
		var table [256]uint32 // RGB, and a byte that is not 0 if transparent; an index beyond the palette is black
		for i, c := range m.Palette {
			v := overWhite(c)
			table[i] = uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16
			if _, _, _, a := c.RGBA(); a != 0xffff {
				table[i] |= 1 << 24
			}
		}
		return func(dst []byte, y int) bool { return paletteRow(dst, m.Pix[y*m.Stride:][:len(dst)/3], &table) }
	}
	b := m.Bounds()
	o, ok := m.(interface{ Opaque() bool })
	opaque := !ok || o.Opaque()
	return func(dst []byte, y int) bool { // slow path, for types that no decoder in use returns
		for x := range len(dst) / 3 {
			c := overWhite(m.At(b.Min.X+x, b.Min.Y+y))
			copy(dst[3*x:], c[:])
		}
		return opaque
	}
}

// opaqueRow copies the colours of a row of RGBA and reports whether all of it is opaque. Each pixel is written as
// four bytes, the last of which the next pixel overwrites.
func opaqueRow(dst, src []byte) bool {
	alpha := uint32(255 << 24)
	for len(dst) > 3 && len(src) >= 4 {
		v := binary.LittleEndian.Uint32(src)
		binary.LittleEndian.PutUint32(dst, v)
		alpha &= v
		dst, src = dst[3:], src[4:]
	}
	if len(dst) == 3 {
		copy(dst, src[:3])
		alpha &= uint32(src[3]) << 24
	}
	return alpha == 255<<24
}

// paletteRow looks up a row of indices in a palette, and reports whether all its entries are opaque.
func paletteRow(dst, src []byte, table *[256]uint32) bool {
	const rgb = 1<<24 - 1
	all := uint32(0)
	for len(dst) >= 12 && len(src) >= 4 {
		a, b, c, d := table[src[0]], table[src[1]], table[src[2]], table[src[3]]
		binary.LittleEndian.PutUint64(dst, uint64(a&rgb)|uint64(b&rgb)<<24|uint64(c)<<48)
		binary.LittleEndian.PutUint32(dst[8:], c&rgb>>16|d<<8)
		all |= a | b | c | d
		dst, src = dst[12:], src[4:]
	}
	for len(dst) > 3 && len(src) > 0 {
		v := table[src[0]]
		binary.LittleEndian.PutUint32(dst, v)
		all |= v
		dst, src = dst[3:], src[1:]
	}
	if len(dst) == 3 {
		v := table[src[0]]
		dst[0], dst[1], dst[2] = byte(v), byte(v>>8), byte(v>>16)
		all |= v
	}
	return all>>24 == 0
}

// premultipliedRow divides a row of premultiplied RGBA by its alpha, as Pillow does, and composites it over white if
// white is set. step: bytes per channel, of which the first is used.
func premultipliedRow(dst, src []byte, step int, white bool) (opaque bool) {
	opaque = true
	for x := 0; x+2 < len(dst); x += 3 {
		a := src[3*step]
		opaque = opaque && a == 255
		for c := range 3 {
			v := src[c*step]
			if a == 0 {
				v = 0
			} else if a < 255 {
				v = byte(min(int(v)*255/int(a), 255))
			}
			if white {
				v = blendOverWhite(v, a)
			}
			dst[x+c] = v
		}
		src = src[4*step:]
	}
	return opaque
}

// greyRow replicates a row of grey to three channels. step: bytes from one sample to the next.
func greyRow(dst, src []byte, step int) bool {
	for x := 0; x+2 < len(dst); x += 3 {
		v := src[x/3*step]
		dst[x], dst[x+1], dst[x+2] = v, v, v
	}
	return true
}

// blendRow composites a row of straight-alpha RGBA over white. step: bytes per channel, of which the first is used.
func blendRow(dst, src []byte, step int) bool {
	opaque := true
	for x := 0; x+2 < len(dst); x += 3 {
		// with 16 bits of alpha the first byte is blended with; both bytes decide whether the pixel is opaque
		a := src[3*step]
		opaque = opaque && a == 255 && src[4*step-1] == 255
		dst[x] = blendOverWhite(src[0], a)
		dst[x+1] = blendOverWhite(src[step], a)
		dst[x+2] = blendOverWhite(src[2*step], a)
		src = src[4*step:]
	}
	return opaque
}

// blendAlpha composites a row of RGB over white with a row of alpha.
func blendAlpha(dst, alpha []byte) {
	for x, a := range alpha {
		if a != 255 {
			d := dst[3*x : 3*x+3]
			d[0], d[1], d[2] = blendOverWhite(d[0], a), blendOverWhite(d[1], a), blendOverWhite(d[2], a)
		}
	}
}

// blendOverWhite is Pillow's alpha_composite of one channel over opaque white. With an opaque background its first
// coefficient, a 255 255 128 / 65025, is 128 a.
func blendOverWhite(s, a byte) byte {
	if a == 255 {
		return s
	}
	c := 128 * uint32(a)
	t := uint32(s)*c + 255*(255*128-c) + 128<<7
	return byte((t + t>>8) >> 8 >> 7)
}

func overWhite(c color.Color) [3]byte {
	n := color.NRGBA64Model.Convert(c).(color.NRGBA64)
	a := byte(n.A >> 8)
	return [3]byte{blendOverWhite(byte(n.R>>8), a), blendOverWhite(byte(n.G>>8), a), blendOverWhite(byte(n.B>>8), a)}
}

// cmykRow converts CMYK as Pillow does: r = (255 - k) - c (255 - k) / 255, the division rounded.
func cmykRow(dst, src []byte) bool {
	for x := 0; x+2 < len(dst); x += 3 {
		white := 255 - int(src[3])
		for c := range 3 {
			t := int(src[c])*white + 128
			dst[x+c] = byte(white - (t+t>>8)>>8)
		}
		src = src[4:]
	}
	return true
}
