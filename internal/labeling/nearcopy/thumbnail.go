package nearcopy

import (
	"cmp"
	"math"
	"slices"

	"assay/data"
)

const (
	thumbnailSide = 24 // pixels, of the grey thumbnails
	thumbnailSize = thumbnailSide * thumbnailSide
	hashLow       = 8 // number of lowest frequencies per axis that are hashed
	hashBits      = hashLow*hashLow - 1

	blockSide    = 6 // pixels, of the 16 blocks of a thumbnail
	blocksAcross = thumbnailSide / blockSide
	blockFlat    = 1.5 // standard deviation of a block's detail, in grey levels, below which it shows nothing
	minBlocks    = 4   // fewest blocks that show something in a picture with a thumbnail
	clearBlocks  = 12  // the same for a picture so distinctive that only its copies resemble it

	borderLevels = 4    // grey levels by which a border pixel may differ from the mean of the outermost line
	borderShare  = 0.98 // smallest share of a line's pixels within borderLevels
	borderLeft   = 0.2  // smallest share of a side that must be left after cutting borders
)

// Thumbnail is what a picture has in common with its near copies: a grey thumbnail of 24 x 24 bytes of the picture
// without its uniform borders. It is empty if that shows too little to be distinguished from others, such as a single
// colour.
type Thumbnail []byte

// ThumbnailOf returns the Thumbnail of a picture: in grey (Pillow's L), without borders, resized with Pillow's
// bilinear filter.
func ThumbnailOf(p *data.Picture) Thumbnail {
	small := withoutBorders(grey(p)).Resize(thumbnailSide, thumbnailSide, data.Bilinear)
	l := make(Thumbnail, thumbnailSize)
	for i := range l {
		l[i] = small.Pix[3*i]
	}
	if telling(clipped(l)) < minBlocks {
		return nil
	}
	return l
}

// clipped clips values that are further than 1.3 standard deviations from the mean, so that a small bright or dark
// mark does not outweigh the rest.
func clipped(thumb []byte) []byte {
	values := make([]float64, len(thumb))
	mean := 0.0
	for i, v := range thumb {
		values[i] = float64(v)
		mean += float64(v) / float64(len(thumb))
	}
	reach := 1.3 * deviation(values)
	out := make([]byte, len(thumb))
	for i, v := range values {
		out[i] = byte(math.Round(min(max(v, mean-reach, 0), mean+reach, 255)))
	}
	return out
}

// telling counts the blocks of a thumbnail, out of 16, that show detail finer than 5 x 5 pixels.
func telling(thumb []byte) (blocks int) {
	var values plane
	for i, v := range thumb {
		values[i] = float64(v)
	}
	fine := detail(&values)
	for b := range blocksAcross * blocksAcross {
		if blockDeviation(&fine, b) >= blockFlat {
			blocks++
		}
	}
	return blocks
}

// withoutBorders cuts uniform rows and columns off the sides of a grey picture, unless almost nothing would be left.
func withoutBorders(g *data.Picture) *data.Picture {
	x0, x1, y0, y1 := 0, g.Width, 0, g.Height
	some := func() bool { return x0 < x1 && y0 < y1 }
	// cut counts the uniform lines starting at the first: n pixels each, with the first pixel of line i at from +
	// i*next.
	cut := func(from, next, step, n, lines int) int {
		like := func(at, level int) bool {
			found := 0
			for i := range n {
				if d := int(g.Pix[3*(at+i*step)]) - level; -borderLevels <= d && d <= borderLevels {
					found++
				}
			}
			return float64(found) >= borderShare*float64(n)
		}
		sum := 0
		for i := range n {
			sum += int(g.Pix[3*(from+i*step)])
		}
		level := (sum + n/2) / n
		for i := range lines {
			if !like(from+i*next, level) {
				return i
			}
		}
		return lines
	}
	for range 2 { // cutting bars at the sides may expose more uniform rows above and below
		if some() {
			y0 += cut(y0*g.Width+x0, g.Width, 1, x1-x0, y1-y0)
		}
		if some() {
			y1 -= cut((y1-1)*g.Width+x0, -g.Width, 1, x1-x0, y1-y0)
		}
		if some() {
			x0 += cut(y0*g.Width+x0, 1, g.Width, y1-y0, x1-x0)
		}
		if some() {
			x1 -= cut(y0*g.Width+x1-1, -1, g.Width, y1-y0, x1-x0)
		}
	}
	w, h := x1-x0, y1-y0
	if !some() || w == g.Width && h == g.Height || float64(w) < borderLeft*float64(g.Width) ||
		float64(h) < borderLeft*float64(g.Height) {
		return g
	}
	return g.Crop(x0, y0, w, h)
}

// grey is Pillow's conversion to L, stored in three channels: (19595 R + 38470 G + 7471 B + 2^15) / 2^16.
func grey(p *data.Picture) *data.Picture {
	out := data.NewPicture(p.Width, p.Height)
	for i := 0; i < len(p.Pix); i += 3 {
		l := byte((19595*uint32(p.Pix[i]) + 38470*uint32(p.Pix[i+1]) + 7471*uint32(p.Pix[i+2]) + 1<<15) >> 16)
		out.Pix[i], out.Pix[i+1], out.Pix[i+2] = l, l, l
	}
	return out
}

// span is a part of an axis, as fractions of its length.
type span struct{ from, to float64 }

// spans are the parts of an axis that are hashed: up to a tenth is cut off each end. The first is the full axis.
var spans = func() (s []span) {
	for _, a := range []float64{0, 0.05, 0.1} {
		for _, b := range []float64{0, 0.05, 0.1} {
			s = append(s, span{a, 1 - b})
		}
	}
	return s
}()

// waves are the lowest cosines over a span, integrated over each pixel of the axis: the type II DCT of the span as if
// it were resampled. [k][n] = integral over pixel n, as far as it is in the span, of cos(pi k (t - from) / (to - from))
// dt.
type waves [hashLow][thumbnailSide]float64

var spanWaves = func() (out []waves) {
	for _, s := range spans {
		var w waves
		for n := range thumbnailSide {
			a, b := max(float64(n)/thumbnailSide, s.from), min(float64(n+1)/thumbnailSide, s.to)
			if a >= b {
				continue
			}
			w[0][n] = b - a
			for k := 1; k < hashLow; k++ {
				f := math.Pi * float64(k) / (s.to - s.from)
				w[k][n] = (math.Sin(f*(b-s.from)) - math.Sin(f*(a-s.from))) / f
			}
		}
		out = append(out, w)
	}
	return out
}()

// spectrum holds the lowest coefficients [v][u] of a window; v is the frequency along y.
type spectrum [hashLow][hashLow]float64

// along transforms the rows of a thumbnail over a span of x; it returns [y][u].
func along(thumb []byte, w *waves) (out [thumbnailSide][hashLow]float64) {
	var row [thumbnailSide]float64
	for y := range thumbnailSide {
		for x, v := range thumb[y*thumbnailSide : (y+1)*thumbnailSide] {
			row[x] = float64(v)
		}
		for u := range hashLow {
			sum := 0.0
			for x, wave := range &w[u] {
				sum += wave * row[x]
			}
			out[y][u] = sum
		}
	}
	return out
}

// across transforms the result of along over a span of y.
func across(rows *[thumbnailSide][hashLow]float64, w *waves) (s spectrum) {
	for v := range hashLow {
		var a, b, c, d, e, f, g, h float64
		for y, wave := range &w[v] {
			r := &rows[y]
			a, b, c, d = a+wave*r[0], b+wave*r[1], c+wave*r[2], d+wave*r[3]
			e, f, g, h = e+wave*r[4], f+wave*r[5], g+wave*r[6], h+wave*r[7]
		}
		s[v] = [hashLow]float64{a, b, c, d, e, f, g, h}
	}
	return s
}

// windowCount is the number of windows that a crop may leave of a thumbnail.
const windowCount = 81

// windowSpans returns the spans of the axes that a window shows. Window 0 is the full thumbnail.
func windowSpans(window int) (x, y span) { return spans[window/len(spans)], spans[window%len(spans)] }

// spectra calls f with every window that a crop may leave of a thumbnail, and its spectrum.
func spectra(thumb []byte, f func(window int, s *spectrum)) {
	for i := range spans {
		rows := along(thumb, &spanWaves[i])
		for j := range spans {
			s := across(&rows, &spanWaves[j])
			f(i*len(spans)+j, &s)
		}
	}
}

// wholeSpectrum returns the spectrum of a full thumbnail.
func wholeSpectrum(thumb []byte) spectrum {
	rows := along(thumb, &spanWaves[0])
	return across(&rows, &spanWaves[0])
}

// bitOf lists the frequencies (v, u) in the order of their bits, lowest bit first: from the lowest frequencies, which
// change least, to the highest. The mean is left out.
var bitOf = func() [hashBits][2]int {
	var list [][2]int
	for v := range hashLow {
		for u := range hashLow {
			list = append(list, [2]int{v, u})
		}
	}
	slices.SortStableFunc(list, func(a, b [2]int) int { return cmp.Compare(a[0]*a[0]+a[1]*a[1], b[0]*b[0]+b[1]*b[1]) })
	return [hashBits][2]int(list[1:])
}()

// hash has a bit for each coefficient: whether it is above 0.
func (s *spectrum) hash() (h uint64) {
	for bit, at := range &bitOf {
		if s[at[0]][at[1]] > 0 {
			h |= 1 << bit
		}
	}
	return h
}

// certainty is, for each bit of a hash, the square root of the coefficient's absolute value times the frequency,
// because low frequencies are larger in all pictures. The product of two of them is the certainty of both.
type certainty [hashBits]float32

func certaintyOf(sizes *[hashBits]float64) (c certainty) {
	for bit, size := range sizes {
		c[bit] = float32(math.Sqrt(size * frequencyOf[bit]))
	}
	return c
}

// frequencyOf is the frequency of each bit, in half waves along the diagonal; transposedBit is its index in the
// transposed picture.
var frequencyOf, transposedBit = func() (f [hashBits]float64, t [hashBits]int) {
	for bit, at := range &bitOf {
		f[bit] = math.Hypot(float64(at[0]), float64(at[1]))
		t[bit] = slices.Index(bitOf[:], [2]int{at[1], at[0]})
	}
	return f, t
}()

// sizes returns the absolute values of the coefficients, in the order of their bits.
func (s *spectrum) sizes() (out [hashBits]float64) {
	for bit, at := range &bitOf {
		out[bit] = math.Abs(s[at[0]][at[1]])
	}
	return out
}

// turn is one of the eight symmetries of a square. The picture is first transposed (bit 2), then mirrored left to
// right (bit 0) and top to bottom (bit 1). Turn 0 is the identity.
type turn int

const turns = 8

// spectrum returns the spectrum of the turned picture: a mirror changes the sign of the odd frequencies.
func (t turn) spectrum(s *spectrum) (out spectrum) {
	for v := range hashLow {
		for u := range hashLow {
			c := s[v][u]
			if t&4 != 0 {
				c = s[u][v]
			}
			if (int(t)&1*u+int(t)>>1&1*v)&1 != 0 {
				c = -c
			}
			out[v][u] = c
		}
	}
	return out
}

// turned holds, for each turn, the source index of every pixel of the turned thumbnail.
var turned = func() (from [turns][thumbnailSize]uint16) {
	for t := range turns {
		for y := range thumbnailSide {
			for x := range thumbnailSide {
				fy, fx := y, x
				if t&1 != 0 {
					fx = thumbnailSide - 1 - x
				}
				if t&2 != 0 {
					fy = thumbnailSide - 1 - y
				}
				if t&4 != 0 {
					fy, fx = fx, fy
				}
				from[t][y*thumbnailSide+x] = uint16(fy*thumbnailSide + fx)
			}
		}
	}
	return from
}()
