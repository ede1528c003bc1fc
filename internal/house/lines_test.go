package house

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is the longest line of Go; a tab counts as one column, as in the linter lll.
const columns = 120

// longLines lists the files that still have longer lines, and how many each.
const longLines = "testdata/long_lines.txt"

// TestLongLines lets no file have more long lines than the list says. After lines were mended or moved to another file,
// run go test ./internal/house -run TestLongLines -args -update: it writes the list anew unless their number grew.
func TestLongLines(t *testing.T) {
	found := map[string]int{}
	for name, text := range goFiles(t) {
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns {
				found[name]++
			}
		}
	}
	text, err := os.ReadFile(longLines)
	if err != nil {
		t.Fatal(err)
	}
	allowed, all := map[string]int{}, 0
	for line := range strings.Lines(string(text)) {
		var count int
		var name string
		if _, err := fmt.Sscanf(line, "%d %s\n", &count, &name); err != nil {
			t.Fatalf("%s: %q: %v", longLines, line, err)
		}
		allowed[name] = count
		all += count
	}
	left := 0
	for _, count := range found {
		left += count
	}
	if *update && left <= all {
		var list strings.Builder
		for _, name := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&list, "%d %s\n", found[name], name)
		}
		if err := os.WriteFile(longLines, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, count := range found {
		if count > allowed[name] {
			t.Errorf("%s has %d lines of more than %d columns, and %s allows %d: break them",
				name, count, columns, longLines, allowed[name])
		}
	}
	if left < all {
		t.Logf("%d long lines are left, and %s allows %d: run this test with -args -update", left, longLines, all)
	}
}
