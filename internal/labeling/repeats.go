package labeling

import (
	"hash/maphash"
	"slices"
)

// repeats finds the names that occur more than once, with eight bytes of memory per name. First all names are added,
// then found is called, then has may be called. A hash collision makes has true for a name that occurs once.
type repeats struct {
	seed   maphash.Seed
	hashes []uint64 // after found: sorted, only hashes that occur more than once
}

func newRepeats() *repeats { return &repeats{seed: maphash.MakeSeed()} }

func (r *repeats) add(name string) { r.hashes = append(r.hashes, maphash.String(r.seed, name)) }

// found keeps the hashes that occur more than once, and frees the rest.
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

// dedup finds rows of the same edit, and ids that several edits share. First all rows are added, then found is
// called, then keep.
type dedup struct {
	keys, names *repeats          // keys and ids of rows
	edits       map[[16]byte]*row // claims of the first row of each edit that may be repeated, by key
	ids         map[string]*row   // claims of kept rows whose id may be repeated
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
