package data

// Gradient is the derivative of a scalar with respect to the pixels of a picture: Values has the layout of
// Picture.Pix, [Height, Width, 3], and is per 8-bit level.
//
// Its methods backpropagate through Picture's methods: each is the transpose of the linear map of the method of the
// same name. Rounding to 8 bits is treated as the identity, and so is clipping, which the bicubic filter needs only
// at hard edges.
type Gradient struct {
	Width, Height int
	Values        []float32
}

// NewGradient returns a gradient of zeros.
func NewGradient(width, height int) *Gradient {
	return &Gradient{width, height, make([]float32, 3*width*height)}
}

// Add adds another gradient of the same size.
func (s *Gradient) Add(o *Gradient) {
	for i, v := range o.Values {
		s.Values[i] += v
	}
}

// Normalize backpropagates through Picture.Normalize: from grad, [3, Height, Width], d/dx = grad / (255 std).
func (s *Gradient) Normalize(grad []float32, std [3]float32) {
	n := s.Width * s.Height
	for c := range 3 {
		factor := 1 / (255 * std[c])
		for i, v := range grad[c*n : (c+1)*n] {
			s.Values[3*i+c] = v * factor
		}
	}
}

// Paste adds o, a gradient of Crop(left, top, o.Width, o.Height). Values outside the picture are dropped.
func (s *Gradient) Paste(o *Gradient, left, top int) {
	from, to := max(left, 0), min(left+o.Width, s.Width)
	for y := max(top, 0); y < min(top+o.Height, s.Height) && from < to; y++ {
		src := o.Values[3*((y-top)*o.Width+from-left):][:3*(to-from)]
		dst := s.Values[3*(y*s.Width+from):][:3*(to-from)]
		for i, v := range src {
			dst[i] += v
		}
	}
}

// Crop copies a rectangle, which must be inside: the gradient of pasting.
func (s *Gradient) Crop(left, top, width, height int) *Gradient {
	out := NewGradient(width, height)
	for y := range height {
		copy(out.Values[3*width*y:3*width*(y+1)], s.Values[3*((top+y)*s.Width+left):])
	}
	return out
}

// Resize backpropagates through Picture.Resize from a picture of width x height: it returns the gradient with respect
// to that picture, with the transposed filters in the opposite order.
func (s *Gradient) Resize(width, height int, f Filter) *Gradient {
	switch {
	case width == s.Width && height == s.Height:
		return s.Crop(0, 0, width, height)
	case f.support == 0:
		return s.nearest(width, height)
	case s.Height < height && height-s.Height > 2*(width-s.Width): // forward: rows, then columns
		return s.resizeColumns(width, f).resizeRows(height, f)
	}
	return s.resizeRows(height, f).resizeColumns(width, f)
}

func (s *Gradient) resizeColumns(width int, f Filter) *Gradient {
	if width == s.Width {
		return s
	}
	t := newCoefficients(width, s.Width, f)
	out := NewGradient(width, s.Height)
	parallel(s.Height, 12*width*s.Height, func(from, to int) {
		sums := make([]float64, 3*width)
		for y := from; y < to; y++ {
			clear(sums)
			row := s.Values[3*s.Width*y:]
			for i, lo := range t.first {
				r, g, b := float64(row[3*i]), float64(row[3*i+1]), float64(row[3*i+2])
				for k, w := range t.weights[t.start[i]:t.start[i+1]] {
					v := float64(int64(w)) / (1 << precisionBits)
					x := 3 * (lo + k)
					sums[x] += v * r
					sums[x+1] += v * g
					sums[x+2] += v * b
				}
			}
			toFloat32(out.Values[3*width*y:], sums)
		}
	})
	return out
}

func (s *Gradient) resizeRows(height int, f Filter) *Gradient {
	if height == s.Height {
		return s
	}
	t := newCoefficients(height, s.Height, f)
	out := NewGradient(s.Width, height)
	stride := 3 * s.Width
	parallel(stride, 4*stride*height, func(from, to int) { // by columns: a source row feeds several output rows
		sums := make([]float64, (to-from)*height)
		for y, lo := range t.first {
			row := s.Values[stride*y+from : stride*y+to]
			for k, w := range t.weights[t.start[y]:t.start[y+1]] {
				v := float64(int64(w)) / (1 << precisionBits)
				for i, x := range row {
					sums[(lo+k)*(to-from)+i] += v * float64(x)
				}
			}
		}
		for y := range height {
			toFloat32(out.Values[stride*y+from:], sums[y*(to-from):(y+1)*(to-from)])
		}
	})
	return out
}

func toFloat32(to []float32, from []float64) {
	for i, v := range from {
		to[i] = float32(v)
	}
}

func (s *Gradient) nearest(width, height int) *Gradient {
	columns, rows := nearestIndices(width, s.Width), nearestIndices(height, s.Height)
	out := NewGradient(width, height)
	for y, sy := range rows {
		for x, sx := range columns {
			for c := range 3 {
				out.Values[3*(sy*width+sx)+c] += s.Values[3*(y*s.Width+x)+c]
			}
		}
	}
	return out
}
