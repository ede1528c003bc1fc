package labeling

import (
	"crypto/sha256"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/heuristics"
)

// repeats finds the names that come more than once among many, with eight bytes of memory for each: what has to be
// remembered of names is remembered of these alone. All names are added, then found is called, then has tells. It tells
// so of a name, too, that merely has the hash of another one: who asks compares names.
type repeats struct {
	seed   maphash.Seed
	hashes []uint64 // sorted after found, and only those of several names
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
	edits, names *repeats            // rows' keys, and ids
	kept         map[[16]byte]said   // the first row of each edit that may come again, by key
	ids          map[string]sampleID // kept rows whose id may come again
}

// sampleID is a sample of a source.
type sampleID struct{ source, sample int }

func newDedup() *dedup {
	return &dedup{newRepeats(), newRepeats(), map[[16]byte]said{}, map[string]sampleID{}}
}

func (d *dedup) add(r *row) {
	key := r.key()
	d.edits.add(string(key[:]))
	d.names.add(r.ID)
}

func (d *dedup) found() {
	d.edits.found()
	d.names.found()
}

// keep remembers a row with that key, if a later one may be the same edit or have the same id.
func (d *dedup) keep(e entry, key [16]byte) {
	if d.names.has(e.Row.ID) {
		d.ids[e.Row.ID] = sampleID{e.source, e.Sample}
	}
	if d.edits.has(string(key[:])) {
		d.kept[key] = saidOf(e.Row)
	}
}

// key tells edits apart: rows with one key are the same.
func (r *row) key() [16]byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.group(), strconv.Itoa(int(r.Kind)), r.Editor, r.Edit.Pixels,
		r.Chain}, "\x00")))
	return [16]byte(sum[:16])
}

// said is what the data say of an edit: another row of it must not say something else.
type said struct {
	id           string
	given        *float64
	by           string // "": its similarities are measured here
	similarities [3]heuristics.Similarity
}

func saidOf(r *row) said {
	return said{r.ID, r.Given, r.By, [3]heuristics.Similarity{r.ClipD, r.ClipI, r.DinoI}}
}

// contradicts names what a further row of the edit says otherwise, or says where the first one says nothing; "" if
// there is nothing to lose with it. Numbers that are written with six digits are the same.
func (s *said) contradicts(again *row) string {
	const digits = 1e-6
	if g := again.Given; g != nil && (s.given == nil || math.Abs(*g-*s.given) > digits) {
		return "label"
	}
	if s.by == "" || again.By == "" {
		return ""
	}
	other := saidOf(again)
	for k, name := range []string{"clip_d", "clip_i", "dino_i"} {
		a, one := s.similarities[k].Value()
		b, two := other.similarities[k].Value()
		if two && (!one || math.Abs(a-b) > digits) {
			return name
		}
	}
	return ""
}
