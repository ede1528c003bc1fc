package trainer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"assay/data"
	"assay/losses"
)

// groups are the units of a run whose batches are cut between groups: of each, the rows of its distinct edits, and what
// compares two of them.
type groups struct {
	pairs [][]comparison // by unit
	bound int            // most edits of a unit in a step
	same  int            // comparisons of an edit with itself, which say nothing
}

// comparison is a pair of rows of which people said something.
type comparison struct {
	a, b int // rows
	pair *data.Pair
}

// newGroups makes whole groups out of units of rows. Where several comparisons share an edit (the best one of a group
// with each of the others, say), its rows become one: o.Units keeps the first.
func newGroups(o *Order, s *Samples, bound int) *groups {
	g := &groups{pairs: make([][]comparison, len(o.Units)), bound: bound}
	if s == nil {
		return g
	}
	for u, rows := range o.Units {
		first := map[string]int{}
		kept, open := rows[:0:0], map[[2]int]int{} // open: comparison -> its first edit's row
		for _, i := range rows {
			row, at := &s.rows[i], i
			if row.Said.Pair != nil {
				key := row.sameEdit()
				if earlier, ok := first[key]; ok {
					at = earlier
				} else {
					first[key] = i
				}
			}
			if at == i {
				kept = append(kept, i)
			}
			if p := row.Said.Pair; p != nil {
				record := [2]int{row.number, row.index / 2}
				if other, ok := open[record]; !ok {
					open[record] = at
				} else if other == at {
					g.same++
				} else {
					c := comparison{other, at, p}
					if !p.Second {
						c.a, c.b = at, other
					}
					g.pairs[u] = append(g.pairs[u], c)
				}
			}
		}
		o.Units[u] = kept
	}
	return g
}

// sameEdit is the same for rows of one edit of one source and instruction with the same labels.
func (r *sampleRow) sameEdit() string {
	if r.contents == (Contents{}) { // its pictures cannot be read
		return fmt.Sprintf("%d %d", r.number, r.index)
	}
	return fmt.Sprintf("%s %x %v %v", r.asked, r.contents[1], r.Said.Labels, r.Said.Ranks)
}

// size is the number of edits of a unit in a step.
func (g *groups) size(o *Order, unit int) int { return min(len(o.Units[unit]), g.bound) }

// rows are the rows of the unit at a position of the run. Of a group with more than the bound some are drawn per epoch.
func (g *groups) rows(o *Order, position int64) (unit int, rows []int, epoch int64) {
	unit, epoch = o.Unit(position)
	rows = o.Units[unit]
	if len(rows) <= g.bound {
		return unit, rows, epoch
	}
	rng := rand.NewPCG(mix(o.Seed, forGroupRow, uint64(epoch), uint64(unit)), uint64(unit))
	rows = slices.Clone(rows)
	for i := range g.bound { // the first steps of Fisher and Yates' shuffle
		j := i + pick(rng.Uint64(), len(rows)-i)
		rows[i], rows[j] = rows[j], rows[i]
	}
	rows = rows[:g.bound]
	slices.Sort(rows)
	return unit, rows, epoch
}

// edits counts those of the units at positions of the run.
func (g *groups) edits(o *Order, from, to int64) (n int64) {
	for at := from; at < to; at++ {
		unit, _ := o.Unit(at)
		n += int64(g.size(o, unit))
	}
	return n
}

// cut gives the position after the batch that begins at a position: whole groups, at most batch edits, at least one
// group.
func (g *groups) cut(o *Order, position, limit int64, batch int) int64 {
	edits := 0
	for at := position; at < limit; at++ {
		unit, _ := o.Unit(at)
		if edits += g.size(o, unit); edits > batch && at > position {
			return at
		}
	}
	return limit
}

// items are what the terms of the objective compare in a part of a batch that holds whole groups; weights are not yet
// those of a mean.
func (r *run) items(part []Example) [][]losses.Item {
	out := make([][]losses.Item, len(r.config.Losses))
	for lo := 0; lo < len(part); {
		hi := lo + 1
		for hi < len(part) && part[hi].Unit == part[lo].Unit {
			hi++
		}
		for t := range r.config.Losses {
			s := &r.config.Losses[t]
			switch s.Over() {
			case losses.Edits:
				out[t] = append(out[t], labelItems(s, part, lo, hi)...)
			case losses.Pairs:
				out[t] = append(out[t], r.pairItems(s, part, lo, hi)...)
			case losses.Orders:
				out[t] = append(out[t], orderItems(s, part, lo, hi)...)
			}
		}
		lo = hi
	}
	return out
}

func labelItems(s *losses.Spec, part []Example, lo, hi int) (out []losses.Item) {
	for i := lo; i < hi; i++ {
		if y, ok := part[i].Said.Labels[s.Dimension]; ok {
			it := losses.Item{Edits: []int{i}, Label: y, Weight: 1}
			if v := part[i].Said.Votes; s.Votes == losses.VotesWeight && v > 0 {
				it.Weight = v
			}
			out = append(out, it)
		}
	}
	return out
}

// pairItems are the comparisons of a group in a dimension if it has any; else all pairs of edits with labels or ranks.
func (r *run) pairItems(s *losses.Spec, part []Example, lo, hi int) (out []losses.Item) {
	at, told := map[int]int{}, false
	for i := lo; i < hi; i++ {
		at[part[i].Index] = i
	}
	if r.groups != nil {
		for _, c := range r.groups.pairs[part[lo].Group] {
			if c.pair.Dimension != s.Dimension {
				continue
			}
			told = true
			a, okA := at[c.a]
			b, okB := at[c.b]
			if okA && okB {
				out = append(out, comparisonItem(s, a, b, c.pair))
			}
		}
	}
	if told {
		return out
	}
	for b := lo; b < hi; b++ {
		for a := lo; a < b; a++ {
			if d, margin, ok := part[a].Said.above(&part[b].Said, s.Dimension); ok {
				it := losses.Item{Edits: []int{a, b}, Weight: 1, Margin: s.Scale * margin, Outcome: winner(d)}
				out = append(out, it)
			}
		}
	}
	return out
}

// winner is the outcome of a pair whose first edit is d better.
func winner(d float64) [3]float64 {
	switch {
	case d > 0:
		return [3]float64{1, 0, 0}
	case d < 0:
		return [3]float64{0, 0, 1}
	}
	return [3]float64{0, 1, 0}
}

// place is where an edit stands among others of its group in a dimension, lower is better: by rank, or by label.
func (s *Said) place(dimension string, ranked bool) (at float64, ok bool) {
	if ranked {
		at, ok = s.Ranks[dimension]
		return at, ok
	}
	at, ok = s.Labels[dimension]
	return -at, ok
}

// above tells whether an edit is better than another (d > 0), by rank if both have one, else by label, and by how much
// its label is above the other's: ranks do not say, and a tie has no margin. ok is false where there is nothing to
// compare.
func (s *Said) above(o *Said, dimension string) (d, margin float64, ok bool) {
	for _, ranked := range []bool{true, false} {
		x, has := s.place(dimension, ranked)
		y, too := o.place(dimension, ranked)
		if has && too {
			d, ok = y-x, true
			break
		}
	}
	x, has := s.Labels[dimension]
	if y, too := o.Labels[dimension]; has && too && d != 0 {
		margin = math.Abs(x - y)
	}
	return d, margin, ok
}

// comparisonItem makes an item of what people said about a pair, whose votes count as the term wants.
func comparisonItem(s *losses.Spec, a, b int, p *data.Pair) losses.Item {
	it := losses.Item{Edits: []int{a, b}, Weight: 1}
	if p.Margin != nil {
		it.Margin = *p.Margin
	}
	v := p.Votes
	if s.Votes == losses.VotesSoft {
		all := v[0] + v[1] + v[2]
		it.Outcome = [3]float64{v[0] / all, v[1] / all, v[2] / all}
		return it
	}
	it.Outcome = p.Majority()
	if s.Votes == losses.VotesWeight && p.Counted {
		it.Weight = v[0]*it.Outcome[0] + v[1]*it.Outcome[1] + v[2]*it.Outcome[2]
		if it.Outcome[1] == 1 { // as many for one side as for the other
			it.Weight = v[0] + v[1] + v[2]
		}
	}
	return it
}

// orderItems is the order of a group's edits in a dimension, by rank if two have one, else by label.
func orderItems(s *losses.Spec, part []Example, lo, hi int) []losses.Item {
	it := losses.Item{Weight: 1}
	var keys []float64 // lower is better
	ranked := 0
	for i := lo; i < hi; i++ {
		if _, ok := part[i].Said.Ranks[s.Dimension]; ok {
			ranked++
		}
	}
	for i := lo; i < hi; i++ {
		if x, ok := part[i].Said.place(s.Dimension, ranked > 1); ok {
			it.Edits, keys = append(it.Edits, i), append(keys, x)
		}
	}
	if len(keys) < 2 {
		return nil
	}
	sorted := slices.Clone(keys)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	for _, k := range keys {
		rank, _ := slices.BinarySearch(sorted, k)
		it.Ranks = append(it.Ranks, rank)
	}
	return []losses.Item{it}
}

// normalise makes the weights of every term's items those of a mean over all parts of a batch.
func normalise(parts [][][]losses.Item) {
	if len(parts) == 0 {
		return
	}
	for t := range parts[0] {
		total := 0.0
		for _, p := range parts {
			for _, it := range p[t] {
				total += it.Weight
			}
		}
		for _, p := range parts {
			for i := range p[t] {
				p[t][i].Weight /= total
			}
		}
	}
}

// largest is the most edits that a group has in a step.
func (g *groups) largest(o *Order) int {
	n := 0
	for u := range o.Units {
		n = max(n, g.size(o, u))
	}
	return n
}
