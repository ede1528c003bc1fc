package house

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is the longest line of Go; a tab counts as one column, as in the linter lll.
const columns = 120

// TestLongLines: no line of Go is longer.
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
