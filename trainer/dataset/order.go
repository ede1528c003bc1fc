package dataset

import (
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
	"slices"

	"assay/trainer/config"
)

// Everything random in a run is a function of the seed and of what it is for: there is no generator whose state would
// have to be saved. purpose keeps the streams apart.
type purpose uint64

const (
	forOrder purpose = iota + 1
	forGroupRow
	forQuestion
	forAnswer
	forAugment
	ForDropout
	forHoldOut
	ForDraws
)

// Mix hashes numbers to 64 even bits, by the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) after each.
func Mix(seed uint64, what purpose, numbers ...uint64) uint64 {
	h := finalize(seed + 0x9e3779b97f4a7c15*uint64(what))
	for _, n := range numbers {
		h = finalize(h + 0x9e3779b97f4a7c15 + n)
	}
	return h
}

func finalize(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// pick maps 64 even bits to 0..n-1 (Lemire's multiplication; the bias is below n/2^64).
func pick(h uint64, n int) int {
	hi, _ := bits.Mul64(h, uint64(n))
	return int(hi)
}

// Order says which sample comes when. An epoch visits every unit once, in an order of its own; a unit is a row, or a
// group of rows of which one is drawn per epoch.
type Order struct {
	Seed  uint64
	Units [][]int // rows (indices into the training rows) of each unit

	rows []float64 // weights that rows are drawn by; nil: every unit once an epoch
	ends []float64 // sums of the units' weights

	epoch int64 // of permutation
	perm  []int32
}

// NewOrder makes units of single rows, or of groups in the order of their first rows.
func NewOrder(seed uint64, groups []string, sampling string) *Order {
	o := &Order{Seed: seed, epoch: -1}
	at := map[string]int{}
	for i, g := range groups {
		if sampling == "group" || sampling == config.WholeGroups {
			if u, ok := at[g]; ok {
				o.Units[u] = append(o.Units[u], i)
				continue
			}
			at[g] = len(o.Units)
		}
		o.Units = append(o.Units, []int{i})
	}
	return o
}

// Len is the number of samples of an epoch.
func (o *Order) Len() int64 { return int64(len(o.Units)) }

// Unit gives the unit at a position of the run (epoch times Len plus index).
func (o *Order) Unit(position int64) (unit int, epoch int64) {
	epoch = position / o.Len()
	if epoch != o.epoch {
		o.shuffle(epoch)
	}
	return int(o.perm[position%o.Len()]), epoch
}

// At gives the row at a position of the run.
func (o *Order) At(position int64) (row int, epoch int64) {
	unit, epoch := o.Unit(position)
	rows := o.Units[unit]
	if o.rows != nil {
		return o.drawRow(rows, Mix(o.Seed, forGroupRow, uint64(epoch), uint64(position%o.Len()))), epoch
	}
	return rows[pick(Mix(o.Seed, forGroupRow, uint64(epoch), uint64(unit)), len(rows))], epoch
}

// shuffle is Fisher and Yates' with a PCG generator of the epoch's own.
func (o *Order) shuffle(epoch int64) {
	rng := rand.NewPCG(Mix(o.Seed, forOrder, uint64(epoch)), uint64(epoch))
	o.perm = make([]int32, o.Len())
	for i := range o.perm {
		j := pick(rng.Uint64(), i+1)
		o.perm[i] = o.perm[j]
		o.perm[j] = int32(i)
	}
	if o.rows != nil {
		o.drawUnits(rng)
	}
	o.epoch = epoch
}

// holdOut splits rows by their groups: about the fraction of the groups, at least one and not all, goes to validation.
// Which ones depends on the seed and the group's name only, so that more rows of old groups do not move them.
func holdOut(seed uint64, groups []string, fraction float64) (train, held []int) {
	hash := func(g string) uint64 {
		f := fnv.New64a()
		f.Write([]byte(g))
		return Mix(seed, forHoldOut, f.Sum64())
	}
	names := slices.Clone(groups)
	slices.Sort(names)
	names = slices.Compact(names)
	slices.SortStableFunc(names, func(a, b string) int {
		if hash(a) < hash(b) {
			return -1
		}
		return 1
	})
	n := min(max(int(fraction*float64(len(names))+0.5), 1), len(names)-1)
	out := map[string]bool{}
	for _, g := range names[:max(n, 0)] {
		out[g] = true
	}
	for i, g := range groups {
		if out[g] {
			held = append(held, i)
		} else {
			train = append(train, i)
		}
	}
	return train, held
}
