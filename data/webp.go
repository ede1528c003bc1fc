package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"io"

	"golang.org/x/image/webp"

	"assay/internal/codecs"
)

// decodeWebP decodes still WebP pictures and the first frame of animated ones, with libwebp's chroma filter and
// colour conversion, to the same bytes.
func decodeWebP(f encodedFile) (*Picture, error) {
	if webpCut(f.raw) {
		return nil, io.ErrUnexpectedEOF
	}
	frame := firstFrame(f.raw)
	if c, err := webp.DecodeConfig(bytes.NewReader(frame.still)); frame.animated() &&
		(err != nil || c.Width > frame.canvas.X || c.Height > frame.canvas.Y) {
		return nil, errors.New("the first frame is broken or larger than the picture") // only whose size was checked
	}
	p, err := decodeStill(encodedFile{f.ctx, frame.still}, frame.alpha)
	if err != nil {
		return nil, err
	}
	return frame.onCanvas(p), nil
}

// webpCut reports whether the file ends before its last chunk does. All pixels may be there, but the orientation
// comes after them; Pillow refuses such files too.
func webpCut(raw []byte) bool {
	const header = 8
	size := header + uint64(binary.LittleEndian.Uint32(raw[4:]))
	if size > uint64(len(raw)) {
		return true
	}
	for b := raw[min(12, size):size]; len(b) >= header; {
		n := uint64(binary.LittleEndian.Uint32(b[4:]))
		n += header + n&1
		if n > uint64(len(b)) {
			return true
		}
		b = b[n:]
	}
	return false
}

// decodeStill decodes a still picture with libwebp, or with Go's package if libwebp is absent, to the same pixels.
// Files that libwebp refuses also go to Go's package, whose error is reported. alpha: whether an alpha channel is
// used.
func decodeStill(f encodedFile, alpha bool) (*Picture, error) {
	if noLibwebp() == nil {
		if p := decodeLibWebP(f, alpha); p != nil {
			return p, nil
		}
	}
	m, err := webp.Decode(f.reader())
	if err != nil {
		return nil, err
	}
	var p *Picture
	switch m := m.(type) {
	case *image.YCbCr:
		p = convertPlanes(m.Rect.Dx(), m.Rect.Dy(), yCbCrPlanes(m, 2, 2, webpH2V2), webpRow)
	case *image.NYCbCrA:
		p = convertPlanes(m.Rect.Dx(), m.Rect.Dy(), yCbCrPlanes(&m.YCbCr, 2, 2, webpH2V2), webpRow)
		if !m.Opaque() {
			p.bare = bytes.Clone(p.Pix)
		}
		for y := range p.Height {
			blendAlpha(p.row(y), m.A[y*m.AStride:][:p.Width])
		}
	default:
		p = flatten(m)
	}
	return p, nil
}

// noLibwebp is the reason why libwebp is not available, nil if it is. Tests replace it.
var noLibwebp = func() error {
	_, err := codecs.WebP()
	return err
}

// decodeLibWebP returns nil for files that libwebp does not decode completely.
func decodeLibWebP(f encodedFile, alpha bool) *Picture {
	c, err := webp.DecodeConfig(f.reader())
	h, err2 := codecs.WebPHeader(f.raw)
	if err != nil || err2 != nil || c.Width != h.Width || c.Height != h.Height { // the size that was checked
		return nil
	}
	if c.ColorModel == color.NRGBAModel { // lossless: it has alpha even if the header says that it does not
		h.Channels = 4
	}
	if h.Channels == 3 || !alpha {
		h.Channels = 3
		p := NewPicture(h.Width, h.Height)
		if codecs.DecodeWebP(f.ctx, f.raw, h, p.Pix) != nil {
			return nil
		}
		return p
	}
	m := image.NewNRGBA(image.Rect(0, 0, h.Width, h.Height))
	if codecs.DecodeWebP(f.ctx, f.raw, h, m.Pix) != nil {
		return nil
	}
	return flatten(m)
}

// A webpFrame is the first frame of an animation as a still WebP file, and its position on the canvas, which is empty
// if the file is not animated.
type webpFrame struct {
	still     []byte
	left, top int
	canvas    image.Point
	alpha     bool // alpha is used; the canvas outside the frame is then transparent, else black
}

func (f webpFrame) animated() bool { return f.canvas != image.Point{} }

// onCanvas pastes the frame's picture onto the canvas.
func (f webpFrame) onCanvas(p *Picture) *Picture {
	if !f.alpha && p.bare != nil {
		p = &Picture{Width: p.Width, Height: p.Height, Pix: p.bare}
	}
	if !f.animated() || f.canvas == image.Pt(p.Width, p.Height) {
		return p
	}
	out := NewPicture(f.canvas.X, f.canvas.Y)
	if f.alpha {
		out.bareLost = true
		for i := range out.Pix {
			out.Pix[i] = 255
		}
	}
	out.paste(p, f.left, f.top)
	return out
}

// firstFrame rewrites an animated WebP file as a still file of its first frame. Other files stay as they are; a
// lossless file has a bit that says whether its alpha is used.
func firstFrame(raw []byte) (f webpFrame) {
	const animation, alpha = 1 << 1, 1 << 4
	still := webpFrame{still: raw, alpha: true}
	opaque := false // according to the header; Pillow then drops the alpha of a lossy picture
	uint24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
	for id, body := range riffChunks(raw) {
		switch {
		case id == "VP8L" && len(body) > 4:
			still.alpha = body[4]&alpha != 0
		case id == "VP8X" && len(body) == 10 && body[0]&animation == 0:
			opaque = body[0]&alpha == 0
		case id == "ALPH" && opaque:
			still.alpha = false
		case id == "VP8X" && len(body) == 10:
			f.canvas, f.alpha = image.Pt(uint24(body[4:])+1, uint24(body[7:])+1), body[0]&alpha != 0
		case id == "ANMF" && len(body) > 16 && f.animated():
			f.left, f.top = 2*uint24(body), 2*uint24(body[3:])
			f.still = []byte("RIFF\x00\x00\x00\x00WEBP")
			if bytes.HasPrefix(body[16:], []byte("ALPH")) {
				f.still = append(f.still, "VP8X\x0a\x00\x00\x00\x10\x00\x00\x00"...)
				f.still = append(f.still, body[6:12]...)
			}
			f.still = append(f.still, body[16:]...)
			binary.LittleEndian.PutUint32(f.still[4:], uint32(len(f.still)-8))
			return f
		}
	}
	return still
}
