package scoring

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
)

// Edits of the same source and instruction are adjacent within a window, and none is left out or repeated.
func TestRowsAreGrouped(t *testing.T) {
	var text strings.Builder
	for i := range 3 * batchRows {
		fmt.Fprintf(&text, `{"source": "s%d.png", "edit": "e%d.png", "instruction": "turn %d"}`+"\n", i%7, i, i%2)
	}
	path := filepath.Join(t.TempDir(), "edits.jsonl")
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	table, err := data.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	g, seen, parted := &grouping{table: table}, map[int]bool{}, 0
	done := map[int]bool{4: true, 11: true}
	rows := func(yield func(int) bool) {
		for i := range table.Len() {
			if !done[i] && !yield(i) {
				return
			}
		}
	}
	for batch := range g.batches(rows) {
		if len(batch) > batchRows {
			t.Errorf("a batch of %d rows", len(batch))
		}
		for k, i := range batch {
			if seen[i] {
				t.Errorf("row %d twice", i)
			}
			seen[i] = true
			if k > 0 {
				same := i%14 == batch[k-1]%14
				if !same {
					parted++
				}
				if g.joined(batch[k-1], i) != same {
					t.Errorf("rows %d and %d: one group is %v", batch[k-1], i, !same)
				}
			}
		}
	}
	if len(seen) != table.Len()-len(done) || seen[4] {
		t.Errorf("%d rows of %d", len(seen), table.Len()-len(done))
	}
	if parted > 14 {
		t.Errorf("%d times another group begins, of 14 groups", parted)
	}
}
