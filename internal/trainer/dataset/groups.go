package dataset

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/data"
)

// Groups are the units of a run with whole groups: the rows of the distinct edits in each group, and the comparisons
// between them.
type Groups struct {
	Pairs [][]Comparison // by unit
	Bound int            // maximum edits per unit in a step
	Same  int            // number of comparisons of an edit with itself, which are ignored
}

// Comparison is a pair of rows with a verdict.
type Comparison struct {
	A, B    int // rows
	Verdict *data.Verdict
}

// NewGroups builds whole groups from units of rows. If several comparisons share an edit (the best one of a group
// with each of the others, say), its rows become one: o.Units keeps the first.
func NewGroups(o *Order, s *Samples, bound int) *Groups {
	g := &Groups{Pairs: make([][]Comparison, len(o.Units)), Bound: bound}
	if s.Made() {
		return g
	}
	for u, rows := range o.Units {
		first := map[string]int{}
		kept, open := rows[:0:0], map[[2]int]int{} // open: comparison -> its first edit's row
		for _, i := range rows {
			row, at := &s.Rows[i], i
			if row.Annotations.Verdict != nil {
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
			if p := row.Annotations.Verdict; p != nil {
				record := [2]int{row.number, row.Index / 2}
				if other, ok := open[record]; !ok {
					open[record] = at
				} else if other == at {
					g.Same++
				} else {
					c := Comparison{other, at, p}
					if !p.Second {
						c.A, c.B = at, other
					}
					g.Pairs[u] = append(g.Pairs[u], c)
				}
			}
		}
		o.Units[u] = kept
	}
	return g
}

// sameEdit returns a key that is equal for rows with the same edit, source, instruction and labels.
func (r *Row) sameEdit() string {
	if !r.contents.known() { // its pictures cannot be read
		return fmt.Sprintf("%d %d", r.number, r.Index)
	}
	return fmt.Sprintf("%s %x %v %v", r.Asked, r.contents.edit, r.Annotations.Labels, r.Annotations.Ranks)
}

// Size returns the number of edits of a unit in a step.
func (g *Groups) Size(o *Order, unit int) int { return min(len(o.Units[unit]), g.Bound) }

// rows returns the rows of the unit at a position of the run. If a group has more than Bound edits, Bound of them are
// drawn per epoch.
func (g *Groups) rows(o *Order, position int64) (unit int, rows []int, epoch int64) {
	unit, epoch = o.Unit(position)
	rows = o.Units[unit]
	if len(rows) <= g.Bound {
		return unit, rows, epoch
	}
	rng := rand.NewPCG(Mix(o.Seed, forGroupRow, uint64(epoch), uint64(unit)), uint64(unit))
	rows = slices.Clone(rows)
	for i := range g.Bound { // the first steps of a Fisher-Yates shuffle
		j := i + pick(rng.Uint64(), len(rows)-i)
		rows[i], rows[j] = rows[j], rows[i]
	}
	rows = rows[:g.Bound]
	slices.Sort(rows)
	return unit, rows, epoch
}

// edits counts the edits of the units at positions from to to-1.
func (g *Groups) edits(o *Order, from, to int64) (n int64) {
	for at := from; at < to; at++ {
		unit, _ := o.Unit(at)
		n += int64(g.Size(o, unit))
	}
	return n
}

// cut returns the position after the batch that starts at a position: whole groups, at most batch edits, but at least
// one group.
func (g *Groups) cut(o *Order, position, limit int64, batch int) int64 {
	edits := 0
	for at := position; at < limit; at++ {
		unit, _ := o.Unit(at)
		if edits += g.Size(o, unit); edits > batch && at > position {
			return at
		}
	}
	return limit
}

// largest returns the largest number of edits of a group in a step.
func (g *Groups) largest(o *Order) int {
	n := 0
	for u := range o.Units {
		n = max(n, g.Size(o, u))
	}
	return n
}
