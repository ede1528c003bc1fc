// Package objective finds what the terms of the loss compare. The input is a batch with the labels, ranks and
// preferences of its edits; the output is the items of each term: edits with labels, pairs of edits, or ordered
// groups.
package objective

import (
	"fmt"
	"math"
	"slices"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/records"
	"assay/losses"
)

// Objective is what a run minimises if it has several terms: each compares edits with their labels, two edits, or all
// edits of a group.
type Objective struct {
	terms  []losses.Spec
	groups *dataset.Groups // with the annotated comparisons; nil: no whole groups
}

// New creates the objective of some terms; without groups, batches are cut between rows.
func New(terms []losses.Spec, groups *dataset.Groups) *Objective { return &Objective{terms, groups} }

// Items returns what the terms of the objective compare in a part of a batch that holds whole groups; the weights are
// not yet normalized.
func (o *Objective) Items(part []dataset.Example) [][]losses.Item {
	out := make([][]losses.Item, len(o.terms))
	for lo := 0; lo < len(part); {
		hi := lo + 1
		for hi < len(part) && part[hi].Unit == part[lo].Unit {
			hi++
		}
		for t := range o.terms {
			s := &o.terms[t]
			switch s.Over() {
			case losses.Edits:
				out[t] = append(out[t], labelItems(s, part, lo, hi)...)
			case losses.Pairs:
				out[t] = append(out[t], o.pairItems(s, part, lo, hi)...)
			case losses.Orders:
				out[t] = append(out[t], orderItems(s, part, lo, hi)...)
			}
		}
		lo = hi
	}
	return out
}

func labelItems(s *losses.Spec, part []dataset.Example, lo, hi int) (out []losses.Item) {
	for i := lo; i < hi; i++ {
		if y, ok := part[i].Annotations.Labels[s.Dimension]; ok {
			ratings := part[i].Annotations.Ratings // of the score: dimensions only have labels
			if s.Votes == losses.VotesSoft && s.Dimension == "" && len(ratings) > 0 {
				for _, y := range ratings {
					out = append(out, losses.Item{Edits: []int{i}, Label: y, Weight: 1 / float64(len(ratings))})
				}
				continue
			}
			it := losses.Item{Edits: []int{i}, Label: y, Weight: 1}
			if v := part[i].Annotations.Votes; s.Votes == losses.VotesWeight && v > 0 {
				it.Weight = v
			}
			out = append(out, it)
		}
	}
	return out
}

// pairItems returns the comparisons of a group in a dimension if it has any; otherwise all pairs of edits with labels
// or ranks.
func (o *Objective) pairItems(s *losses.Spec, part []dataset.Example, lo, hi int) (out []losses.Item) {
	at, told := map[int]int{}, false
	for i := lo; i < hi; i++ {
		at[part[i].Index] = i
	}
	if o.groups != nil {
		for _, c := range o.groups.Pairs[part[lo].Group] {
			if c.Verdict.Dimension != s.Dimension {
				continue
			}
			told = true
			a, okA := at[c.A]
			b, okB := at[c.B]
			if okA && okB {
				out = append(out, comparisonItem(s, a, b, c.Verdict))
			}
		}
	}
	if told {
		return out
	}
	for b := lo; b < hi; b++ {
		for a := lo; a < b; a++ {
			if d, margin, ok := part[a].Annotations.Above(&part[b].Annotations, s.Dimension); ok {
				it := losses.Item{Edits: []int{a, b}, Weight: 1, Margin: s.Scale * margin, Outcome: winner(d)}
				out = append(out, it)
			}
		}
	}
	return out
}

// winner returns the outcome of a pair whose first edit is d better.
func winner(d float64) [3]float64 {
	switch {
	case d > 0:
		return [3]float64{1, 0, 0}
	case d < 0:
		return [3]float64{0, 0, 1}
	}
	return [3]float64{0, 1, 0}
}

// comparisonItem turns the verdict on a pair into an item; votes count according to the term's setting.
func comparisonItem(s *losses.Spec, a, b int, p *data.Verdict) losses.Item {
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
		if it.Outcome[1] == 1 && v[1] < v[0] { // a tie because both sides have equally many votes, and the most
			it.Weight = v[0] + v[1] + v[2]
		}
	}
	return it
}

// orderItems returns the order of a group's edits in a dimension, by rank if two of them have one, otherwise by
// label.
func orderItems(s *losses.Spec, part []dataset.Example, lo, hi int) []losses.Item {
	it := losses.Item{Weight: 1}
	var keys []float64 // lower is better
	ranked := 0
	for i := lo; i < hi; i++ {
		if _, ok := part[i].Annotations.Ranks[s.Dimension]; ok {
			ranked++
		}
	}
	for i := lo; i < hi; i++ {
		if x, ok := part[i].Annotations.Place(s.Dimension, ranked > 1); ok {
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

// Normalize scales the weights of every term's items so that they sum to 1 over all parts of a batch.
func Normalize(parts [][][]losses.Item) {
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

// termName returns the name of a term in metrics: its kind, and its dimension if it has one. Names that occur twice
// get the index of the term.
func (o *Objective) termName(i int) string {
	name := func(s *losses.Spec) string {
		if s.Dimension != "" {
			return s.Kind + "." + s.Dimension
		}
		return s.Kind
	}
	out := name(&o.terms[i])
	for j := range o.terms {
		if j != i && name(&o.terms[j]) == out {
			return fmt.Sprintf("%s.%d", out, i)
		}
	}
	return out
}

// checkTies returns an error if two edits of a group are equal to a term that refuses ties.
func checkTies(train *dataset.Samples, s *losses.Spec) error {
	for _, rows := range dataset.NewOrder(0, train.Units(), config.WholeGroups).Units {
		part := make([]dataset.Example, len(rows))
		for k, i := range rows {
			part[k] = dataset.Example{Index: i, Annotations: train.Rows[i].Annotations}
		}
		for _, it := range orderItems(s, part, 0, len(part)) {
			for a := range it.Ranks {
				if b := slices.Index(it.Ranks, it.Ranks[a]); b < a {
					return exit.Usagef("losses: %s has ties: refuse, but two edits of a group are equal: %s and %s", s.Kind,
						train.Name(rows[it.Edits[b]]), train.Name(rows[it.Edits[a]]))
				}
			}
		}
	}
	return nil
}

// rounding is the largest difference between scores of the same edit that were computed in different batches.
const rounding = 1e-6

// RightPairs counts the pairs of edits of a group in which one edit is better in a dimension ("": the score), by
// comparisons or labels. right counts the pairs whose better edit has the higher score. Scores that only differ by
// rounding are equal, and count half.
func RightPairs(
	table *dataset.Samples, scores []float64, examples []dataset.Example, dimension string,
) (right float64, pairs int) {
	at := map[int]int{}
	for i := range examples {
		at[examples[i].Index] = i
	}
	o := dataset.NewOrder(0, table.Units(), config.WholeGroups)
	g := dataset.NewGroups(o, table, math.MaxInt)
	one := &Objective{groups: g}
	spec := &losses.Spec{Kind: "bradley_terry", Scale: 1, Dimension: dimension}
	for u, rows := range o.Units {
		var part []dataset.Example
		var of []float64
		for _, row := range rows {
			if i, ok := at[row]; ok {
				e := examples[i]
				e.Group = u
				part, of = append(part, e), append(of, scores[i])
			}
		}
		if len(part) < 2 {
			continue
		}
		part = part[:min(len(part), maxCompared)]
		for _, it := range one.pairItems(spec, part, 0, len(part)) {
			d := of[it.Edits[0]] - of[it.Edits[1]]
			if it.Outcome[1] == 1 {
				continue
			}
			pairs++
			switch {
			case math.Abs(d) <= rounding:
				right += 0.5
			case (d > 0) == (it.Outcome[0] == 1):
				right++
			}
		}
	}
	return right, pairs
}

// maxCompared is the maximum number of edits in a group whose pairs are counted: they have 131,000 pairs.
const maxCompared = 512

// Measure adds the terms of a micro-batch to the means over the batch.
func (o *Objective) Measure(m *records.StepMetrics, terms [][]float64, items [][]losses.Item) {
	if len(items) > 0 && m.Terms == nil {
		m.Terms, m.Items = map[string]records.Number{}, map[string]int{}
	}
	for t := range items {
		name := o.termName(t)
		for i, it := range items[t] {
			m.Terms[name] += records.Number(it.Weight * terms[t][i])
		}
		if n := len(items[t]); n > 0 {
			m.Items[name] += n
		}
	}
}

// CheckTerms returns an error for terms of the objective that have no item in an epoch, and for ties if a term
// refuses them.
func (o *Objective) CheckTerms(d *dataset.Data, warn func(string)) error {
	train, f := d.Train, o.Summarize(d)
	if warn != nil {
		for _, text := range f.leftOut() {
			warn("left out: " + text)
		}
	}
	for i := range o.terms {
		s := &o.terms[i]
		if s.Ties == "refuse" {
			if err := checkTies(train, s); err != nil {
				return err
			}
		}
		sampled := o.groups != nil && o.groups.Bound > 1 && f.Sampled > 0 // an epoch may draw others
		if s.Over() == losses.Tokens || f.Items[o.termName(i)] > 0 || sampled {
			continue
		}
		what, dimension := map[losses.Unit]string{
			losses.Edits:  "no edit has a label",
			losses.Pairs:  "no group has two edits in a step that are compared, or have labels or ranks",
			losses.Orders: "no group has two edits in a step with labels or ranks",
		}[s.Over()], ""
		if s.Dimension != "" {
			dimension = " of " + s.Dimension
		}
		return exit.Usagef("losses[%d]: %s has nothing to learn from: %s%s (%d rows in %d groups of %g to %g edits). "+
			"A group is the edits of one source and instruction", i, s.Kind, what, dimension, train.Len(), f.Groups, f.Sizes[0],
			f.Sizes[2])
	}
	return nil
}
