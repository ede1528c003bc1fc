package labeling

import (
	"hash/maphash"
	"slices"
)

// repeats finds the names that occur more than once, with eight bytes of memory for each name. All names are added,
// then found is called, then has answers. A hash collision makes has true for a name that occurs once.
type repeats struct {
	seed   maphash.Seed
	hashes []uint64 // after found: sorted, only hashes that occur more than once
}

func newRepeats() *repeats { return &repeats{seed: maphash.MakeSeed()} }

func (r *repeats) add(name string) { r.hashes = append(r.hashes, maphash.String(r.seed, name)) }

// found keeps what came more than once, and frees the rest.
func (r *repeats) found() {
	slices.Sort(r.hashes)
	var several []uint64
	for i, h := range r.hashes {
		if i > 0 && h == r.hashes[i-1] && (len(several) == 0 || several[len(several)-1] != h) {
			several = append(several, h)
		}
	}
	r.hashes = several
}

func (r *repeats) has(name string) bool {
	_, ok := slices.BinarySearch(r.hashes, maphash.String(r.seed, name))
	return ok
}

// dedup finds rows of one edit, and ids of two edits. All rows are added, then found is called, then rows are kept.
type dedup struct {
	keys, names *repeats          // rows' keys, and ids
	edits       map[[16]byte]*row // claims of the first row of each edit that may come again, by key
	ids         map[string]*row   // and of kept rows whose id may come again
}

func newDedup() *dedup {
	return &dedup{newRepeats(), newRepeats(), map[[16]byte]*row{}, map[string]*row{}}
}

func (d *dedup) add(r *row) {
	key := r.key()
	d.keys.add(string(key[:]))
	d.names.add(r.ID)
}

func (d *dedup) found() {
	d.keys.found()
	d.names.found()
}

// keep remembers a row with that key, if a later one may be the same edit or have the same id.
func (d *dedup) keep(r *row, key [16]byte) {
	if d.names.has(r.ID) {
		d.ids[r.ID] = r.claims()
	}
	if d.keys.has(string(key[:])) {
		d.edits[key] = r.claims()
	}
}
