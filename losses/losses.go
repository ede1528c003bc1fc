// Package losses implements the losses that scorers are trained on: one table with a row per loss, its formula and
// its source. A loss is a small function that emits ONNX nodes over the head outputs for the edits in one run of the
// graph; labels and comparisons are further graph inputs (Feeds). onnx/grad differentiates it. An objective is any
// weighted sum of losses.
//
// Every loss is a mean over its items: edits that have a label, pairs of edits, or orders of several edits of a
// group. The items' weights are inputs, so that the mean is over the full batch, however it is split into
// micro-batches.
package losses

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Unit is what a loss has one value for.
type Unit string

// The units.
const (
	Edits  Unit = "edits"  // each edit that has a label
	Pairs  Unit = "pairs"  // two edits of a group: one is better, or neither
	Orders Unit = "orders" // the edits of a group in an order, with or without ties
	Tokens Unit = "tokens" // of the answer; implemented in package model
)

// Spec is one term of an objective: an entry of `losses` in a run's configuration. Options that are left out have the
// defaults of their kind.
type Spec struct {
	Kind      string    `yaml:"kind" json:"kind"`
	Weight    *float64  `yaml:"weight,omitempty" json:"weight,omitempty"`       // of its mean in the sum; default 1
	Dimension string    `yaml:"dimension,omitempty" json:"dimension,omitempty"` // of labels and head; "": the score
	Fused     bool      `yaml:"fused,omitempty" json:"fused,omitempty"`         // reads the fusion of all heads
	Votes     string    `yaml:"votes,omitempty" json:"votes,omitempty"`         // weight, soft; "": ignored
	Scale     float64   `yaml:"scale,omitempty" json:"scale,omitempty"`         // logits for a difference of 1 in score01
	Center    *float64  `yaml:"center,omitempty" json:"center,omitempty"`       // score01 whose logit is 0
	Delta     float64   `yaml:"delta,omitempty" json:"delta,omitempty"`         // huber: where it becomes linear
	Margin    float64   `yaml:"margin,omitempty" json:"margin,omitempty"`       // factor for the data's margins
	Theta     float64   `yaml:"theta,omitempty" json:"theta,omitempty"`         // rao_kupper: threshold, above 1
	Nu        float64   `yaml:"nu,omitempty" json:"nu,omitempty"`               // davidson: frequency of ties, above 0
	Draws     int       `yaml:"draws,omitempty" json:"draws,omitempty"`         // gaussian_draws: number of draws
	Values    []float64 `yaml:"values,omitempty" json:"values,omitempty"`       // ordinal: of the classes, in 0..1
	Cuts      string    `yaml:"cuts,omitempty" json:"cuts,omitempty"`           // ordinal: fixed (default), learned
	Ties      string    `yaml:"ties,omitempty" json:"ties,omitempty"`           // plackett_luce: breslow, refuse
}

// Factor returns the weight of the term in the sum.
func (s *Spec) Factor() float64 {
	if s.Weight == nil {
		return 1
	}
	return *s.Weight
}

// Row is one row of the table of losses.
type Row struct {
	Kind    string
	Over    Unit
	Outputs string   // required outputs of the head: value (any head's score), classes, mu_sigma; none
	Options []string // keys that its entry may have besides kind, weight and dimension
	Formula string   // for the reader; x are logits: scale (score01 - center)
	Source  string
	build   func(t *term) string // loss of each item [items]
}

// The head outputs that a loss reads.
const (
	Value   = "value"
	Classes = "classes"
	MuSigma = "mu_sigma"
	None    = "none"
)

// table holds all losses.
var table = slices.Concat(pointwise, pairwise, listwise, []Row{{
	Kind: "text", Over: Tokens, Outputs: None,
	Formula: "mean over the text tokens of all samples of a step of -log softmax(logits)_token",
	Source:  "cross-entropy of the language model over its V ids and the score token",
}})

// Table returns all losses in the order of the documentation.
func Table() []Row { return slices.Clone(table) }

// Lookup returns the loss of a kind.
func Lookup(kind string) (Row, bool) {
	i := slices.IndexFunc(table, func(r Row) bool { return r.Kind == kind })
	if i < 0 {
		return Row{}, false
	}
	return table[i], true
}

// kinds lists the names of all losses.
func kinds() []string {
	names := make([]string, len(table))
	for i, r := range table {
		names[i] = r.Kind
	}
	return names
}

// Over returns the unit of a term's kind; "" for an unknown kind.
func (s *Spec) Over() Unit {
	r, _ := Lookup(s.Kind)
	return r.Over
}

// Problem is something wrong with an entry of `losses`.
type Problem struct{ Key, Text string }

// Check fills in defaults and lists the problems.
func (s *Spec) Check() []Problem {
	var out []Problem
	bad := func(key, format string, args ...any) { out = append(out, Problem{key, fmt.Sprintf(format, args...)}) }
	r, ok := Lookup(s.Kind)
	if !ok {
		bad("kind", "want one of %s, not %q", strings.Join(kinds(), ", "), s.Kind)
		return out
	}
	for _, o := range options {
		if o.given(s) && !slices.Contains(r.Options, o.key) {
			bad(o.key, "a loss of kind %s has no such option (it has %s)", s.Kind,
				strings.Join(append([]string{"weight", "dimension"}, r.Options...), ", "))
		}
	}
	if w := s.Factor(); !(w >= 0) || math.IsInf(w, 0) {
		bad("weight", "want at least 0, not %g", w)
	}
	if s.Votes == VotesSoft && r.Over == Edits && s.Dimension != "" {
		bad("votes", "soft needs the ratings of the score: a dimension only has labels")
	}
	if s.Dimension != "" && r.Over == Tokens {
		bad("dimension", "text has no dimensions")
	}
	for _, o := range options {
		if !slices.Contains(r.Options, o.key) {
			continue
		}
		if !o.given(s) {
			o.fill(s)
		}
		if text := o.problem(s); text != "" {
			bad(o.key, "%s", text)
		}
	}
	return out
}

// How votes count.
const (
	VotesWeight = "weight" // the outcome with the most votes counts, weighted by their number
	VotesSoft   = "soft"   // every outcome counts with its share of votes; for an edit, every rating
)

// Nearest returns the index of the value nearest to x, the lowest on a tie: the class of a label.
func Nearest(values []float64, x float64) int {
	best := 0
	for i, v := range values {
		if math.Abs(v-x) < math.Abs(values[best]-x) {
			best = i
		}
	}
	return best
}
