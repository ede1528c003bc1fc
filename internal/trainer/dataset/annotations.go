package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/losses"
)

// labelled reports whether the row has a score label.
func (r *Row) labelled() bool {
	_, ok := r.Annotations.Labels[""]
	return ok
}

// learnsFrom reports whether the objective uses an edit's annotations.
func learnsFrom(c *config.Config, e *data.Row) bool {
	if len(c.Losses) == 0 {
		return e.Label != nil
	}
	for i := range c.Losses {
		t := &c.Losses[i]
		_, labelled := e.Labels[t.Dimension]
		_, ranked := e.Ranks[t.Dimension]
		switch t.Over() {
		case losses.Edits:
			if labelled {
				return true
			}
		case losses.Pairs:
			if labelled || ranked || e.Verdict != nil && e.Verdict.Dimension == t.Dimension {
				return true
			}
		case losses.Orders:
			if labelled || ranked {
				return true
			}
		}
	}
	return false
}

// measures reports whether an edit can be used for validation.
func measures(c *config.Config, e *data.Row) bool { return e.Label != nil || learnsFrom(c, e) }

// groupOf returns the group of an edit: its name in the table. Without a name, comparisons, and all edits of runs
// with whole groups, are grouped by source and instruction. "": the edit has no group.
func (r *Row) groupOf(e *data.Row, whole bool) string {
	if e.Group != "" || e.Verdict == nil && !whole {
		return e.Group
	}
	return r.Asked
}

// comparedIn returns the group that the edit of a row is compared in. A group name alone is not enough: several
// tables may use the same one, and only edits of the same source and instruction can be compared.
func (r *Row) comparedIn(e *data.Row) string {
	if e.Group == "" {
		return r.Group
	}
	return fmt.Sprintf("%d\x00%s\x00%s", r.number, e.Group, r.Asked)
}

// maxContrary bounds the contradictions that an error lists.
const maxContrary = 10

// CheckContrary returns an error if labels and ranks order two edits of a group differently: pairs and orders use
// both. A tie in labels or ranks is not a contradiction, because one may be finer than the other.
func (s *Samples) CheckContrary(key string, dimensions []string) error {
	var problems []error
	for _, rows := range NewOrder(0, s.Units(), config.WholeGroups).Units {
		for _, dimension := range dimensions {
			if high, low, found := s.contrary(rows, dimension); found {
				problems = append(problems, s.contradiction(high, low, dimension))
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	if n := len(problems) - maxContrary; n > 0 {
		problems = append(problems[:maxContrary], fmt.Errorf("and %d more groups", n))
	}
	return exit.Usage(fmt.Errorf("%s: labels and ranks contradict each other (a lower rank is a better edit; repair or "+
		"leave out one of the two columns):\n%w", key, errors.Join(problems...)))
}

// contrary finds two edits of a group where the one with the higher label has the worse rank.
func (s *Samples) contrary(rows []int, dimension string) (high, low int, found bool) {
	var both []int
	for _, i := range rows {
		a := &s.Rows[i].Annotations
		_, labelled := a.Labels[dimension]
		if _, ranked := a.Ranks[dimension]; labelled && ranked && s.Rows[i].Bad == "" {
			both = append(both, i)
		}
	}
	rank := func(i int) float64 { return s.Rows[i].Annotations.Ranks[dimension] }
	label := func(i int) float64 { return s.Rows[i].Annotations.Labels[dimension] }
	slices.SortFunc(both, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(label(b), label(a)), cmp.Compare(a, b))
	})
	for k := 1; k < len(both); k++ { // the previous one has the better rank, or an equal rank and at least as high a label
		if high, low = both[k], both[k-1]; label(high) > label(low) {
			return high, low, true
		}
	}
	return 0, 0, false
}

// contradiction describes the contradiction between two edits of a group.
func (s *Samples) contradiction(high, low int, dimension string) error {
	suffix := ""
	if dimension != "" {
		suffix = "_" + dimension
	}
	says := func(i int) string {
		r := &s.Rows[i]
		id := ""
		if r.ID != "" {
			id = fmt.Sprintf(" (id %s)", r.ID)
		}
		return fmt.Sprintf("%s%s has label%s %v and rank%s %v", s.Name(i), id, suffix, r.Annotations.Labels[dimension],
			suffix, r.Annotations.Ranks[dimension])
	}
	group := ""
	if parts := strings.Split(s.Rows[high].unit, "\x00"); len(parts) == 3 { // see comparedIn
		group = fmt.Sprintf("group %q: ", parts[1])
	}
	return fmt.Errorf("%s%s, %s", group, says(high), says(low))
}
