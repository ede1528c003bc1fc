package trainer

import "testing"

// TestRowsAreNotCopied: where a run learns from all rows of its tables, they lie in memory once. Of a split they are
// copied, with room for no more.
func TestRowsAreNotCopied(t *testing.T) {
	all := &splitSamples{Samples: Samples{rows: make([]sampleRow, 1000, 2000)}, splits: make([]string, 1000)}
	for i := range 400 {
		all.splits[i] = "train"
	}
	if whole := all.split(""); len(whole.rows) != 1000 || &whole.rows[0] != &all.rows[0] {
		t.Errorf("%d rows, copied", len(whole.rows))
	}
	if part := all.split("train"); len(part.rows) != 400 || cap(part.rows) != 400 || &part.rows[0] == &all.rows[0] {
		t.Errorf("%d rows of a split, with room for %d", len(part.rows), cap(part.rows))
	}
}
