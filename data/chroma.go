package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/jpeg"

	"golang.org/x/image/webp"
)

// decodeJPEG decodes baseline and progressive JPEG. Go's decoder gives the planes; the enlargement of the chroma planes
// ("fancy upsampling", a triangle filter) and the conversion to RGB are libjpeg's, with its integers. What remains is
// the rounding of the inverse DCT. Measured against Pillow 13 on photographs saved with qualities 75 and 95, with and
// without subsampled chroma: 0.02 to 0.04 levels on average, 3 at most.
func decodeJPEG(f encodedFile) (*Picture, error) {
	m, err := jpeg.Decode(f.reader())
	if err != nil {
		return nil, err
	}
	planes, ok := m.(*image.YCbCr)
	if !ok {
		return flatten(m), nil // grey, RGB, CMYK
	}
	columns, _ := factors(planes.SubsampleRatio)
	filter, columns, rows := jpegFilter(planes.SubsampleRatio, (planes.Rect.Dx()+columns-1)/columns)
	return convertPlanes(planes, jpegRow, filter, columns, rows), nil
}

// decodeWebP decodes still WebP pictures and the first frame of animated ones, with libwebp's chroma filter and colour
// conversion: the same bytes.
func decodeWebP(f encodedFile) (*Picture, error) {
	frame, left, top, canvas := firstFrame(f.raw)
	animated := canvas != image.Point{}
	if c, err := webp.DecodeConfig(bytes.NewReader(frame)); animated &&
		(err != nil || c.Width > canvas.X || c.Height > canvas.Y) {
		return nil, errors.New("the first frame is broken or larger than the picture") // whose size was checked
	}
	m, err := webp.Decode(encodedFile{f.ctx, frame}.reader())
	if err != nil {
		return nil, err
	}
	var p *Picture
	switch m := m.(type) {
	case *image.YCbCr:
		p = convertPlanes(m, webpRow, webpH2V2, 2, 2)
	case *image.NYCbCrA:
		p = convertPlanes(&m.YCbCr, webpRow, webpH2V2, 2, 2)
		if !m.Opaque() {
			p.bare = bytes.Clone(p.Pix)
		}
		for y := range p.Height {
			blendAlpha(p.row(y), m.A[y*m.AStride:][:p.Width])
		}
	default:
		p = flatten(m)
	}
	if !animated || canvas == image.Pt(p.Width, p.Height) {
		return p, nil
	}
	out := NewPicture(canvas.X, canvas.Y)
	for i := range out.Pix {
		out.Pix[i] = 255
	}
	out.paste(p, left, top)
	out.bareLost = true
	return out, nil
}

// firstFrame rewrites an animated WebP file as a still one of its first frame, whose place on the canvas is (left,
// top). Other files are returned unchanged.
func firstFrame(raw []byte) (still []byte, left, top int, canvas image.Point) {
	uint24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
	for id, body := range riffChunks(raw) {
		switch {
		case id == "VP8X" && len(body) == 10 && body[0]&2 != 0:
			canvas = image.Pt(uint24(body[4:])+1, uint24(body[7:])+1)
		case id == "ANMF" && len(body) > 16 && canvas != image.Point{}:
			left, top = 2*uint24(body), 2*uint24(body[3:])
			out := []byte("RIFF\x00\x00\x00\x00WEBP")
			if bytes.HasPrefix(body[16:], []byte("ALPH")) {
				out = append(out, "VP8X\x0a\x00\x00\x00\x10\x00\x00\x00"...)
				out = append(out, body[6:12]...)
			}
			out = append(out, body[16:]...)
			binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
			return out, left, top, canvas
		}
	}
	return raw, 0, 0, image.Point{}
}

// A rowFilter upsamples a row of chroma samples to dst. near is the closest row, far the next closest, and lower says
// that far is below near. Beyond an edge the edge is repeated, which equals the libraries' special cases at the
// edges.
type rowFilter func(dst, near, far []byte, lower bool)

// jpegFilter chooses as libjpeg does: triangle filters for factors of 2 and more than 2 samples a row, else repetition.
func jpegFilter(r image.YCbCrSubsampleRatio, samples int) (filter rowFilter, columns, rows int) {
	switch {
	case r == image.YCbCrSubsampleRatio440:
		return jpegH1V2, 1, 2
	case r == image.YCbCrSubsampleRatio422 && samples > 2:
		return jpegH2V1, 2, 1
	case r == image.YCbCrSubsampleRatio420 && samples > 2:
		return jpegH2V2, 2, 2
	}
	columns, rows = factors(r)
	return func(dst, near, _ []byte, _ bool) {
		for x := range dst {
			dst[x] = near[x/columns]
		}
	}, columns, rows
}

func factors(r image.YCbCrSubsampleRatio) (columns, rows int) {
	switch r {
	case image.YCbCrSubsampleRatio422:
		return 2, 1
	case image.YCbCrSubsampleRatio420:
		return 2, 2
	case image.YCbCrSubsampleRatio440:
		return 1, 2
	case image.YCbCrSubsampleRatio411:
		return 4, 1
	case image.YCbCrSubsampleRatio410:
		return 4, 2
	}
	return 1, 1
}

// jpegH1V2 is libjpeg's h1v2_fancy_upsample: rows 3:1; the upper one of two rounds down at a half.
func jpegH1V2(dst, near, far []byte, lower bool) {
	bias := 1
	if lower {
		bias = 2
	}
	for x := range dst {
		dst[x] = byte((3*int(near[x]) + int(far[x]) + bias) >> 2)
	}
}

// jpegH2V1 is libjpeg's h2v1_fancy_upsample: columns 3:1.
func jpegH2V1(dst, near, _ []byte, _ bool) {
	for x, v := range near {
		left, right := near[max(x-1, 0)], near[min(x+1, len(near)-1)]
		dst[2*x] = byte((3*int(v) + int(left) + 1) >> 2)
		dst[2*x+1] = byte((3*int(v) + int(right) + 2) >> 2)
	}
}

// jpegH2V2 is libjpeg's h2v2_fancy_upsample: columns and rows 3:1, rounded once.
func jpegH2V2(dst, near, far []byte, _ bool) {
	left := 3*int(near[0]) + int(far[0])
	here := left
	for x := range near {
		next := min(x+1, len(near)-1)
		right := 3*int(near[next]) + int(far[next])
		dst[2*x] = byte((3*here + left + 8) >> 4)
		dst[2*x+1] = byte((3*here + right + 7) >> 4)
		left, here = here, right
	}
}

// webpH2V2 has the weights of jpegH2V2, but rounds twice.
func webpH2V2(dst, near, far []byte, _ bool) {
	left, leftFar := int(near[0]), int(far[0])
	here, hereFar := left, leftFar
	for x := range near {
		next := min(x+1, len(near)-1)
		right, rightFar := int(near[next]), int(far[next])
		dst[2*x] = byte(((here+3*left+3*hereFar+leftFar+8)>>3 + here) >> 1)
		dst[2*x+1] = byte(((here+3*right+3*hereFar+rightFar+8)>>3 + here) >> 1)
		left, leftFar, here, hereFar = here, hereFar, right, rightFar
	}
}

// jpegRow is libjpeg's conversion of full-range YCbCr, with 16 fractional bits.
func jpegRow(dst, luma, blue, red []byte) {
	for x, v := range luma {
		y, cb, cr := int(v), int(blue[x])-128, int(red[x])-128
		d := dst[3*x : 3*x+3]
		d[0] = clip(y + (91881*cr+1<<15)>>16)
		d[1] = clip(y + (-22554*cb-46802*cr+1<<15)>>16)
		d[2] = clip(y + (116130*cb+1<<15)>>16)
	}
}

// webpRow is libwebp's conversion of video-range YCbCr, with 14 fractional bits in two steps.
func webpRow(dst, luma, blue, red []byte) {
	for x, v := range luma {
		y, cb, cr := 19077*int(v)>>8, int(blue[x]), int(red[x])
		d := dst[3*x : 3*x+3]
		d[0] = clip((y + 26149*cr>>8 - 14234) >> 6)
		d[1] = clip((y - 6419*cb>>8 - 13320*cr>>8 + 8708) >> 6)
		d[2] = clip((y + 33050*cb>>8 - 17685) >> 6)
	}
}

func clip(v int) byte { return byte(min(max(v, 0), 255)) }

// convertPlanes enlarges the chroma planes by filter, with its factors of columns and rows, and converts to RGB.
func convertPlanes(
	m *image.YCbCr,
	toRGB func(dst, luma, blue, red []byte),
	filter rowFilter,
	columns, rows int,
) *Picture {
	p := NewPicture(m.Rect.Dx(), m.Rect.Dy())
	samples := (p.Width + columns - 1) / columns
	last := (p.Height+rows-1)/rows - 1
	parallel(p.Height, len(p.Pix), func(from, to int) {
		cb, cr := make([]byte, columns*samples), make([]byte, columns*samples)
		for y := from; y < to; y++ {
			near := y / rows
			lower := y%rows*2 >= rows
			far := max(near-1, 0)
			if lower {
				far = min(near+1, last)
			}
			near, far = near*m.CStride, far*m.CStride
			filter(cb, m.Cb[near:near+samples], m.Cb[far:far+samples], lower)
			filter(cr, m.Cr[near:near+samples], m.Cr[far:far+samples], lower)
			toRGB(p.row(y), m.Y[y*m.YStride:][:p.Width], cb, cr)
		}
	})
	return p
}
