package data

import (
	"errors"
	"image"
	"image/color"
)

// errBare reports that the colours of transparent pixels are not known.
var errBare = errors.New("the decoder does not keep the colours of this picture's transparent pixels: " +
	"save it as PNG")

// DropAlpha returns a decoded picture with the stored colours of its transparent pixels, as Pillow's convert("RGB")
// does, instead of compositing them over white. Pictures without transparency are returned as they are, and so are
// pictures derived from others: only decoding tracks transparency. It fails if the decoder does not keep those
// colours (GIF with a transparent colour).
func (p *Picture) DropAlpha() (*Picture, error) {
	switch {
	case p.bareLost:
		return nil, errBare
	case p.bare == nil:
		return p, nil
	}
	return &Picture{Width: p.Width, Height: p.Height, Pix: p.bare}, nil
}

// keepBare keeps the colours of the transparent pixels of m; p is m over white.
func (p *Picture) keepBare(m image.Image) {
	switch m := m.(type) {
	case *image.NRGBA:
		p.setBare(func(dst []byte, y int) { bareRow(dst, m.Pix[y*m.Stride:], 1) })
	case *image.NRGBA64:
		p.setBare(func(dst []byte, y int) { bareRow(dst, m.Pix[y*m.Stride:], 2) })
	case *image.Paletted:
		p.keepPalette(m)
	case *image.RGBA:
		p.setBare(func(dst []byte, y int) { premultipliedRow(dst, m.Pix[y*m.Stride:], 1, false) })
	case *image.RGBA64:
		p.setBare(func(dst []byte, y int) { premultipliedRow(dst, m.Pix[y*m.Stride:], 2, false) })
	default: // a type that no decoder in use returns
		p.bareLost = true
	}
}

// keepPalette keeps the colours of a palette's entries. The GIF decoder replaces the colour of the transparent entry.
func (p *Picture) keepPalette(m *image.Paletted) {
	var table [256][3]byte
	for i, c := range m.Palette {
		n, straight := c.(color.NRGBA)
		if _, _, _, a := c.RGBA(); a != 0xffff && !straight {
			p.bareLost = true
			return
		} else if !straight {
			n = color.NRGBAModel.Convert(c).(color.NRGBA)
		}
		table[i] = [3]byte{n.R, n.G, n.B}
	}
	p.setBare(func(dst []byte, y int) {
		for x, v := range m.Pix[y*m.Stride:][:len(dst)/3] {
			copy(dst[3*x:3*x+3], table[v][:])
		}
	})
}

func (p *Picture) setBare(row func(dst []byte, y int)) {
	p.bare = make([]byte, len(p.Pix))
	q := &Picture{Width: p.Width, Height: p.Height, Pix: p.bare}
	parallel(p.Height, len(p.Pix), func(from, to int) {
		for y := from; y < to; y++ {
			row(q.row(y), y)
		}
	})
}

// bareRow copies the colours of a row of straight-alpha RGBA. step: bytes per channel, of which the first is used.
func bareRow(dst, src []byte, step int) {
	for x := 0; x+2 < len(dst); x += 3 {
		dst[x], dst[x+1], dst[x+2] = src[0], src[step], src[2*step]
		src = src[4*step:]
	}
}

// upright is applyOrientation for a picture and the colours kept below its transparency.
func (p *Picture) upright(orientation int) *Picture {
	out := p.applyOrientation(orientation)
	if out != p && p.bare != nil {
		bare := Picture{Width: p.Width, Height: p.Height, Pix: p.bare}
		out.bare = bare.applyOrientation(orientation).Pix
	}
	out.bareLost = p.bareLost
	return out
}
