package house

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is the maximum length of a Go line; a tab counts as one column, as in the linter lll.
const columns = 120

// TestLongLines: no Go line is longer than columns.
func TestLongLines(t *testing.T) {
	for name, text := range goFiles(t) {
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%s:%d: got %d columns, want at most %d: break it", name, number, n, columns)
			}
		}
	}
}
