package labeling

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"assay/internal/workers"
)

// The index of near copies. The whole of each thumbnail is indexed in its eight turns by a hash of the signs of its lowest
// frequencies. Every window of every thumbnail that may be left by a crop is then looked up: the four bands that a hash
// consists of are its keys, also with their least certain bits changed (multi-probe hashing), and what agrees in most
// bits is compared pixel by pixel. The work grows with the pictures, and with the pairs that are alike.
const (
	bandBits   = 16
	bandCount  = 4
	probedBits = 4 // the least certain bits of a band, tried both ways

	// MaxDistance is the largest number of bits, of 63, in which hashes of near copies may differ.
	MaxDistance = 16

	leastLike = 0.5 // correlation of thumbnails from which their windows are fitted
)

// sameness is what is asked of near copies once their windows are fitted.
type sameness struct {
	distance int     // of their hashes, at most
	block    float64 // correlation of a block that is the same in both, at least
	blocks   float64 // share of the blocks that are the same
	few      int     // blocks that are compared at least
	whole    float64 // correlation of all blocks that are the same
	detail   float64 // and of what is finer in them than 5 x 5 pixels
	windows  bool    // one may be a part of the other
}

var (
	ofClear   = sameness{MaxDistance, 0.75, 0.7, 9, 0.9, 0.7, true}
	ofUnclear = sameness{4, 0.9, 1, lookBlocks, 0.98, 0.9, false} // of two pictures of which neither shows much
)

// band is one part of the hashes: views in turns, by the key that the part makes.
type band struct {
	first [1<<bandBits + 1]uint32 // of each key, in list
	list  []uint32                // picture*8 + turn
}

// nearIndex knows the looks of pictures.
type nearIndex struct {
	owners []int32 // of each thumbnail
	thumbs [][]byte
	clear  []bool   // it shows so much that only its copies are like it
	hashes []uint64 // picture*8 + turn
	bands  []*band
}

// add gives a picture to the index; pair calls it by its number.
func (n *nearIndex) add(picture int32, l Look) {
	if len(l) == 0 {
		return
	}
	thumb := clipped(l)
	n.owners, n.thumbs = append(n.owners, picture), append(n.thumbs, thumb)
	n.clear = append(n.clear, telling(thumb) >= clearBlocks)
	s := wholeSpectrum(thumb)
	for t := range turn(turns) {
		turned := t.spectrum(&s)
		n.hashes = append(n.hashes, turned.hash())
	}
}

func key(hash uint64, band int) uint32 { return uint32(hash>>(band*bandBits)) & (1<<bandBits - 1) }

// build sorts what was added by its keys.
func (n *nearIndex) build() {
	n.bands = nil
	for b := range bandCount {
		d := &band{list: make([]uint32, len(n.hashes))}
		for _, h := range n.hashes {
			d.first[key(h, b)+1]++
		}
		for k := range 1 << bandBits {
			d.first[k+1] += d.first[k]
		}
		next := d.first
		for i, h := range n.hashes {
			k := key(h, b)
			d.list[next[k]] = uint32(i)
			next[k]++
		}
		n.bands = append(n.bands, d)
	}
}

// pairs calls found for pictures that are near copies of each other, perhaps several times for two of them and in any
// order, with the bits in which their hashes differ. Those for which skip is true are not compared. Both are called by one
// goroutine at a time.
func (n *nearIndex) pairs(ctx context.Context, skip func(a, b int32) bool, found func(a, b int32, distance int)) error {
	n.build()
	var mu sync.Mutex
	return workers.Each(len(n.thumbs), runtime.GOMAXPROCS(0), func(view int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		owner := n.owners[view]
		for _, c := range n.candidates(view) {
			other := n.owners[c.entry/turns]
			mu.Lock()
			skipped := skip(owner, other)
			mu.Unlock()
			if skipped || !shows(n.thumbs[view], c.x, c.y, turn(c.entry%turns).thumb(n.thumbs[c.entry/turns]), c.as) {
				continue
			}
			mu.Lock()
			found(owner, other, c.distance)
			mu.Unlock()
		}
		return nil
	})
}

// candidate is a turned view that a window of another one may show.
type candidate struct {
	entry    uint32
	distance int
	x, y     span
	as       *sameness
}

// candidates looks up all windows of a view. Of each other view in each turn it returns the window with the nearest hash,
// the nearest first.
func (n *nearIndex) candidates(view int) []candidate {
	owner := n.owners[view]
	best := map[uint32]candidate{}
	spectra(n.thumbs[view], func(x, y span, s *spectrum) {
		h := s.hash()
		for b := range bandCount {
			for _, k := range probes(s, h, b) {
				d := n.bands[b]
				for _, entry := range d.list[d.first[k]:d.first[k+1]] {
					distance := bits.OnesCount64(h ^ n.hashes[entry])
					as := &ofClear
					if !n.clear[view] && !n.clear[entry/turns] {
						as = &ofUnclear
					}
					if distance > as.distance || n.owners[entry/turns] == owner || !as.windows && (x != spans[0] || y != spans[0]) {
						continue
					}
					if old, ok := best[entry]; !ok || distance < old.distance {
						best[entry] = candidate{entry, distance, x, y, as}
					}
				}
			}
		}
	})
	list := make([]candidate, 0, len(best))
	for _, c := range best {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.entry, b.entry))
	})
	return list
}

// probes are the keys of a band: its own, and those with its least certain bits, of the smallest coefficients, changed.
func probes(s *spectrum, h uint64, b int) (keys [1 << probedBits]uint32) {
	var weak [probedBits]struct {
		size float64
		bit  int
	}
	for i := range weak {
		weak[i].size = math.Inf(1)
	}
	for bit := range min(bandBits, hashBits-b*bandBits) {
		at := bitOf[b*bandBits+bit]
		size := math.Abs(s[at[0]][at[1]])
		for i := range weak {
			if size < weak[i].size {
				copy(weak[i+1:], weak[i:])
				weak[i].size, weak[i].bit = size, bit
				break
			}
		}
	}
	own := key(h, b)
	for i := range keys {
		keys[i] = own
		for j, w := range weak {
			if i>>j&1 != 0 {
				keys[i] ^= 1 << w.bit
			}
		}
	}
	return keys
}

// shows compares a window of one thumbnail with the whole of another one, pixel by pixel, after it has fitted the window.
func shows(a []byte, x, y span, b []byte, as *sameness) bool {
	var whole, window [lookSize]float64
	for i, v := range b {
		whole[i] = float64(v)
	}
	look := func(x, y span) float64 {
		resample(&window, a, x, y)
		return correlation(window[:], whole[:])
	}
	best := look(x, y)
	if best < leastLike {
		return false
	}
	for _, step := range []float64{0.02, 0.01} {
		for better := as.windows; better; {
			better = false
			for edge := range 8 {
				tx, ty := x, y
				e := []*float64{&tx.from, &tx.to, &ty.from, &ty.to}[edge/2]
				*e = min(max(*e+step*float64(1-edge%2*2), 0), 1)
				if c := look(tx, ty); c > best+1e-4 {
					best, x, y, better = c, tx, ty, true
				}
			}
		}
	}
	resample(&window, a, x, y)
	fineA, fineB := detail(&window), detail(&whole)
	var p, q, fp, fq []float64 // of the blocks that are the same
	blocks, same := 0, 0
	for top := 0; top < lookSide; top += blockSide {
		for left := 0; left < lookSide; left += blockSide {
			from := len(p)
			for i := range blockSide * blockSide {
				at := (top+i/blockSide)*lookSide + left + i%blockSide
				p, q, fp, fq = append(p, window[at]), append(q, whole[at]), append(fp, fineA[at]), append(fq, fineB[at])
			}
			if max(deviation(fp[from:]), deviation(fq[from:])) < blockFlat {
				continue
			}
			if blocks++; correlation(p[from:], q[from:]) >= as.block {
				same++
				continue
			}
			p, q, fp, fq = p[:from], q[:from], fp[:from], fq[:from]
		}
	}
	return blocks >= as.few && float64(same) >= as.blocks*float64(blocks) &&
		correlation(p, q) >= as.whole && correlation(fp, fq) >= as.detail
}

// detail is what a thumbnail has beyond the means of 5 x 5 pixels.
func detail(thumb *[lookSize]float64) (out [lookSize]float64) {
	for y := range lookSide {
		for x := range lookSide {
			sum, n := 0.0, 0.0
			for j := max(y-2, 0); j <= min(y+2, lookSide-1); j++ {
				for i := max(x-2, 0); i <= min(x+2, lookSide-1); i++ {
					sum, n = sum+thumb[j*lookSide+i], n+1
				}
			}
			out[y*lookSide+x] = thumb[y*lookSide+x] - sum/n
		}
	}
	return out
}

// resample stretches a window of a thumbnail over a whole one, bilinearly.
func resample(out *[lookSize]float64, thumb []byte, x, y span) {
	var at [lookSide]int
	var share [lookSide]float64
	place := func(s span, i int) (int, float64) {
		p := (s.from+(s.to-s.from)*(float64(i)+0.5)/lookSide)*lookSide - 0.5
		p = min(max(p, 0), lookSide-1)
		n := min(int(p), lookSide-2)
		return n, p - float64(n)
	}
	for i := range lookSide {
		at[i], share[i] = place(x, i)
	}
	for j := range lookSide {
		n, w := place(y, j)
		upper, lower := thumb[n*lookSide:(n+1)*lookSide], thumb[(n+1)*lookSide:(n+2)*lookSide]
		for i := range lookSide {
			k, s := at[i], share[i]
			u := float64(upper[k])*(1-s) + float64(upper[k+1])*s
			l := float64(lower[k])*(1-s) + float64(lower[k+1])*s
			out[j*lookSide+i] = u*(1-w) + l*w
		}
	}
}

// correlation is Pearson's; 0 if either does not vary.
func correlation(p, q []float64) float64 {
	var sp, sq, pp, qq, pq float64
	for i, a := range p {
		b := q[i]
		sp, sq, pp, qq, pq = sp+a, sq+b, pp+a*a, qq+b*b, pq+a*b
	}
	n := float64(len(p))
	down := (pp - sp*sp/n) * (qq - sq*sq/n)
	if down <= 1e-9 {
		return 0
	}
	return (pq - sp*sq/n) / math.Sqrt(down)
}

func deviation(p []float64) float64 {
	var sum, squares float64
	for _, a := range p {
		sum, squares = sum+a, squares+a*a
	}
	n := float64(len(p))
	return math.Sqrt(max(squares/n-sum*sum/(n*n), 0))
}
