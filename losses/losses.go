// Package losses holds what scorers are trained on: one table of losses, a row each, with its formula and where it
// comes from. A loss is a small function that emits ONNX nodes over the heads' outputs of the edits of one run of the
// graph. Other inputs say what people found. onnx/grad differentiates it. Any weighted sum of them is an objective.
//
// Every loss is a mean over its items: edits that have a label, pairs of edits, or orders of several edits of a group.
// The items' weights are inputs, so that the mean is that of the whole batch, however it is cut.
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
	Pairs  Unit = "pairs"  // two edits of a group, of which one is better, or neither
	Orders Unit = "orders" // the edits of a group in an order, with ties or without
	Tokens Unit = "tokens" // of the answer; built by package model
)

// Spec is one term of an objective: an entry of `losses` in a run's configuration. Options that are left out have the
// defaults of their kind.
type Spec struct {
	Kind      string    `yaml:"kind" json:"kind"`
	Weight    *float64  `yaml:"weight,omitempty" json:"weight,omitempty"`       // of its mean in the sum; default 1
	Dimension string    `yaml:"dimension,omitempty" json:"dimension,omitempty"` // of labels and head; "": the score
	Fused     bool      `yaml:"fused,omitempty" json:"fused,omitempty"`         // reads the fusion of all heads
	Votes     string    `yaml:"votes,omitempty" json:"votes,omitempty"`         // weight, soft; "": they count for nothing
	Scale     float64   `yaml:"scale,omitempty" json:"scale,omitempty"`         // logits for a difference of 1 in score01
	Center    *float64  `yaml:"center,omitempty" json:"center,omitempty"`       // score01 whose logit is 0
	Delta     float64   `yaml:"delta,omitempty" json:"delta,omitempty"`         // huber: where it turns linear
	Margin    float64   `yaml:"margin,omitempty" json:"margin,omitempty"`       // factor of the data's margins
	Theta     float64   `yaml:"theta,omitempty" json:"theta,omitempty"`         // rao_kupper: threshold, above 1
	Nu        float64   `yaml:"nu,omitempty" json:"nu,omitempty"`               // davidson: frequency of ties, above 0
	Draws     int       `yaml:"draws,omitempty" json:"draws,omitempty"`         // gaussian_draws: how many
	Values    []float64 `yaml:"values,omitempty" json:"values,omitempty"`       // ordinal: of the classes, on 0..1
	Cuts      string    `yaml:"cuts,omitempty" json:"cuts,omitempty"`           // ordinal: fixed (default), learned
	Ties      string    `yaml:"ties,omitempty" json:"ties,omitempty"`           // plackett_luce: breslow, refuse
}

// Factor is the weight of the term in the sum.
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
	Outputs string   // of the head that it reads: value (any head's score), classes, mu_sigma; none
	Options []string // that its entry may have besides kind, weight, dimension and votes
	Formula string   // for people; x are logits: scale (score01 - center)
	Source  string
	build   func(t *term) string // loss of each item [items]
}

// What a loss reads of a head.
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

// Over is the unit of a term's kind; "" if there is none.
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
		bad("votes", "soft reads the ratings of the score: a dimension has labels alone")
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
	VotesWeight = "weight" // the outcome with most votes counts, with its share of them
	VotesSoft   = "soft"   // every outcome counts with its share; of an edit, every rating
)

// Nearest is the index of the value nearest to x, the lowest on a tie: a class of a label.
func Nearest(values []float64, x float64) int {
	best := 0
	for i, v := range values {
		if math.Abs(v-x) < math.Abs(values[best]-x) {
			best = i
		}
	}
	return best
}
