package losses

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// option is a key that an entry of `losses` may have, depending on its kind: a field of [Spec].
type option struct {
	key     string
	given   func(s *Spec) bool   // a zero counts as left out
	fill    func(s *Spec)        // sets the default
	problem func(s *Spec) string // what is wrong with the value; "": nothing
	empty   string               // the problem with an explicit zero; "": none
}

// options lists all options.
var options = []option{
	positive("scale", 10, func(s *Spec) *float64 { return &s.Scale }),
	positive("delta", 0.1, func(s *Spec) *float64 { return &s.Delta }),
	positive("margin", 1, func(s *Spec) *float64 { return &s.Margin }),
	number("theta", 1.5, func(s *Spec) *float64 { return &s.Theta }, func(x float64) string {
		if x > 1 {
			return ""
		}
		return fmt.Sprintf("want more than 1, not %g: at 1 there are no ties", x)
	}),
	positive("nu", 1, func(s *Spec) *float64 { return &s.Nu }),
	number("draws", 1000, func(s *Spec) *int { return &s.Draws }, func(n int) string {
		if n >= 1 {
			return ""
		}
		return fmt.Sprintf("want at least 1, not %d", n)
	}),
	{"center", func(s *Spec) bool { return s.Center != nil }, func(s *Spec) { s.Center = new(0.5) },
		func(*Spec) string { return "" }, ""},
	{"values", func(s *Spec) bool { return len(s.Values) > 0 }, func(s *Spec) { s.Values = []float64{0, 0.5, 1} },
		func(s *Spec) string {
			if len(s.Values) >= 2 && ascending(s.Values) {
				return ""
			}
			return fmt.Sprintf("want the labels (0..1) of at least two classes, ascending, not %v", s.Values)
		}, "want the labels (0..1) of at least two classes"},
	word("votes", "", func(s *Spec) *string { return &s.Votes }, VotesWeight, VotesSoft),
	word("cuts", "", func(s *Spec) *string { return &s.Cuts }, CutsFixed, CutsLearned),
	word("ties", "breslow", func(s *Spec) *string { return &s.Ties }, "breslow", "refuse"),
}

// number returns a number option with a default; problem returns what is wrong with a value.
func number[T int | float64](key string, value T, field func(*Spec) *T, problem func(T) string) option {
	return option{
		key:     key,
		given:   func(s *Spec) bool { return *field(s) != 0 },
		fill:    func(s *Spec) { *field(s) = value },
		problem: func(s *Spec) string { return problem(*field(s)) },
		empty:   "want more than 0, not 0",
	}
}

// positive returns an option for a number above 0.
func positive(key string, value float64, field func(*Spec) *float64) option {
	return number(key, value, field, func(x float64) string {
		if x > 0 && !math.IsInf(x, 0) {
			return ""
		}
		return fmt.Sprintf("want more than 0, not %g", x)
	})
}

// word returns an option with a choice of words; "" is allowed if it is the default.
func word(key, value string, field func(*Spec) *string, words ...string) option {
	return option{
		key:   key,
		given: func(s *Spec) bool { return *field(s) != "" },
		fill:  func(s *Spec) { *field(s) = value },
		problem: func(s *Spec) string {
			if w := *field(s); w != value && !slices.Contains(words, w) {
				return fmt.Sprintf("want %s, not %q", strings.Join(words, " or "), w)
			}
			return ""
		},
	}
}

// Empty lists the problems with options whose zero value is written explicitly: [Spec.Check] treats them as left out.
func (s *Spec) Empty() (out []Problem) {
	for _, o := range options {
		if o.empty != "" && !o.given(s) {
			out = append(out, Problem{o.key, o.empty + ": leave it out for its default"})
		}
	}
	return out
}

func ascending(v []float64) bool {
	for i := 1; i < len(v); i++ {
		if !(v[i] > v[i-1]) {
			return false
		}
	}
	return true
}
