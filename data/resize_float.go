package data

import "math"

// TorchBicubic is torch's bicubic interpolation without antialias: Keys' kernel with a = -0.75 over four pixels,
// whatever the scale. With antialias torch uses Pillow's [Bicubic].
var TorchBicubic = Filter{support: 2, fixed: true, weight: func(x float64) float64 {
	const a = -0.75
	if x = math.Abs(x); x < 1 {
		return ((a+2)*x-(a+3))*x*x + 1
	}
	return ((a*x-5*a)*x+8*a)*x - 4*a
}}

// fixedCoefficients are the coefficients of torch's upsample_bicubic2d: the border is repeated outside the picture.
func fixedCoefficients(n, m int, f Filter) coefficients {
	t := coefficients{first: make([]int, m), start: make([]int, m+1)}
	scale := float64(n) / float64(m)
	for i := range m {
		at := scale*(float64(i)+0.5) - 0.5
		left := int(math.Floor(at)) - 1
		lo, hi := min(max(left, 0), n-1), min(max(left+3, 0), n-1)
		weights := make([]float64, hi-lo+1)
		for x := left; x < left+4; x++ {
			weights[min(max(x, 0), n-1)-lo] += f.weight(float64(x) - at)
		}
		for _, w := range weights {
			t.weights = append(t.weights, uint64(int64(math.Round(w*(1<<precisionBits)))))
		}
		t.first[i], t.start[i+1] = lo, len(t.weights)
	}
	return t
}

// ResizeFloat is [Picture.Resize] as torchvision resizes tensors of floats: nothing is rounded to 8 bits or clipped.
// It returns [height, width, 3], 0 to 255 except where the filter overshoots. Its adjoint is [Gradient.Resize].
func (p *Picture) ResizeFloat(width, height int, f Filter) []float32 {
	wide := make([]float32, len(p.Pix))
	for i, v := range p.Pix {
		wide[i] = float32(v)
	}
	if width != p.Width {
		t := newCoefficients(p.Width, width, f)
		out := make([]float32, 3*width*p.Height)
		parallel(p.Height, 4*len(out), func(from, to int) {
			for y := from; y < to; y++ {
				t.apply(out[3*width*y:3*width*(y+1)], wide[3*p.Width*y:], 3, 3)
			}
		})
		wide = out
	}
	if height != p.Height {
		t := newCoefficients(p.Height, height, f)
		out, stride := make([]float32, 3*width*height), 3*width
		parallel(stride, 4*len(out), func(from, to int) {
			for x := from; x < to; x++ {
				t.apply(out[x:], wide[x:], stride, 1)
			}
		})
		wide = out
	}
	return wide
}

// apply filters groups of channels adjacent values; consecutive groups are stride apart.
func (t *coefficients) apply(to, from []float32, stride, channels int) {
	for i, lo := range t.first {
		for c := range channels {
			sum := 0.0
			for k, w := range t.weights[t.start[i]:t.start[i+1]] {
				sum += float64(int64(w)) / (1 << precisionBits) * float64(from[(lo+k)*stride+c])
			}
			to[i*stride+c] = float32(sum)
		}
	}
}
