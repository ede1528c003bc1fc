package nearcopy

import (
	"math"
	"slices"
)

// clippedThumb is the thumbnail by which pictures are compared, pixel by pixel.
type clippedThumb struct {
	pixels [thumbnailSize]byte
	sum    float64 // of the pixels
	spread float64 // sum of their squared deviations from the mean
	clear  bool    // so distinctive that only its copies resemble it

	certainty certainty
}

func newClippedThumb(pixels []byte) *clippedThumb {
	t := &clippedThumb{clear: telling(pixels) >= clearBlocks}
	copy(t.pixels[:], pixels)
	squares := 0.0
	for _, p := range pixels {
		t.sum += float64(p)
		squares += float64(p) * float64(p)
	}
	t.spread = squares - t.sum*t.sum/thumbnailSize
	return t
}

// plane is a thumbnail, or a window stretched to the size of one.
type plane [thumbnailSize]float64

func (p *plane) transposed() (out plane) {
	for y := range thumbnailSide {
		for x := range thumbnailSide {
			out[x*thumbnailSide+y] = p[y*thumbnailSide+x]
		}
	}
	return out
}

// fitter fits windows of one thumbnail to other thumbnails. The zero value has no thumbnail.
type fitter struct {
	pixels, across plane // the thumbnail, and its transpose
	started        [windowCount]bool
	windows        [windowCount]plane
	sums, spreads  [windowCount]float64 // as in clippedThumb

	whole, wholeAcross plane // the other thumbnail, and its transpose
	alongX, alongY     axisFit
}

// take makes t the thumbnail whose windows are fitted.
func (f *fitter) take(t *clippedThumb) {
	for i, v := range t.pixels {
		f.pixels[i] = float64(v)
	}
	f.across = f.pixels.transposed()
	f.started = [windowCount]bool{}
}

// start returns the correlation of a window with another thumbnail in a turn.
func (f *fitter) start(window int, other *clippedThumb, t turn) float64 {
	w := &f.windows[window]
	if !f.started[window] {
		f.started[window] = true
		x, y := windowSpans(window)
		resample(w, &f.pixels, x, y)
		sum, squares := 0.0, 0.0
		for _, v := range w {
			sum += v
			squares += v * v
		}
		f.sums[window], f.spreads[window] = sum, squares-sum*sum/thumbnailSize
	}
	var even, odd float64
	turned := &turned[t]
	for i := 0; i < thumbnailSize; i += 2 {
		even += w[i] * float64(other.pixels[turned[i]])
		odd += w[i+1] * float64(other.pixels[turned[i+1]])
	}
	return pearson(even+odd-f.sums[window]*other.sum/thumbnailSize, f.spreads[window]*other.spread)
}

// pearson returns a correlation: products / sqrt(squares), where products is the sum of the products of the
// deviations from the means, and squares the product of the sums of their squares. It is 0 if either side does not
// vary.
func pearson(products, squares float64) float64 {
	if squares <= 1e-9 {
		return 0
	}
	return products / math.Sqrt(squares)
}

// fitSteps are the steps by which the edges of a window are moved while that raises the correlation with the other
// thumbnail.
var fitSteps = []float64{0.02, 0.01}

// fit moves the edges of a window until it fits another thumbnail best, and reports whether the two are then the
// same.
func (f *fitter) fit(window int, other *clippedThumb, t turn, as *sameness) bool {
	for i, from := range &turned[t] {
		f.whole[i] = float64(other.pixels[from])
	}
	x, y := windowSpans(window)
	if as.windows {
		if !promising(&f.windows[window], &f.whole) {
			return false
		}
		x, y = f.climb(x, y, other)
	}
	var laid plane
	resample(&laid, &f.pixels, x, y)
	return as.holds(&laid, &f.whole)
}

// Thresholds for a window before its edges, which are off by less than a pixel, are moved: the mean correlation of
// the blocks that are most alike, and the correlation of detail finer than 5 x 5 pixels.
const (
	promisingBlocks = 11 // of 16, like sameness.blocks of the blocks that show something
	promisingBlock  = 0.5
	promisingDetail = 0.1
)

// promising reports whether a window may fit another thumbnail after its edges are moved. Moving them costs ten times
// as much as this check: see docs/decisions/near-copies.md.
func promising(window, whole *plane) bool {
	var like [blocksAcross * blocksAcross]float64
	for b := range like {
		like[b] = blockCorrelation(window, whole, b)
	}
	slices.Sort(like[:])
	best := 0.0
	for _, c := range like[len(like)-promisingBlocks:] {
		best += c / promisingBlocks
	}
	if best < promisingBlock {
		return false
	}
	fineA, fineB := detail(window), detail(whole)
	return correlation(fineA[:], fineB[:]) >= promisingDetail
}

// climb moves one edge at a time by a step if that raises the correlation with the other thumbnail. Because only one
// axis is resampled, each try costs a few operations per line across it instead of per pixel.
func (f *fitter) climb(x, y span, other *clippedThumb) (span, span) {
	f.wholeAcross = f.whole.transposed()
	f.alongX.hold(&f.across, &f.wholeAcross, y)
	f.alongY.fresh = false
	best := f.alongX.correlation(x, other)
	for _, step := range fitSteps {
		moved, before := -1, 0.0 // the edge that was moved last, and its position before
		for edge, failed := 0, 0; failed < 8; edge = (edge + 1) % 8 {
			tx, ty := x, y
			e := []*float64{&tx.from, &tx.to, &ty.from, &ty.to}[edge/2]
			was := *e
			*e = min(max(*e+step*float64(1-edge%2*2), 0), 1)
			if *e == was || edge/2 == moved && math.Abs(*e-before) < step/4 { // known to be no better
				failed++
				continue
			}
			var c float64
			if edge < 4 {
				if !f.alongX.fresh {
					f.alongX.hold(&f.across, &f.wholeAcross, y)
				}
				c = f.alongX.correlation(tx, other)
			} else {
				if !f.alongY.fresh {
					f.alongY.hold(&f.pixels, &f.whole, x)
				}
				c = f.alongY.correlation(ty, other)
			}
			if c <= best+1e-4 {
				failed++
				continue
			}
			best, x, y, failed, moved, before = c, tx, ty, 0, edge/2, was
			if edge < 4 {
				f.alongY.fresh = false
			} else {
				f.alongX.fresh = false
			}
		}
	}
	return x, y
}

// axisFit holds what is needed to move the ends of a span across the lines of a thumbnail that are stretched over a
// fixed span. A line of the window is interpolated between two of its lines, L + w (M - L), so that its sums follow
// from theirs.
type axisFit struct {
	fresh bool
	lines plane
	whole *plane // the other thumbnail, with its lines along the same axis
	sums  [thumbnailSide]lineSums
	// Dot products of line i of the other thumbnail with line k; valid if bit k of known[i] is set.
	products [thumbnailSide][thumbnailSide]float64
	known    [thumbnailSide]uint32
}

// lineSums holds the sum of a line and of its squares, with the coefficients of their change towards the next line.
type lineSums struct {
	sum, sumGain              float64 // sum L + w sum (M - L)
	square, linear, quadratic float64 // sum L^2 + 2 w sum L (M - L) + w^2 sum (M - L)^2
}

// hold stretches a span of each line of a thumbnail and computes the sums.
func (a *axisFit) hold(thumb, whole *plane, s span) {
	a.fresh, a.whole = true, whole
	at, share := places(s)
	for k := range thumbnailSide {
		line, out := thumb.line(k), a.lines.line(k)
		for i, n := range at {
			v := line[n]
			out[i] = v + share[i]*(line[n+1]-v)
		}
		own := &a.sums[k]
		own.sum, own.square = total(out), dot(out, out)
		if k > 0 {
			last := &a.sums[k-1]
			both := dot(a.lines.line(k-1), out)
			last.sumGain = own.sum - last.sum
			last.linear = 2 * (both - last.square)
			last.quadratic = last.square - 2*both + own.square
		}
	}
	a.known = [thumbnailSide]uint32{}
}

// line returns a row of a plane, or a column if the plane is transposed.
func (p *plane) line(k int) *[thumbnailSide]float64 {
	return (*[thumbnailSide]float64)(p[k*thumbnailSide : (k+1)*thumbnailSide])
}

// total and dot use four independent sums, which do not wait for each other.
func total(p *[thumbnailSide]float64) float64 {
	var a, b, c, d float64
	for i := 0; i < thumbnailSide; i += 4 {
		a, b, c, d = a+p[i], b+p[i+1], c+p[i+2], d+p[i+3]
	}
	return a + b + c + d
}

func dot(p, q *[thumbnailSide]float64) float64 {
	var a, b, c, d float64
	for i := 0; i < thumbnailSide; i += 4 {
		a, b, c, d = a+p[i]*q[i], b+p[i+1]*q[i+1], c+p[i+2]*q[i+2], d+p[i+3]*q[i+3]
	}
	return a + b + c + d
}

// correlation returns the correlation of the other thumbnail with the lines stretched over a span across them.
func (a *axisFit) correlation(s span, other *clippedThumb) float64 {
	var sum, squares, products float64
	step := s.to - s.from
	place := s.from*thumbnailSide + step/2 - 0.5
	for i := range thumbnailSide {
		p := min(max(place+step*float64(i), 0), thumbnailSide-1)
		k := min(int(p), thumbnailSide-2)
		w := p - float64(k)
		if a.known[i]>>k&3 != 3 {
			a.learn(i, k)
		}
		line := &a.sums[k]
		before, after := a.products[i][k], a.products[i][k+1]
		sum += line.sum + w*line.sumGain
		squares += line.square + w*(line.linear+w*line.quadratic)
		products += before + w*(after-before)
	}
	return pearson(products-sum*other.sum/thumbnailSize, (squares-sum*sum/thumbnailSize)*other.spread)
}

// learn computes the products of a line of the other thumbnail with two lines of this one.
func (a *axisFit) learn(i, k int) {
	for n := k; n < k+2; n++ {
		if a.known[i]>>n&1 == 0 {
			a.products[i][n] = dot(a.whole.line(i), a.lines.line(n))
		}
	}
	a.known[i] |= 3 << k
}

// holds reports whether two aligned thumbnails meet the thresholds.
func (as *sameness) holds(window, whole *plane) bool {
	const side = blockSide
	var same [blocksAcross * blocksAcross]bool
	alike := 0
	for b := range same {
		if same[b] = blockCorrelation(window, whole, b) >= as.block; same[b] {
			alike++
		}
	}
	if float64(alike) < as.blocks*float64(as.least) { // too few, however many blocks show something
		return false
	}
	fineA, fineB := detail(window), detail(whole)
	// Values of the blocks that are the same, and of the blocks that show nothing.
	p, q := make([]float64, 0, thumbnailSize), make([]float64, 0, thumbnailSize)
	fp, fq := make([]float64, 0, thumbnailSize), make([]float64, 0, thumbnailSize)
	blocks, agree := 0, 0
	for b := range same {
		if max(blockDeviation(&fineA, b), blockDeviation(&fineB, b)) >= blockFlat {
			if blocks++; !same[b] {
				continue
			}
			agree++
		}
		for y := range side {
			at := blockCorner(b) + y*thumbnailSide
			p, q = append(p, window[at:at+side]...), append(q, whole[at:at+side]...)
			fp, fq = append(fp, fineA[at:at+side]...), append(fq, fineB[at:at+side]...)
		}
	}
	return blocks >= as.least && float64(agree) >= as.blocks*float64(blocks) &&
		correlation(p, q) >= as.whole && correlation(fp, fq) >= as.detail
}

// blockCorner returns the index of the first pixel of a block.
func blockCorner(b int) int { return b/blocksAcross*blockSide*thumbnailSide + b%blocksAcross*blockSide }

// blockCorrelation returns the correlation of one block of two thumbnails.
func blockCorrelation(a, b *plane, block int) float64 {
	var sp, sq, pp, qq, pq float64
	for y := range blockSide {
		at := blockCorner(block) + y*thumbnailSide
		p, q := a[at:at+blockSide], b[at:at+blockSide]
		for i, v := range p {
			w := q[i]
			sp, sq, pp, qq, pq = sp+v, sq+w, pp+v*v, qq+w*w, pq+v*w
		}
	}
	const n = blockSide * blockSide
	return pearson(pq-sp*sq/n, (pp-sp*sp/n)*(qq-sq*sq/n))
}

// blockDeviation returns the standard deviation of a block.
func blockDeviation(a *plane, block int) float64 {
	var sum, squares float64
	for y := range blockSide {
		at := blockCorner(block) + y*thumbnailSide
		for _, v := range a[at : at+blockSide] {
			sum, squares = sum+v, squares+v*v
		}
	}
	const n = blockSide * blockSide
	return math.Sqrt(max(squares/n-sum*sum/(n*n), 0))
}

// detail returns a thumbnail minus its means over 5 x 5 pixels.
func detail(thumb *plane) (out plane) {
	var rows plane // sums of five pixels of a row
	for y := range thumbnailSide {
		line := thumb[y*thumbnailSide : (y+1)*thumbnailSide]
		sum := line[0] + line[1]
		for x := range thumbnailSide {
			if x+2 < thumbnailSide {
				sum += line[x+2]
			}
			if x > 2 {
				sum -= line[x-3]
			}
			rows[y*thumbnailSide+x] = sum
		}
	}
	for y := range thumbnailSide {
		first, last := max(y-2, 0), min(y+2, thumbnailSide-1)
		for x := range thumbnailSide {
			sum := 0.0
			for j := first; j <= last; j++ {
				sum += rows[j*thumbnailSide+x]
			}
			n := (last - first + 1) * (min(x+2, thumbnailSide-1) - max(x-2, 0) + 1)
			out[y*thumbnailSide+x] = thumb[y*thumbnailSide+x] - sum/float64(n)
		}
	}
	return out
}

// places returns the origin of each pixel of a span that is stretched over an axis: the pixel before, and the weight
// of the next one.
func places(s span) (at [thumbnailSide]int, share [thumbnailSide]float64) {
	step := s.to - s.from
	for i := range thumbnailSide {
		p := min(max(s.from*thumbnailSide+step*(float64(i)+0.5)-0.5, 0), thumbnailSide-1)
		at[i] = min(int(p), thumbnailSide-2)
		share[i] = p - float64(at[i])
	}
	return at, share
}

// resample stretches a window of a thumbnail to a full thumbnail, bilinearly.
func resample(out, thumb *plane, x, y span) {
	atX, shareX := places(x)
	atY, shareY := places(y)
	for j := range thumbnailSide {
		n, w := atY[j], shareY[j]
		upper, lower := thumb[n*thumbnailSide:(n+1)*thumbnailSide], thumb[(n+1)*thumbnailSide:(n+2)*thumbnailSide]
		for i := range thumbnailSide {
			k, s := atX[i], shareX[i]
			u := upper[k]*(1-s) + upper[k+1]*s
			l := lower[k]*(1-s) + lower[k+1]*s
			out[j*thumbnailSide+i] = u*(1-w) + l*w
		}
	}
}

// correlation returns Pearson's correlation; 0 if either does not vary.
func correlation(p, q []float64) float64 {
	var sp, sq, pp, qq, pq float64
	for i, a := range p {
		b := q[i]
		sp, sq, pp, qq, pq = sp+a, sq+b, pp+a*a, qq+b*b, pq+a*b
	}
	n := float64(len(p))
	return pearson(pq-sp*sq/n, (pp-sp*sp/n)*(qq-sq*sq/n))
}

func deviation(p []float64) float64 {
	var sum, squares float64
	for _, a := range p {
		sum, squares = sum+a, squares+a*a
	}
	n := float64(len(p))
	return math.Sqrt(max(squares/n-sum*sum/(n*n), 0))
}
