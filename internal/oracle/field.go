package oracle

import "math"

// Field is a picture in floating point, [Height, Width, 3]. It is resized without rounding, for finite differences.
// Its bicubic filter was written from Pillow's description (a = -0.5, antialiased) and shares no code with package
// data.
type Field struct {
	Width, Height int
	V             []float64
}

// NewField returns a black picture.
func NewField(width, height int) *Field {
	return &Field{width, height, make([]float64, 3*width*height)}
}

// FieldOf converts an 8-bit picture, [height, width, 3].
func FieldOf(width, height int, pixels []uint8) *Field {
	f := NewField(width, height)
	for i, v := range pixels {
		f.V[i] = float64(v)
	}
	return f
}

// Shift returns the picture with step times direction added.
func (f *Field) Shift(step float64, direction []float64) *Field {
	out := NewField(f.Width, f.Height)
	for i, v := range f.V {
		out.V[i] = v + step*direction[i]
	}
	return out
}

// Resize is Pillow's bicubic resize of a picture in floating point.
func (f *Field) Resize(width, height int) *Field {
	out := NewField(width, height)
	columns, rows := bicubic(f.Width, width), bicubic(f.Height, height)
	for y, row := range rows {
		for x, column := range columns {
			for sy, wy := range row {
				for sx, wx := range column {
					for c := range 3 {
						out.V[3*(y*width+x)+c] += wy * wx * f.V[3*(sy*f.Width+sx)+c]
					}
				}
			}
		}
	}
	return out
}

// bicubic returns for each of m outputs the weights of its inputs, by their index below n.
func bicubic(n, m int) []map[int]float64 {
	out := make([]map[int]float64, m)
	scale := float64(n) / float64(m)
	stretch := math.Max(scale, 1)
	for i := range out {
		out[i] = map[int]float64{}
		if n == m {
			out[i][i] = 1
			continue
		}
		center, sum := (float64(i)+0.5)*scale, 0.0
		for x := max(int(center-2*stretch+0.5), 0); x < min(int(center+2*stretch+0.5), n); x++ {
			d := math.Abs((float64(x) - center + 0.5) / stretch)
			w := 0.0
			if d < 1 {
				w = (1.5*d-2.5)*d*d + 1
			} else if d < 2 {
				w = ((-0.5*d+2.5)*d-4)*d + 2
			}
			out[i][x] = w
			sum += w
		}
		for x := range out[i] {
			out[i][x] /= sum
		}
	}
	return out
}

// Crop copies a rectangle. Pixels outside the picture are black.
func (f *Field) Crop(left, top, width, height int) *Field {
	out := NewField(width, height)
	for y := range height {
		for x := range width {
			if sy, sx := y+top, x+left; sy >= 0 && sy < f.Height && sx >= 0 && sx < f.Width {
				copy(out.V[3*(y*width+x):3*(y*width+x)+3], f.V[3*(sy*f.Width+sx):])
			}
		}
	}
	return out
}

// SideBySide puts b to the right of f.
func (f *Field) SideBySide(b *Field) *Field {
	out := NewField(f.Width+b.Width, f.Height)
	for y := range f.Height {
		copy(out.V[3*y*out.Width:], f.V[3*y*f.Width:3*(y+1)*f.Width])
		copy(out.V[3*(y*out.Width+f.Width):], b.V[3*y*b.Width:3*(y+1)*b.Width])
	}
	return out
}

// Normalize returns [3, Height, Width].
func (f *Field) Normalize(mean, std [3]float32) []float64 {
	n := f.Width * f.Height
	out := make([]float64, 3*n)
	for i, v := range f.V {
		out[i%3*n+i/3] = (v/255 - float64(mean[i%3])) / float64(std[i%3])
	}
	return out
}

// JoinFields is model.Join in floating point.
func JoinFields(pair string, size []int, source, edit *Field) [][]*Field {
	if len(size) == 2 {
		source, edit = source.Resize(size[1], size[0]), edit.Resize(size[1], size[0])
	}
	switch pair {
	case "sequence":
		return [][]*Field{{source}, {edit}}
	case "frames":
		return [][]*Field{{source, edit.Resize(source.Width, source.Height)}}
	}
	if edit.Height != source.Height {
		w := math.RoundToEven(float64(edit.Width*source.Height) / float64(edit.Height))
		edit = edit.Resize(max(1, int(w)), source.Height)
	}
	return [][]*Field{{source.SideBySide(edit)}}
}
