// Package nearcopy finds near-duplicate pictures: crops, mirrored and turned copies, copies with borders, watermarks,
// other sizes, colours and compression.
//
//	ThumbnailOf   the picture without its uniform borders, in grey, at 24 x 24 pixels
//	Index.Add     perceptual hashes of the thumbnail in its eight orientations, in four bands (LSH)
//	Index.Pairs   looks up 81 windows of each thumbnail, each a possible crop; entries that agree in most bits are
//	              aligned and compared pixel by pixel
//
// docs/decisions/near-copies.md explains the design, and docs/label.md says how many copies it finds.
package nearcopy

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"assay/internal/workers"
)

// The work grows with the number of pictures and of similar pairs. It is limited for each picture: at most maxListed
// entries of each key are examined, and at most MaxCompared of the resulting candidates are compared. The least
// certain bits of a window's key are tried both ways (multi-probe hashing).
const (
	bandBits   = 16
	bandCount  = 4
	probedBits = 4 // the least certain bits of a band, tried both ways

	// MaxDistance is the largest number of bits, of 63, in which hashes of near copies may differ.
	MaxDistance = 16

	maxDoubt = 0.15 // largest share of the certainty of all bits that differing bits may have
	minLike  = 0.5  // smallest correlation of thumbnails at which windows are fitted

	maxListed = 512 // entries of a key that are examined: those nearest to the hash in its other bits
	// MaxCompared is the maximum number of pictures that are compared pixel by pixel with each picture.
	MaxCompared = 256
)

// sameness holds the thresholds for near copies after their windows are fitted.
type sameness struct {
	distance int     // largest distance of their hashes
	block    float64 // smallest correlation of a block that counts as the same
	blocks   float64 // smallest share of the blocks that are the same
	least    int     // smallest number of blocks that are compared
	whole    float64 // smallest correlation of all blocks that are the same
	detail   float64 // the same of their detail finer than 5 x 5 pixels
	windows  bool    // one may be a crop of the other
}

var (
	ofClear   = sameness{MaxDistance, 0.75, 0.7, 9, 0.9, 0.7, true}
	ofUnclear = sameness{4, 0.9, 1, minBlocks, 0.98, 0.9, false} // for two pictures that both show little
)

// band is one band of the hashes: thumbnails in all turns, by their key in the band.
type band struct {
	first [1<<bandBits + 1]uint32 // by key: its first index in list
	list  []hashed
}

// shelf holds a list for each band; nil if there are no entries.
type shelf []*band

// hashed is a thumbnail in one turn.
type hashed struct {
	hash  uint64
	entry uint32 // thumbnail*8 + turn
}

// Index holds the thumbnails of pictures. The zero Index is empty.
type Index struct {
	pictures []indexed    // sorted by pixels in build, so that the order of Add does not matter
	hashes   []uint64     // by thumbnail*8 + turn
	data     shelf        // pictures with numbers >= 0
	guarded  shelf        // pictures of benchmarks
	crowded  atomic.Int64 // pictures compared with only a part of the similar ones
}

// indexed is a picture in the index.
type indexed struct {
	owner int32
	*clippedThumb
}

// Add adds the thumbnail of a picture, unless it is empty; Pairs reports the picture by its number. Pictures of
// benchmarks have negative numbers: no limit applies to pictures similar to them.
func (n *Index) Add(picture int32, l Thumbnail) {
	if len(l) > 0 {
		n.pictures = append(n.pictures, indexed{picture, newClippedThumb(clipped(l))})
	}
}

func key(hash uint64, band int) uint32 { return uint32(hash>>(band*bandBits)) & (1<<bandBits - 1) }

// build sorts the pictures by their pixels, and then their hashes by key.
func (n *Index) build() {
	slices.SortFunc(n.pictures, func(a, b indexed) int {
		return cmp.Or(bytes.Compare(a.pixels[:], b.pixels[:]), cmp.Compare(a.owner, b.owner))
	})
	n.hashes = make([]uint64, turns*len(n.pictures))
	workers.Do(len(n.pictures), func(i int) {
		s := wholeSpectrum(n.pictures[i].pixels[:])
		sizes := s.sizes()
		n.pictures[i].certainty = certaintyOf(&sizes)
		for t := range turn(turns) {
			turned := t.spectrum(&s)
			n.hashes[i*turns+int(t)] = turned.hash()
		}
	})
	n.data = n.shelve(func(owner int32) bool { return owner >= 0 })
	n.guarded = n.shelve(func(owner int32) bool { return owner < 0 })
}

// shelve returns the shelf of the pictures whose numbers are wanted.
func (n *Index) shelve(wanted func(owner int32) bool) (s shelf) {
	var entries []hashed
	for i, h := range n.hashes {
		if wanted(n.pictures[i/turns].owner) {
			entries = append(entries, hashed{h, uint32(i)})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	for b := range bandCount {
		d := &band{list: make([]hashed, len(entries))}
		for _, h := range entries {
			d.first[key(h.hash, b)+1]++
		}
		for k := range 1 << bandBits {
			d.first[k+1] += d.first[k]
		}
		next := d.first
		for _, h := range entries {
			k := key(h.hash, b)
			d.list[next[k]] = h
			next[k]++
		}
		for k := range 1 << bandBits {
			if list := d.of(uint32(k)); len(list) > maxListed {
				slices.SortFunc(list, func(a, b hashed) int {
					return cmp.Or(cmp.Compare(bits.Reverse64(a.hash), bits.Reverse64(b.hash)), cmp.Compare(a.entry, b.entry))
				})
			}
		}
		s = append(s, d)
	}
	return s
}

func (d *band) of(key uint32) []hashed { return d.list[d.first[key]:d.first[key+1]] }

// around returns the entries with a key, and all = true. If there are more than maxListed, which are then sorted by
// their bits (the lowest frequencies first), it returns the maxListed nearest to a hash in that order, and all =
// false.
func (d *band) around(key uint32, b int, hash uint64) (list []hashed, all bool) {
	list = d.of(key)
	if len(list) <= maxListed {
		return list, true
	}
	mask := uint64(1<<bandBits-1) << (b * bandBits)
	place := bits.Reverse64(hash&^mask | uint64(key)<<(b*bandBits))
	at, _ := slices.BinarySearchFunc(list, place, func(h hashed, place uint64) int {
		return cmp.Compare(bits.Reverse64(h.hash), place)
	})
	from := min(max(at-maxListed/2, 0), len(list)-maxListed)
	return list[from : from+maxListed], false
}

// Crowded is the number of pictures that Pairs compared with only a part of the similar ones.
func (n *Index) Crowded() int { return int(n.crowded.Load()) }

// Pairs calls found for every two pictures that are near copies of each other, with the number of bits in which their
// hashes differ. The order is arbitrary, and a pair may be found several times. Pairs for which skip is true are not
// compared. Both functions are called by one goroutine at a time.
func (n *Index) Pairs(ctx context.Context, skip func(a, b int32) bool, found func(a, b int32, distance int)) error {
	if n.build(); n.data == nil {
		return nil
	}
	searches := sync.Pool{New: func() any { return newSearch(n) }}
	var mu sync.Mutex
	return workers.Each(len(n.pictures), runtime.GOMAXPROCS(0), func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := searches.Get().(*search)
		defer searches.Put(s)
		owner := n.pictures[i].owner
		for _, c := range s.candidates(i) {
			other := n.pictures[c.entry/turns].owner
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

// candidate is a thumbnail in one turn that a window of another thumbnail may show.
type candidate struct {
	entry    uint32
	distance uint8 // of the hashes, in bits
	window   uint8
	as       *sameness
}

// search looks for copies of one thumbnail after another, window by window. It is used by one goroutine.
type search struct {
	index *Index
	thumb *clippedThumb
	self  int
	// By entry: the distance of the nearest window, and that window. found lists the entries that were met.
	distance, window []uint8
	found            []uint32
	list             []candidate

	hashes    [windowCount]uint64
	certainty [windowCount]certainty
	windows   fitter
	cut       bool // some entries of a key, or some candidates, were not compared
}

const unmet = 255 // a distance

func newSearch(n *Index) *search {
	s := &search{index: n, distance: make([]uint8, len(n.hashes)), window: make([]uint8, len(n.hashes))}
	for i := range s.distance {
		s.distance[i] = unmet
	}
	return s
}

// candidates looks up all windows of a thumbnail. For each other thumbnail in each turn it returns the window with
// the nearest hash, nearest first. The list is valid until the next call.
func (s *search) candidates(at int) []candidate {
	n := s.index
	s.thumb, s.self, s.found, s.list = n.pictures[at].clippedThumb, at, s.found[:0], s.list[:0]
	s.cut = false
	s.windows.take(s.thumb)
	spectra(s.thumb.pixels[:], func(window int, spectrum *spectrum) {
		hash, sizes := spectrum.hash(), spectrum.sizes()
		s.hashes[window], s.certainty[window] = hash, certaintyOf(&sizes)
		for b := range bandCount {
			for _, k := range probes(&sizes, hash, b) {
				switch {
				case n.pictures[at].owner < 0:
					s.match(n.data[b].of(k), hash, window)
				case n.guarded != nil:
					s.match(n.guarded[b].of(k), hash, window)
					fallthrough
				default:
					list, all := n.data[b].around(k, b, hash)
					s.match(list, hash, window)
					s.cut = s.cut || !all
				}
			}
		}
	})
	for _, entry := range s.found {
		c := candidate{entry, s.distance[entry], s.window[entry], s.sameness(entry)}
		if s.distance[entry] = unmet; !c.as.windows || s.doubt(c) <= maxDoubt {
			s.list = append(s.list, c)
		}
	}
	slices.SortFunc(s.list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.entry, b.entry))
	})
	s.bound()
	return s.list
}

// match records the entries that are near the hash of a window.
func (s *search) match(list []hashed, hash uint64, window int) {
	for _, h := range list {
		if distance := bits.OnesCount64(hash ^ h.hash); distance <= MaxDistance && uint8(distance) < s.distance[h.entry] {
			s.meet(h.entry, uint8(distance), uint8(window))
		}
	}
}

// bound cuts the list to MaxCompared. Candidates that involve benchmark pictures are never cut.
func (s *search) bound() {
	if s.index.pictures[s.self].owner < 0 {
		return
	}
	if len(s.list) > MaxCompared {
		kept := s.list[:MaxCompared]
		for _, c := range s.list[MaxCompared:] {
			if s.index.pictures[c.entry/turns].owner < 0 {
				kept = append(kept, c)
			} else {
				s.cut = true
			}
		}
		s.list = kept
	}
	if s.cut {
		s.index.crowded.Add(1)
	}
}

// doubt returns the certainty of the bits that differ, as a share of the certainty of all bits. Copies differ in bits
// that are uncertain in both.
func (s *search) doubt(c candidate) float32 {
	own, other := &s.certainty[c.window], &s.index.pictures[c.entry/turns].certainty
	differ := s.hashes[c.window] ^ s.index.hashes[c.entry]
	transposed := turn(c.entry%turns)&4 != 0
	var sum, bad float32
	for bit, a := range own {
		at := bit
		if transposed {
			at = transposedBit[bit]
		}
		both := a * other[at]
		sum += both
		if differ>>bit&1 != 0 {
			bad += both
		}
	}
	return bad / max(sum, 1e-9)
}

// sameness returns the thresholds for the thumbnail and an entry.
func (s *search) sameness(entry uint32) *sameness {
	if !s.thumb.clear && !s.index.pictures[entry/turns].clear {
		return &ofUnclear
	}
	return &ofClear
}

// meet records that a window is nearer to an entry than all before, if the two may be compared.
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

// shows fits the window and compares it with the candidate's full thumbnail, pixel by pixel.
func (s *search) shows(c candidate) bool {
	other := s.index.pictures[c.entry/turns].clippedThumb
	t := turn(c.entry % turns)
	return s.windows.start(int(c.window), other, t) >= minLike && s.windows.fit(int(c.window), other, t, c.as)
}

// probes returns the keys of a band to look up: its own, and those with its least certain bits (the ones with the
// smallest coefficients) flipped.
func probes(sizes *[hashBits]float64, h uint64, b int) (keys [1 << probedBits]uint32) {
	own := sizes[b*bandBits : min((b+1)*bandBits, hashBits)]
	var size [probedBits]float64
	var bit [probedBits]int
	for i := range size {
		size[i] = math.Inf(1)
	}
	for i, v := range own {
		at := probedBits
		for at > 0 && v < size[at-1] {
			at--
		}
		if at < probedBits {
			copy(size[at+1:], size[at:])
			copy(bit[at+1:], bit[at:])
			size[at], bit[at] = v, i
		}
	}
	keys[0] = key(h, b)
	for i := 1; i < len(keys); i++ {
		keys[i] = keys[i&(i-1)] ^ 1<<bit[bits.TrailingZeros(uint(i))]
	}
	return keys
}
