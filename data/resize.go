package data

import (
	"encoding/binary"
	"math"
	"runtime"

	"assay/internal/workers"
)

// Filter is one of Pillow's resampling filters.
type Filter struct {
	support float64                 // half width in source pixels when enlarging; 0: nearest neighbour
	weight  func(x float64) float64 // not normalised
	fixed   bool                    // not widened when shrinking, and the border is repeated outside: see TorchBicubic
}

// Pillow's filters under Pillow's names.
var (
	Nearest  = Filter{}
	Box      = Filter{support: 0.5, weight: boxWeight}
	Bilinear = Filter{support: 1, weight: bilinearWeight}
	Hamming  = Filter{support: 1, weight: hammingWeight}
	Bicubic  = Filter{support: 2, weight: bicubicWeight}
	Lanczos  = Filter{support: 3, weight: lanczosWeight}
)

func boxWeight(x float64) float64 {
	if x > -0.5 && x <= 0.5 {
		return 1
	}
	return 0
}

func bilinearWeight(x float64) float64 { return max(0, 1-math.Abs(x)) }

func hammingWeight(x float64) float64 {
	x = math.Abs(x)
	if x == 0 {
		return 1
	}
	if x >= 1 {
		return 0
	}
	x *= math.Pi
	const a, b = float32(0.54), float32(0.46) // single precision in Pillow
	return math.Sin(x) / x * (float64(a) + float64(float64(b)*math.Cos(x)))
}

// bicubicWeight is Keys' kernel with a = -0.5. The float64 conversions here and below forbid fused multiply-add, which
// would round differently from Pillow.
func bicubicWeight(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	if x < 1 {
		return float64(float64(float64(float64((a+2)*x)-(a+3))*x)*x) + 1
	}
	if x < 2 {
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}

func lanczosWeight(x float64) float64 {
	if -3 <= x && x < 3 {
		return sinc(x) * sinc(x/3)
	}
	return 0
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// precisionBits is the number of fractional bits of a weight (Pillow's PRECISION_BITS): 32 bits less 8 for the pixel
// and 2 for sums above 1.
const precisionBits = 22

// coefficients are the weights of one axis: output i is the sum of weights[start[i]:start[i+1]] times the source
// starting at first[i].
type coefficients struct {
	first, start []int
	weights      []uint64 // two's complement, so that one product serves two packed sums
}

// newCoefficients is Pillow's precompute_coeffs and normalize_coeffs_8bpc for n source and m output pixels.
func newCoefficients(n, m int, f Filter) coefficients {
	if f.fixed {
		return fixedCoefficients(n, m, f)
	}
	scale := float64(n) / float64(m)
	stretch := max(scale, 1)
	support := f.support * stretch
	t := coefficients{first: make([]int, m), start: make([]int, m+1)}
	w := make([]float64, 0, 2*int(math.Ceil(support))+1)
	for i := range m {
		center := float64((float64(i) + 0.5) * scale)
		lo, hi := max(int(center-support+0.5), 0), min(int(center+support+0.5), n)
		w = w[:0]
		sum := 0.0
		for x := lo; x < hi; x++ {
			v := f.weight((float64(x) - center + 0.5) * (1 / stretch))
			w = append(w, v)
			sum += v
		}
		for _, v := range w {
			if sum != 0 {
				v /= sum
			}
			t.weights = append(t.weights, uint64(int64(float64(v*(1<<precisionBits))+math.Copysign(0.5, v))))
		}
		t.first[i], t.start[i+1] = lo, len(t.weights)
	}
	return t
}

// Resize returns the picture resampled to width x height, bit for bit as Pillow 13's Image.resize on an RGB picture.
// Sides must be at least 1. There are two passes, with the result of the first rounded to 8 bits; an axis that keeps
// its size is not filtered. The vertical pass comes first if it removes more than twice as many rows as the
// horizontal pass removes columns.
func (p *Picture) Resize(width, height int, f Filter) *Picture {
	switch {
	case width == p.Width && height == p.Height:
		return p.Crop(0, 0, width, height)
	case f.support == 0:
		return p.nearest(width, height)
	case height < p.Height && p.Height-height > 2*(p.Width-width):
		return p.resizeRows(height, f).resizeColumns(width, f)
	}
	return p.resizeColumns(width, f).resizeRows(height, f)
}

// Thumbnail returns the picture itself, or one scaled down so that its longer side has side pixels.
func (p *Picture) Thumbnail(side int, f Filter) *Picture {
	longer := max(p.Width, p.Height)
	if longer <= side {
		return p
	}
	return p.Resize(max(1, p.Width*side/longer), max(1, p.Height*side/longer), f)
}

// resizeColumns filters along x. Two rows are packed into the halves of uint64s, so that one multiplication by a
// weight does two: (a + b 2^32) w = a w + b w 2^32, exactly, modulo 2^64.
func (p *Picture) resizeColumns(width int, f Filter) *Picture {
	if width == p.Width {
		return p
	}
	t := newCoefficients(p.Width, width, f)
	out := NewPicture(width, p.Height)
	parallel((p.Height+1)/2, 3*width*p.Height, func(from, to int) {
		packed := make([][3]uint64, p.Width)
		for pair := from; pair < to; pair++ {
			y0, y1 := 2*pair, min(2*pair+1, p.Height-1)
			r0, r1 := p.row(y0), p.row(y1)
			for i := range packed {
				u, v := r0[3*i:3*i+3], r1[3*i:3*i+3]
				packed[i] = [3]uint64{
					uint64(u[0]) | uint64(v[0])<<32,
					uint64(u[1]) | uint64(v[1])<<32,
					uint64(u[2]) | uint64(v[2])<<32,
				}
			}
			d0, d1 := out.row(y0), out.row(y1)
			for i, lo := range t.first {
				weights := t.weights[t.start[i]:t.start[i+1]]
				src := packed[lo:][:len(weights)]
				r, g, b := uint64(half), uint64(half), uint64(half)
				for k, w := range weights {
					r += src[k][0] * w
					g += src[k][1] * w
					b += src[k][2] * w
				}
				a, c := d0[3*i:3*i+3], d1[3*i:3*i+3]
				a[0], c[0] = unpack(r)
				a[1], c[1] = unpack(g)
				a[2], c[2] = unpack(b)
			}
		}
	})
	return out
}

// resizeRows filters along y, eight bytes of a row at a time: four packed pairs.
func (p *Picture) resizeRows(height int, f Filter) *Picture {
	if height == p.Height {
		return p
	}
	t := newCoefficients(p.Height, height, f)
	out := NewPicture(p.Width, height)
	stride := 3 * p.Width
	const low = 0x000000ff_000000ff
	parallel(height, stride*height, func(from, to int) {
		for y := from; y < to; y++ {
			weights := t.weights[t.start[y]:t.start[y+1]]
			src, dst := p.Pix[t.first[y]*stride:], out.row(y)
			i := 0
			for ; i+8 <= len(dst); i += 8 {
				a, b, c, d := uint64(half), uint64(half), uint64(half), uint64(half)
				at := i
				for _, w := range weights {
					v := binary.LittleEndian.Uint64(src[at:])
					a += (v & low) * w
					b += (v >> 8 & low) * w
					c += (v >> 16 & low) * w
					d += (v >> 24 & low) * w
					at += stride
				}
				o := dst[i : i+8]
				o[0], o[4] = unpack(a)
				o[1], o[5] = unpack(b)
				o[2], o[6] = unpack(c)
				o[3], o[7] = unpack(d)
			}
			for ; i < len(dst); i++ {
				a := uint64(half)
				for k, w := range weights {
					a += uint64(src[k*stride+i]) * w
				}
				dst[i], _ = unpack(a)
			}
		}
	})
	return out
}

// half is one half in both packed sums, for rounding.
const half = 1<<(precisionBits-1) | 1<<(precisionBits-1+32)

// unpack shifts the fractions off two packed signed sums and clips them to bytes.
func unpack(v uint64) (lo, hi byte) {
	l := int32(v)
	h := int32((v - uint64(int64(l))) >> 32) // undo the borrow of a negative lower sum
	return byte(min(max(l>>precisionBits, 0), 255)), byte(min(max(h>>precisionBits, 0), 255))
}

// nearest takes the source pixel under the centre of each output pixel. The centres are accumulated, as Pillow does.
func (p *Picture) nearest(width, height int) *Picture {
	columns, rows := nearestIndices(p.Width, width), nearestIndices(p.Height, height)
	out := NewPicture(width, height)
	for y, sy := range rows {
		src, dst := p.row(sy), out.row(y)
		for x, sx := range columns {
			copy(dst[3*x:3*x+3], src[3*sx:3*sx+3])
		}
	}
	return out
}

func nearestIndices(n, m int) []int {
	step := float64(n) / float64(m)
	at := step * 0.5
	out := make([]int, m)
	for i := range out {
		out[i] = min(int(at), n-1)
		at += step
	}
	return out
}

// parallel calls body for consecutive parts of 0..n, on all CPUs if there are enough bytes to be worth it.
func parallel(n, bytes int, body func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n, 1+bytes>>18)
	workers.Do(parts, func(k int) { body(n*k/parts, n*(k+1)/parts) })
}
