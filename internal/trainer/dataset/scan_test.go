package dataset

import (
	"testing"
)

// TestRowsAreNotCopied: if a run learns from all rows of its tables, they are in memory once. The rows of a split are
// copied, with exactly the needed capacity; unusable rows are removed in place.
func TestRowsAreNotCopied(t *testing.T) {
	all := &splitSamples{Samples: Samples{Rows: make([]Row, 1000, 2000)}, splits: make([]string, 1000)}
	for i := range 400 {
		all.splits[i] = "train"
	}
	if whole := all.split(""); len(whole.Rows) != 1000 || &whole.Rows[0] != &all.Rows[0] {
		t.Errorf("%d rows, copied", len(whole.Rows))
	}
	if part := all.split("train"); len(part.Rows) != 400 || cap(part.Rows) != 400 || &part.Rows[0] == &all.Rows[0] {
		t.Errorf("%d rows of a split, with room for %d", len(part.Rows), cap(part.Rows))
	}
	d := &Data{Train: &Samples{Rows: all.Rows}, Validation: &Samples{}}
	all.Rows[3].Bad = "damaged"
	d.DropBadRows()
	if left := d.Train.Rows; len(left) != 999 || &left[0] != &all.Rows[0] || len(d.excluded) != 1 {
		t.Errorf("%d rows are left, %d were set aside", len(left), len(d.excluded))
	}
}
