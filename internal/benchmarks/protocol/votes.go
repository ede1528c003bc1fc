package protocol

import (
	"fmt"
	"slices"
)

// SideOf reads who won: 1 the first, -1 the second, 0 neither. A name of one of the two comes before the words for
// sides. A word that is the name of the one and the side of the other is an error.
func SideOf(vote, first, second string, words [3][]string) (int, error) {
	named := map[bool]int{true: 1}[vote == first] - map[bool]int{true: 1}[vote == second]
	for k, side := range []int{1, -1, 0} {
		if !slices.Contains(words[k], vote) {
			continue
		}
		if named != 0 && named != side {
			return 0, fmt.Errorf("%q is the name of one of %q and %q, and a word for something else: rename it", vote,
				first,
				second)
		}
		return side, nil
	}
	if named == 0 {
		return 0, fmt.Errorf("%q: %q, %q, left, right or tie was expected", vote, first, second)
	}
	return named, nil
}
