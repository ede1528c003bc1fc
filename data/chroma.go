package data

import "image"

// A rowFilter upsamples a row of chroma samples to dst. near is the closest row, far the next closest, and lower is
// set if far is below near. Beyond an edge the edge is repeated, which matches the libraries' special cases at the
// edges.
type rowFilter func(dst, near, far []byte, lower bool)

// jpegFilter chooses the filter as libjpeg does: triangle filters for factors of 2 and more than 2 samples per row,
// else repetition.
func jpegFilter(columns, rows, samples int) rowFilter {
	switch {
	case columns == 1 && rows == 2:
		return jpegH1V2
	case columns == 2 && rows == 1 && samples > 2:
		return jpegH2V1
	case columns == 2 && rows == 2 && samples > 2:
		return jpegH2V2
	}
	return func(dst, near, _ []byte, _ bool) {
		for x := range dst {
			dst[x] = near[x/columns]
		}
	}
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
func jpegRow(dst []byte, channels [][]byte) {
	blue, red := channels[1], channels[2]
	for x, v := range channels[0] {
		y, cb, cr := int(v), int(blue[x])-128, int(red[x])-128
		d := dst[3*x : 3*x+3]
		d[0] = clip(y + (91881*cr+1<<15)>>16)
		d[1] = clip(y + (-22554*cb-46802*cr+1<<15)>>16)
		d[2] = clip(y + (116130*cb+1<<15)>>16)
	}
}

// webpRow is libwebp's conversion of video-range YCbCr, with 14 fractional bits in two steps.
func webpRow(dst []byte, channels [][]byte) {
	blue, red := channels[1], channels[2]
	for x, v := range channels[0] {
		y, cb, cr := 19077*int(v)>>8, int(blue[x]), int(red[x])
		d := dst[3*x : 3*x+3]
		d[0] = clip((y + 26149*cr>>8 - 14234) >> 6)
		d[1] = clip((y - 6419*cb>>8 - 13320*cr>>8 + 8708) >> 6)
		d[2] = clip((y + 33050*cb>>8 - 17685) >> 6)
	}
}

func clip(v int) byte { return byte(min(max(v, 0), 255)) }

// A plane is one channel, which may be subsampled: one sample for columns x rows pixels.
type plane struct {
	pix           []byte
	stride        int
	columns, rows int
	filter        rowFilter
}

// yCbCrPlanes returns the planes of m, with filter to upsample chroma.
func yCbCrPlanes(m *image.YCbCr, columns, rows int, filter rowFilter) []plane {
	return []plane{
		{m.Y, m.YStride, 1, 1, nil},
		{m.Cb, m.CStride, columns, rows, filter},
		{m.Cr, m.CStride, columns, rows, filter},
	}
}

// convertPlanes upsamples the planes and converts their rows to RGB.
func convertPlanes(width, height int, planes []plane, toRGB func(dst []byte, channels [][]byte)) *Picture {
	p := NewPicture(width, height)
	parallel(p.Height, len(p.Pix), func(from, to int) {
		channels, enlarged := make([][]byte, len(planes)), make([][]byte, len(planes))
		for y := from; y < to; y++ {
			for i, c := range planes {
				if c.columns == 1 && c.rows == 1 {
					channels[i] = c.pix[y*c.stride:][:width]
					continue
				}
				samples := (width + c.columns - 1) / c.columns
				if enlarged[i] == nil {
					enlarged[i] = make([]byte, c.columns*samples)
				}
				near, last := y/c.rows, (height+c.rows-1)/c.rows-1
				lower := y%c.rows*2 >= c.rows
				far := max(near-1, 0)
				if lower {
					far = min(near+1, last)
				}
				near, far = near*c.stride, far*c.stride
				c.filter(enlarged[i], c.pix[near:near+samples], c.pix[far:far+samples], lower)
				channels[i] = enlarged[i][:width]
			}
			toRGB(p.row(y), channels)
		}
	})
	return p
}
