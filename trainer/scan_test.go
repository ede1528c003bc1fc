package trainer

import "testing"

// TestRowsAreNotCopied: where a run learns from all rows of its tables, they lie in memory once. Of a split they are
// copied, with room for no more; what cannot be used is taken out where it lies.
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
	d := &Data{Train: &Samples{rows: all.rows}}
	all.rows[3].bad = "damaged"
	d.DropBadRows()
	if left := d.Train.(*Samples).rows; len(left) != 999 || &left[0] != &all.rows[0] || len(d.excluded) != 1 {
		t.Errorf("%d rows are left, %d were set aside", len(left), len(d.excluded))
	}
}

// TestPlanCountsRows: where the program lies, so do the rows of its tables.
func TestPlanCountsRows(t *testing.T) {
	r := &Trainer{config: &Config{BatchSize: 1}, objective: &objective{}, loader: &Loader{BatchSampler: &BatchSampler{}},
		data: &Data{Train: &Samples{rows: make([]sampleRow, 900)}, Validation: &Samples{rows: make([]sampleRow, 100)}}}
	p := r.complete(&Plan{Bytes: map[string]int64{"program": 7}})
	if want := int64(7 + 1000*rowBytes); p.Bytes["program"] != want || p.Need != want {
		t.Errorf("%d bytes, want %d", p.Bytes["program"], want)
	}
	p = r.complete(&Plan{Bytes: map[string]int64{"weights": 5}, Host: map[string]int64{"program": 7}})
	if p.Need != 5 || p.Host["program"] != 7+1000*rowBytes {
		t.Errorf("beside a GPU: %v, %v", p.Bytes, p.Host)
	}
}
