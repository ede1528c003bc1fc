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

// The index of near copies. The whole of each thumbnail is indexed in its eight turns by a hash of the signs of its
// lowest frequencies. Every window of every thumbnail that may be left by a crop is then looked up: the four bands that
// a hash consists of are its keys, also with their least certain bits changed (multi-probe hashing), and what agrees in
// most bits is compared pixel by pixel. The work grows with the pictures, and with the pairs that are alike.
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

// band is one part of the hashes: thumbnails in turns, by the key that the part makes.
type band struct {
	first [1<<bandBits + 1]uint32 // of each key, in list
	list  []hashed
}

// hashed is a thumbnail in one turn.
type hashed struct {
	hash  uint64
	entry uint32 // thumbnail*8 + turn
}

// nearIndex knows the thumbnails of pictures.
type nearIndex struct {
	owners []int32 // of each thumbnail
	thumbs []*clippedThumb
	hashes []uint64 // thumbnail*8 + turn
	bands  []*band
}

// add gives a picture to the index; pair calls it by its number.
func (n *nearIndex) add(picture int32, l Thumbnail) {
	if len(l) == 0 {
		return
	}
	thumb := newClippedThumb(clipped(l))
	n.owners, n.thumbs = append(n.owners, picture), append(n.thumbs, thumb)
	s := wholeSpectrum(thumb.pixels[:])
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
		d := &band{list: make([]hashed, len(n.hashes))}
		for _, h := range n.hashes {
			d.first[key(h, b)+1]++
		}
		for k := range 1 << bandBits {
			d.first[k+1] += d.first[k]
		}
		next := d.first
		for i, h := range n.hashes {
			k := key(h, b)
			d.list[next[k]] = hashed{h, uint32(i)}
			next[k]++
		}
		n.bands = append(n.bands, d)
	}
}

// pairs calls found for pictures that are near copies of each other, perhaps several times for two of them and in any
// order, with the bits in which their hashes differ. Those for which skip is true are not compared. Both are called by
// one goroutine at a time.
func (n *nearIndex) pairs(ctx context.Context, skip func(a, b int32) bool, found func(a, b int32, distance int)) error {
	n.build()
	searches := sync.Pool{New: func() any { return newSearch(n) }}
	var mu sync.Mutex
	return workers.Each(len(n.thumbs), runtime.GOMAXPROCS(0), func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := searches.Get().(*search)
		defer searches.Put(s)
		owner := n.owners[i]
		for _, c := range s.candidates(i) {
			other := n.owners[c.entry/turns]
			mu.Lock()
			skipped := skip(owner, other)
			mu.Unlock()
			if skipped || !s.shows(c) {
				continue
			}
			mu.Lock()
			found(owner, other, int(c.distance))
			mu.Unlock()
		}
		return nil
	})
}

// candidate is a thumbnail in one turn that a window of another one may show.
type candidate struct {
	entry    uint32
	distance uint8 // of the hashes, in bits
	window   uint8
	as       *sameness
}

// search looks for what the windows of one thumbnail after the other show. It is used by one goroutine.
type search struct {
	index *nearIndex
	thumb *clippedThumb
	self  int
	// Of each entry that was met, the nearest window, and how near it is; found lists these entries.
	distance, window []uint8
	found            []uint32
	list             []candidate

	windows fitter
}

const unmet = 255 // a distance

func newSearch(n *nearIndex) *search {
	s := &search{index: n, distance: make([]uint8, len(n.hashes)), window: make([]uint8, len(n.hashes))}
	for i := range s.distance {
		s.distance[i] = unmet
	}
	return s
}

// candidates looks up all windows of a thumbnail. Of each other one in each turn it returns the window with the nearest
// hash, the nearest first. The list is good until the next call.
func (s *search) candidates(at int) []candidate {
	n := s.index
	s.thumb, s.self, s.found, s.list = n.thumbs[at], at, s.found[:0], s.list[:0]
	s.windows.take(s.thumb)
	spectra(s.thumb.pixels[:], func(window int, spectrum *spectrum) {
		hash := spectrum.hash()
		for b := range bandCount {
			d := n.bands[b]
			for _, k := range probes(spectrum, hash, b) {
				for _, h := range d.list[d.first[k]:d.first[k+1]] {
					if distance := bits.OnesCount64(hash ^ h.hash); distance <= MaxDistance && uint8(distance) < s.distance[h.entry] {
						s.meet(h.entry, uint8(distance), uint8(window))
					}
				}
			}
		}
	})
	for _, entry := range s.found {
		s.list = append(s.list, candidate{entry, s.distance[entry], s.window[entry], s.sameness(entry)})
		s.distance[entry] = unmet
	}
	slices.SortFunc(s.list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.entry, b.entry))
	})
	return s.list
}

// sameness is what is asked of the thumbnail and an entry.
func (s *search) sameness(entry uint32) *sameness {
	if !s.thumb.clear && !s.index.thumbs[entry/turns].clear {
		return &ofUnclear
	}
	return &ofClear
}

// meet notes that a window is nearer to an entry than those before, if it may be compared with it.
func (s *search) meet(entry uint32, distance, window uint8) {
	as := s.sameness(entry)
	if int(entry/turns) == s.self || int(distance) > as.distance || !as.windows && window != 0 {
		return
	}
	if s.distance[entry] == unmet {
		s.found = append(s.found, entry)
	}
	s.distance[entry], s.window[entry] = distance, window
}

// shows compares the candidate's window with the whole of the candidate, pixel by pixel, after it has fitted the
// window.
func (s *search) shows(c candidate) bool {
	other := s.index.thumbs[c.entry/turns]
	t := turn(c.entry % turns)
	return s.windows.start(int(c.window), other, t) >= leastLike && s.windows.fit(int(c.window), other, t, c.as)
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
