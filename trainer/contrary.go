package trainer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/exit"
)

// mostContrary bounds the contradictions that an error lists.
const mostContrary = 10

// checkContrary refuses edits of a group of which labels and ranks say opposite things: pairs and orders are by both. A
// tie of one of the two contradicts nothing, since labels may be finer than ranks, or coarser.
func (s *Samples) checkContrary(key string, dimensions []string) error {
	var problems []error
	for _, rows := range newOrder(0, s.units(), WholeGroups).Units {
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
		said := &s.rows[i].Said
		_, labelled := said.Labels[dimension]
		if _, ranked := said.Ranks[dimension]; labelled && ranked && s.rows[i].bad == "" {
			both = append(both, i)
		}
	}
	rank := func(i int) float64 { return s.rows[i].Said.Ranks[dimension] }
	label := func(i int) float64 { return s.rows[i].Said.Labels[dimension] }
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
		r := &s.rows[i]
		id := ""
		if r.id != "" {
			id = fmt.Sprintf(" (id %s)", r.id)
		}
		return fmt.Sprintf("%s%s has label%s %v and rank%s %v", s.name(i), id, suffix, r.Said.Labels[dimension], suffix,
			r.Said.Ranks[dimension])
	}
	group := ""
	if parts := strings.Split(s.rows[high].unit, "\x00"); len(parts) == 3 { // see comparedIn
		group = fmt.Sprintf("group %q: ", parts[1])
	}
	return fmt.Errorf("%s%s, %s", group, says(high), says(low))
}
