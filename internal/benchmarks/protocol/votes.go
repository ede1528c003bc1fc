package protocol

import (
	"fmt"
	"slices"
)

// SideOf parses who won: 1 the first, -1 the second, 0 neither. vote is the name of one of the two, or one of words
// (lists for 1, -1 and 0). A word that is also the name of one of the two but means something else is an error.
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
		return 0, fmt.Errorf("%q: want %q, %q, left, right or tie", vote, first, second)
	}
	return named, nil
}
