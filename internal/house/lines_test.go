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

// TestLongLines lets no file have more long lines than the list says. The list may only shrink: after lines were
// mended, or a file was renamed, run go test ./internal/house -run TestLongLines -args -update.
func TestLongLines(t *testing.T) {
	found := map[string]int{}
	for name, text := range goFiles(t) {
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns {
				found[name]++
			}
		}
	}
	if *update {
		var list strings.Builder
		for _, name := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&list, "%d %s\n", found[name], name)
		}
		if err := os.WriteFile(longLines, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
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
	for name, count := range found {
		left += count
		if count > allowed[name] {
			t.Errorf("%s has %d lines of more than %d columns, and %s allows %d: break them",
				name, count, columns, longLines, allowed[name])
		}
	}
	if left < all {
		t.Logf("%d long lines are left, and %s allows %d: run this test with -args -update", left, longLines, all)
	}
}
