package labeling

import (
	"math"
	"math/bits"
	"slices"

	"assay/data"
)

const (
	hashSide = 32 // of the grey picture that is transformed
	hashLow  = 8  // lowest frequencies of each axis that are kept
)

// Hash is a perceptual hash of 64 bits: pictures that look the same differ in few of them, whatever their size and file
// format.
type Hash uint64

// PerceptualHash computes the hash that the Python library imagehash calls phash: the picture in grey, resized to 32 x 32
// (Lanczos), transformed by the type II DCT along both axes; of the 8 x 8 lowest frequencies, row by row, highest bit
// first, a bit says whether it is above their median.
func PerceptualHash(p *data.Picture) Hash {
	small := grey(p).Resize(hashSide, hashSide, data.Lanczos)
	var rows, low [hashLow * hashSide]float64 // rows[k, x] after the first axis
	for k := range hashLow {
		for x := range hashSide {
			for y := range hashSide {
				rows[k*hashSide+x] += float64(small.Pix[3*(y*hashSide+x)]) * cosines[k][y]
			}
		}
	}
	coefficients := low[:hashLow*hashLow]
	for k := range hashLow {
		for l := range hashLow {
			for x := range hashSide {
				coefficients[k*hashLow+l] += rows[k*hashSide+x] * cosines[l][x]
			}
		}
	}
	sorted := slices.Sorted(slices.Values(coefficients))
	median := (sorted[31] + sorted[32]) / 2
	var h Hash
	for _, c := range coefficients {
		h <<= 1
		if c > median {
			h |= 1
		}
	}
	return h
}

// cosines[k][n] = 2 cos(pi k (2n+1) / 2N)
var cosines = func() (c [hashLow][hashSide]float64) {
	for k := range c {
		for n := range c[k] {
			c[k][n] = 2 * math.Cos(math.Pi*float64(k*(2*n+1))/(2*hashSide))
		}
	}
	return c
}()

// grey is Pillow's conversion to L, kept in three channels: (19595 R + 38470 G + 7471 B + 2^15) / 2^16.
func grey(p *data.Picture) *data.Picture {
	out := data.NewPicture(p.Width, p.Height)
	for i := 0; i < len(p.Pix); i += 3 {
		l := byte((19595*uint32(p.Pix[i]) + 38470*uint32(p.Pix[i+1]) + 7471*uint32(p.Pix[i+2]) + 1<<15) >> 16)
		out.Pix[i], out.Pix[i+1], out.Pix[i+2] = l, l, l
	}
	return out
}

// Distance is the number of bits in which two hashes differ.
func (h Hash) Distance(o Hash) int { return bits.OnesCount64(uint64(h ^ o)) }

// Telling reports whether the hash tells pictures apart: that of a picture of one colour has a single bit.
func (h Hash) Telling() bool { n := bits.OnesCount64(uint64(h)); return 16 <= n && n <= 48 }
