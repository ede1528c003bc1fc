package data

import (
	"image"
	"image/color"
)

// flatten converts a decoded picture to RGB, with transparency over white. It reads each pixel once: no conversion of
// a row may look at the whole picture.
func flatten(m image.Image) *Picture {
	p := NewPicture(m.Bounds().Dx(), m.Bounds().Dy())
	convert := rowsOf(m)
	parallel(p.Height, len(p.Pix), func(from, to int) {
		for y := from; y < to; y++ {
			convert(p.row(y), y)
		}
	})
	p.keepBare(m)
	return p
}

// rowsOf returns the conversion of row y of m, counted from its top, to RGB bytes.
func rowsOf(m image.Image) func(dst []byte, y int) {
	switch m := m.(type) {
	case *image.Gray:
		return func(dst []byte, y int) { greyRow(dst, m.Pix[y*m.Stride:], 1) }
	case *image.Gray16: // of up to 255: see flattened
		return func(dst []byte, y int) { greyRow(dst, m.Pix[y*m.Stride+1:], 2) }
	case *image.NRGBA:
		return func(dst []byte, y int) { blendRow(dst, m.Pix[y*m.Stride:], 1) }
	case *image.NRGBA64:
		return func(dst []byte, y int) { blendRow(dst, m.Pix[y*m.Stride:], 2) }
	case *image.RGBA: // what the decoders of opaque pictures return: only what is not opaque is divided by its alpha
		return func(dst []byte, y int) {
			src := m.Pix[y*m.Stride:]
			for x := 0; x+2 < len(dst); x += 3 {
				r, g, b, a := src[0], src[1], src[2], src[3]
				if a != 255 {
					c := overWhite(color.RGBA{R: r, G: g, B: b, A: a})
					r, g, b = c[0], c[1], c[2]
				}
				dst[x], dst[x+1], dst[x+2] = r, g, b
				src = src[4:]
			}
		}
	case *image.RGBA64:
		return func(dst []byte, y int) {
			src := m.Pix[y*m.Stride:]
			for x := 0; x+2 < len(dst); x += 3 {
				r, g, b := src[0], src[2], src[4]
				if src[6]&src[7] != 255 {
					c := overWhite(m.RGBA64At(m.Rect.Min.X+x/3, m.Rect.Min.Y+y))
					r, g, b = c[0], c[1], c[2]
				}
				dst[x], dst[x+1], dst[x+2] = r, g, b
				src = src[8:]
			}
		}
	case *image.CMYK:
		return func(dst []byte, y int) { cmykRow(dst, m.Pix[y*m.Stride:]) }
	case *image.Paletted:
		var table [256][3]byte // an index beyond the palette is black
		for i, c := range m.Palette {
			table[i] = overWhite(c)
		}
		return func(dst []byte, y int) {
			for x, v := range m.Pix[y*m.Stride:][:len(dst)/3] {
				c := &table[v]
				dst[3*x], dst[3*x+1], dst[3*x+2] = c[0], c[1], c[2]
			}
		}
	}
	b := m.Bounds()
	return func(dst []byte, y int) { // the slow way, for types that no decoder in use returns
		for x := range len(dst) / 3 {
			c := overWhite(m.At(b.Min.X+x, b.Min.Y+y))
			copy(dst[3*x:], c[:])
		}
	}
}

// greyRow repeats a row of grey three times. step: from one sample's byte to the next.
func greyRow(dst, src []byte, step int) {
	for x := 0; x+2 < len(dst); x += 3 {
		v := src[x/3*step]
		dst[x], dst[x+1], dst[x+2] = v, v, v
	}
}

// blendRow puts a row of straight-alpha RGBA over white. step: bytes a channel; the first one counts.
func blendRow(dst, src []byte, step int) {
	for x := 0; x+2 < len(dst); x += 3 {
		a := src[3*step]
		for c := range 3 {
			dst[x+c] = blendOverWhite(src[c*step], a)
		}
		src = src[4*step:]
	}
}

// blendAlpha puts a row of RGB over white by a row of alpha.
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
func cmykRow(dst, src []byte) {
	for x := 0; x+2 < len(dst); x += 3 {
		white := 255 - int(src[3])
		for c := range 3 {
			t := int(src[c])*white + 128
			dst[x+c] = byte(white - (t+t>>8)>>8)
		}
		src = src[4:]
	}
}
