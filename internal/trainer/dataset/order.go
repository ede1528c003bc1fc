package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/trainer/config"
)

// Purpose is what a random number is used for. All randomness in a run is a function of the seed and the purpose:
// there is no generator state to save.
type Purpose uint64

const (
	forOrder Purpose = iota + 1
	forGroupRow
	forQuestion
	forAnswer
	forAugment
	ForDropout // of a micro-batch
	forHoldOut
	ForDraws       // of losses that sample
	ForCompletions // of answers that get rewards
)

// Mix hashes numbers to 64 uniform bits, with the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) after each
// number.
func Mix(seed uint64, what Purpose, numbers ...uint64) uint64 {
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

// Order defines the sequence of samples. An epoch visits every unit once, in its own order; a unit is a row, or a
// group of rows of which one is drawn per epoch.
type Order struct {
	Seed  uint64
	Units [][]int // rows (indices into the training rows) of each unit

	rows []float64 // sampling weights of rows; nil: every unit once per epoch
	ends []float64 // cumulative sums of the units' weights

	epoch int64 // of permutation
	perm  []int32
}

// NewOrder creates units of single rows, or of groups in the order of their first rows.
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

// Len returns the number of samples in an epoch.
func (o *Order) Len() int64 { return int64(len(o.Units)) }

// Unit returns the unit at a position of the run (epoch times Len plus index).
func (o *Order) Unit(position int64) (unit int, epoch int64) {
	epoch = position / o.Len()
	if epoch != o.epoch {
		o.shuffle(epoch)
	}
	return int(o.perm[position%o.Len()]), epoch
}

// At returns the row at a position of the run.
func (o *Order) At(position int64) (row int, epoch int64) {
	unit, epoch := o.Unit(position)
	rows := o.Units[unit]
	if o.rows != nil {
		return o.drawRow(rows, Mix(o.Seed, forGroupRow, uint64(epoch), uint64(position%o.Len()))), epoch
	}
	return rows[pick(Mix(o.Seed, forGroupRow, uint64(epoch), uint64(unit)), len(rows))], epoch
}

// shuffle is a Fisher-Yates shuffle with a PCG generator seeded for the epoch.
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

// holdOut splits rows by their groups: about the fraction of the groups, at least one and not all, goes to
// validation. The choice depends only on the seed and the group names, so that adding rows to existing groups does
// not move them.
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

// checkHeldOut refuses a fraction that holds out nothing. A run that is resumed has its rows from its ledger, and
// unreadable rows that data.skip does not allow are reported instead.
func (d *Data) checkHeldOut(c *config.Config) error {
	if c.Data.Validation.Fraction == 0 || d.Validation.Len() > 0 || d.Train.Len() == 0 || len(d.bad) > c.Data.Skip {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.Out, RowsFile)); c.Out != "" && err == nil {
		return nil
	}
	group := "rows of one group"
	if c.Mode == config.ModeText {
		group = "conversations about one picture"
	}
	return exit.Usagef("data.validation: %g of 1 group holds out nothing: %s stay together: add others, name a table to "+
		"validate on, or leave it out", c.Data.Validation.Fraction, group)
}

// labelBins is the number of equal bins of 0..1 that balancing sorts labels into.
const labelBins = 10

// weightOf reads a row's weight from the column of data.weight.
func (s *scan) weightOf(t *data.Edits, index int) (float64, error) {
	rec, err := t.Record(index / t.Each())
	if err != nil {
		return 0, err
	}
	v, ok := rec.Get(s.weight)
	if !ok {
		names := make([]string, len(rec.Fields))
		for i, f := range rec.Fields {
			names[i] = f.Name
		}
		return 0, fmt.Errorf("data.weight: there is no column %q; the columns are %q", s.weight, names)
	}
	w, err := data.Finite(v)
	if err != nil || w == nil || *w < 0 {
		text, _ := data.Text(v)
		return 0, fmt.Errorf("%v: %s is %q: a weight is a number of at least 0", rowPlace{t.Path(), index}, s.weight, text)
	}
	return *w, nil
}

// weighted returns the digest of a row and its weight: a different weight results in a different order.
func weighted(digest string, weight float64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %x", digest, math.Float64bits(weight)))
	return hex.EncodeToString(sum[:8])
}

// groupKeys returns the names of the groups from which an epoch takes one edit each. The same name in several tables
// means several groups; a name that only one table has is unchanged.
func (s *Samples) groupKeys() []string {
	first, shared := map[string]int{}, map[string]bool{}
	for _, r := range s.Rows {
		if table, ok := first[r.Group]; !ok {
			first[r.Group] = r.number
		} else if table != r.number {
			shared[r.Group] = true
		}
	}
	out := make([]string, len(s.Rows))
	for i, r := range s.Rows {
		if out[i] = r.Group; shared[r.Group] {
			out[i] = fmt.Sprintf("%s\x00%d", r.Group, r.number)
		}
	}
	return out
}

// drawWeights returns the sampling weights of training rows; nil: all are equal.
func drawWeights(c *config.Config, s *Samples) ([]float64, error) {
	if c.Data.Balance == "" && c.Data.Weight == "" {
		return nil, nil
	}
	if s.Made() {
		return nil, exit.Usagef("data.balance and data.weight only apply to tables")
	}
	out := make([]float64, len(s.Rows))
	bins, sizes := make([]int, len(s.Rows)), map[int]float64{} // label bins, or tables
	for i := range s.Rows {
		r := &s.Rows[i]
		if out[i] = 1; c.Data.Weight != "" {
			out[i] = r.weight
		}
		if r.gone {
			return nil, exit.Usagef("row %s is no longer in the tables, so its weight is unknown: with data.balance and "+
				"data.weight, rows must not be removed", r.ID)
		}
		switch {
		case c.Data.Balance == "":
			continue
		case c.Data.Balance == config.ByTable:
			bins[i] = r.number
		case !r.labelled():
			return nil, exit.Usagef("data.balance: %s has no label", s.Name(i))
		default:
			bins[i] = min(max(int(r.Label*labelBins), 0), labelBins-1)
		}
		sizes[bins[i]] += out[i]
	}
	sum := 0.0
	for i := range out {
		if c.Data.Balance != "" && sizes[bins[i]] > 0 {
			out[i] /= sizes[bins[i]]
		}
		sum += out[i]
	}
	if sum == 0 {
		return nil, exit.Usagef("data.weight: all weights are 0")
	}
	return out, nil
}

// weigh makes an order draw rows by weights. The length of an epoch does not change. Each unit appears in proportion
// to its weight (the mean over its rows), randomly rounded up or down.
func (o *Order) weigh(weights []float64) {
	if weights == nil {
		return
	}
	o.rows = weights
	o.ends = make([]float64, len(o.Units))
	sum := 0.0
	for u, rows := range o.Units {
		mean := 0.0
		for _, i := range rows {
			mean += weights[i] / float64(len(rows))
		}
		sum += mean
		o.ends[u] = sum
	}
}

// drawUnits replaces a permutation of units by as many sampled units (systematic sampling; Madow, 1949). Every unit
// has an interval of the length of its weight on a line; equidistant points with a random offset select the units.
// Each selected unit replaces one of the permutation.
func (o *Order) drawUnits(rng *rand.PCG) {
	n := len(o.perm)
	step := o.ends[n-1] / float64(n)
	at := step * (float64(rng.Uint64()>>11) / (1 << 53))
	places := slices.Clone(o.perm)
	unit := 0
	for _, place := range places {
		for unit < n-1 && o.ends[unit] <= at {
			unit++
		}
		o.perm[place] = int32(unit)
		at += step
	}
}

// drawRow samples a row of a unit by the weights.
func (o *Order) drawRow(rows []int, h uint64) int {
	ends := make([]float64, len(rows))
	sum := 0.0
	for k, i := range rows {
		sum += o.rows[i]
		ends[k] = sum
	}
	x := sum * (float64(h>>11) / (1 << 53))
	k := sort.Search(len(rows)-1, func(k int) bool { return ends[k] > x })
	return rows[k]
}
