package data

import (
	"maps"
	"math"
	"slices"
)

// Annotations are what people said of an edit: labels, ranks and preferences. The JSON is a part of digests of rows.
type Annotations struct {
	// Labels are on 0..1: label ("", as Row.Label) and label_<dimension>.
	Labels map[string]float64 `json:"labels,omitempty"`
	// Ranks within the group are rank ("") and rank_<dimension>: lower is better, equal is a tie.
	Ranks map[string]float64 `json:"ranks,omitempty"`
	Votes float64            `json:"votes,omitempty"` // number of people whose labels these are; 0: not known
	// Ratings are the labels that several people, or several passes of a judge, gave the edit; none: the label alone.
	Ratings []float64 `json:"ratings,omitempty"`
	Verdict *Verdict  `json:"pair,omitempty"` // on the two edits of a row of preferences; nil: it stands alone
}

// Verdict is what people said of two edits, the first and the second of a row of preferences.
type Verdict struct {
	Second    bool // which of the two the edit is
	Dimension string
	Votes     [3]float64 // for the first, for neither, for the second: counts, or a single 1
	Counted   bool       // they are counts
	Margin    *float64   // by how much the better one is better; nil: not known
}

// Majority is the outcome with the most votes: the first edit, neither, the second. If two outcomes have equally many
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

// None reports whether people said nothing.
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

// Place is where an edit stands among others of its group in a dimension, lower is better: by rank, or by label.
func (a *Annotations) Place(dimension string, ranked bool) (at float64, ok bool) {
	if ranked {
		at, ok = a.Ranks[dimension]
		return at, ok
	}
	at, ok = a.Labels[dimension]
	return -at, ok
}

// Above tells whether an edit is better than another (d > 0), by rank if both have one, else by label, and by how much
// its label is above the other's: ranks do not say, and a tie has no margin. ok is false where there is nothing to
// compare.
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
