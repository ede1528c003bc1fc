package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/exit"
	"assay/trainer/config"
)

// mostContrary bounds the contradictions that an error lists.
const mostContrary = 10

// CheckContrary refuses edits of a group of which labels and ranks say opposite things: pairs and orders are by both. A
// tie of one of the two contradicts nothing, since labels may be finer than ranks, or coarser.
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
	if n := len(problems) - mostContrary; n > 0 {
		problems = append(problems[:mostContrary], fmt.Errorf("and %d more groups", n))
	}
	return exit.Usage(fmt.Errorf("%s: labels and ranks contradict each other (a lower rank is a better edit; repair or "+
		"leave out one of the two columns):\n%w", key, errors.Join(problems...)))
}

// contrary looks for two edits of a group of which the one with the higher label has the worse rank.
func (s *Samples) contrary(rows []int, dimension string) (high, low int, found bool) {
	var both []int
	for _, i := range rows {
		said := &s.Rows[i].Annotations
		_, labelled := said.Labels[dimension]
		if _, ranked := said.Ranks[dimension]; labelled && ranked && s.Rows[i].Bad == "" {
			both = append(both, i)
		}
	}
	rank := func(i int) float64 { return s.Rows[i].Annotations.Ranks[dimension] }
	label := func(i int) float64 { return s.Rows[i].Annotations.Labels[dimension] }
	slices.SortFunc(both, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(label(b), label(a)), cmp.Compare(a, b))
	})
	for k := 1; k < len(both); k++ { // the one before has the better rank, or is no worse by label
		if high, low = both[k], both[k-1]; label(high) > label(low) {
			return high, low, true
		}
	}
	return 0, 0, false
}

// contradiction says what two edits of a group contradict each other in.
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
		return fmt.Sprintf("%s%s has label%s %v and rank%s %v", s.Name(i), id, suffix, r.Annotations.Labels[dimension], suffix,
			r.Annotations.Ranks[dimension])
	}
	group := ""
	if parts := strings.Split(s.Rows[high].unit, "\x00"); len(parts) == 3 { // see comparedIn
		group = fmt.Sprintf("group %q: ", parts[1])
	}
	return fmt.Errorf("%s%s, %s", group, says(high), says(low))
}
