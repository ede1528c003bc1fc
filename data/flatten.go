package data

import (
	"image"
	"image/color"
)

// flatten converts a decoded picture to RGB, with transparency over white.
func flatten(m image.Image) *Picture {
	b := m.Bounds()
	p := NewPicture(b.Dx(), b.Dy())
	for y := range p.Height {
		dst := p.row(y)
		switch m := m.(type) {
		case *image.Gray:
			for x, v := range m.Pix[y*m.Stride:][:p.Width] {
				dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
			}
		case *image.Gray16:
			src := m.Pix[y*m.Stride:][:2*p.Width]
			for x := range p.Width {
				v := src[2*x]
				dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
			}
		case *image.NRGBA:
			blendRow(dst, m.Pix[y*m.Stride:], 1)
		case *image.NRGBA64:
			blendRow(dst, m.Pix[y*m.Stride:], 2)
		case *image.RGBA:
			if m.Opaque() {
				blendRow(dst, m.Pix[y*m.Stride:], 1)
			} else {
				blendColors(dst, m, y)
			}
		case *image.RGBA64:
			if m.Opaque() {
				blendRow(dst, m.Pix[y*m.Stride:], 2)
			} else {
				blendColors(dst, m, y)
			}
		case *image.CMYK:
			inkRow(dst, m.Pix[y*m.Stride:])
		default:
			blendColors(dst, m, y)
		}
	}
	return p
}

// blendRow puts a row of straight-alpha RGBA over white. step: bytes a channel; the first one counts.
func blendRow(dst, src []byte, step int) {
	for x := 0; x+2 < len(dst); x += 3 {
		a := src[3*step]
		dst[x], dst[x+1], dst[x+2] = over(src[0], a), over(src[step], a), over(src[2*step], a)
		src = src[4*step:]
	}
}

// over is Pillow's alpha_composite of one channel over opaque white. With an opaque background its first coefficient,
// a 255 255 128 / 65025, is 128 a.
func over(s, a byte) byte {
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
	return [3]byte{over(byte(n.R>>8), a), over(byte(n.G>>8), a), over(byte(n.B>>8), a)}
}

// blendColors is the slow way for any picture; palettes come here too and are converted once.
func blendColors(dst []byte, m image.Image, y int) {
	b := m.Bounds()
	if m, ok := m.(*image.Paletted); ok {
		table := make([][3]byte, 256) // an index beyond the palette is black
		for i, c := range m.Palette {
			table[i] = overWhite(c)
		}
		for x, v := range m.Pix[y*m.Stride:][:b.Dx()] {
			copy(dst[3*x:3*x+3], table[v][:])
		}
		return
	}
	for x := range b.Dx() {
		c := overWhite(m.At(b.Min.X+x, b.Min.Y+y))
		copy(dst[3*x:3*x+3], c[:])
	}
}

// inkRow converts CMYK as Pillow does: r = (255 - k) - c (255 - k) / 255, the division rounded.
func inkRow(dst, src []byte) {
	for x := 0; x+2 < len(dst); x += 3 {
		white := 255 - int(src[3])
		for c := range 3 {
			t := int(src[c])*white + 128
			dst[x+c] = byte(white - (t+t>>8)>>8)
		}
		src = src[4:]
	}
}
