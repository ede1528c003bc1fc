package data

import (
	"maps"
	"math"
	"slices"
)

// Annotations are human annotations of an edit: labels, ranks and preferences. Their JSON is part of row digests.
type Annotations struct {
	// Labels are on 0..1: label ("", as Row.Label) and label_<dimension>.
	Labels map[string]float64 `json:"labels,omitempty"`
	// Ranks within the group are rank ("") and rank_<dimension>: lower is better, equal is a tie.
	Ranks map[string]float64 `json:"ranks,omitempty"`
	Votes float64            `json:"votes,omitempty"` // number of annotators; 0: not known
	// Ratings are the labels from several annotators, or several passes of a judge; empty: there is only the label.
	Ratings []float64 `json:"ratings,omitempty"`
	Verdict *Verdict  `json:"pair,omitempty"` // on the two edits of a row of preferences; nil: not from such a row
}

// Verdict is the human preference between two edits, the first and the second of a row of preferences.
type Verdict struct {
	Second    bool // the edit is the second of the two
	Dimension string
	Votes     [3]float64 // for the first, for a tie, for the second: counts, or a single 1
	Counted   bool       // Votes are counts
	Margin    *float64   // how much better the preferred edit is; nil: not known
}

// Majority is the outcome with the most votes, one-hot: the first edit, a tie, the second. If two outcomes are level,
// it is a tie.
func (p *Verdict) Majority() [3]float64 {
	switch v := p.Votes; {
	case v[0] > v[1] && v[0] > v[2]:
		return [3]float64{1, 0, 0}
	case v[2] > v[1] && v[2] > v[0]:
		return [3]float64{0, 0, 1}
	}
	return [3]float64{0, 1, 0}
}

// None reports whether there are no labels, ranks or verdict.
func (a *Annotations) None() bool { return len(a.Labels) == 0 && len(a.Ranks) == 0 && a.Verdict == nil }

// Dimensions are the dimensions of labels and ranks, sorted; "" is the score.
func (a *Annotations) Dimensions() []string {
	set := map[string]bool{}
	for _, of := range []map[string]float64{a.Labels, a.Ranks} {
		for d := range of {
			set[d] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Place is the position of an edit within its group in a dimension, lower is better: its rank, or its negated label.
func (a *Annotations) Place(dimension string, ranked bool) (at float64, ok bool) {
	if ranked {
		at, ok = a.Ranks[dimension]
		return at, ok
	}
	at, ok = a.Labels[dimension]
	return -at, ok
}

// Above compares an edit with another: it is better if d > 0, by rank if both have one, else by label. margin is the
// difference of their labels; ranks do not give one, and a tie has none. ok is false if there is nothing to compare.
func (a *Annotations) Above(o *Annotations, dimension string) (d, margin float64, ok bool) {
	for _, ranked := range []bool{true, false} {
		x, has := a.Place(dimension, ranked)
		y, too := o.Place(dimension, ranked)
		if has && too {
			d, ok = y-x, true
			break
		}
	}
	x, has := a.Labels[dimension]
	if y, too := o.Labels[dimension]; has && too && d != 0 {
		margin = math.Abs(x - y)
	}
	return d, margin, ok
}
