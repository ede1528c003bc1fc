package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSwapped: many sources with few edits look swapped, many edits of few sources do not.
func TestSwapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	table := func(rows, sources, edits int, format string) *Table {
		var b strings.Builder
		for i := range rows {
			fmt.Fprintf(&b, format+"\n", i%sources, i%edits)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return open(t, path)
	}
	const paths = `{"source": "s%d.png", "edit": "e%d.png", "instruction": "i"}`
	const inside = `{"source": {"bytes": "AAA%d"}, "edit": {"bytes": "BBB%d"}, "instruction": "i"}`
	for _, c := range []struct {
		rows, sources, edits int
		format               string
		want                 bool
	}{
		{30, 3, 30, paths, false},
		{30, 30, 3, paths, true},
		{30, 30, 30, paths, false},
		{30, 30, 16, paths, false},
		{30, 30, 15, paths, true},
		{3, 3, 1, paths, false},
		{4, 4, 1, paths, true},
		{9, 9, 2, inside, true},
		{9, 2, 9, inside, false},
		{5000, 5000, 5, paths, true},
	} {
		t.Run(fmt.Sprintf("%d rows, %d sources, %d edits", c.rows, c.sources, c.edits), func(t *testing.T) {
			got := table(c.rows, c.sources, c.edits, c.format).Swapped()
			if (got != "") != c.want {
				t.Errorf("%d sources, %d edits: got %q, want a warning: %v", c.sources, c.edits, got, c.want)
			}
			if c.want && !strings.Contains(got, fmt.Sprintf("only %d edits", c.edits)) {
				t.Errorf("got %q, want the number of edits, %d", got, c.edits)
			}
		})
	}
	none := `{"instruction": %d%d}` // unreadable rows do not count
	if got := table(9, 9, 1, none).Swapped(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
