package data

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestInOrderKeepsOne: of a table that is read from the beginning to the end no more than a page of each column is in
// memory, whatever its row groups are. Of a table that is read here and there other pages are kept, within bounds.
func TestInOrderKeepsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.parquet")
	const groups = 4
	err := WriteTable(path, func(yield func(Row, error) bool) {
		for i := range groups*groupRows - 5 {
			if !yield(Row{ID: fmt.Sprint(i), Source: Image{Path: "a"}, Edit: Image{Path: "b"}, Instruction: "c"}, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	table, err := OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	p := table.source.(*parquetTable)
	most, i := 0, 0
	for row, err := range table.All() {
		if err != nil || row.ID != fmt.Sprint(i) {
			t.Fatal(i, row, err)
		}
		most, i = max(most, len(p.rows.kept)), i+1
	}
	if len(p.starts)-1 != groups || i != table.Len() || most != len(p.rows.last) {
		t.Errorf("%d pages of %d columns were in memory", most, len(p.rows.last))
	}
	for _, g := range []int{2, 0, 3, 1, 3, 2} {
		if row, err := table.Read(g*groupRows + 7); err != nil || row.ID != fmt.Sprint(g*groupRows+7) {
			t.Fatal(row, err)
		}
	}
	if n := len(p.rows.kept); n < groups*len(p.rows.last) {
		t.Errorf("%d pages are kept of %d row groups that were read here and there", n, groups)
	}
	for _, i := range []int{groupRows - 1, groupRows, 5, 2*groupRows + 3*windowRows, 2*groupRows + 4*windowRows - 1,
		2*groupRows + 4*windowRows, 0, windowRows, 3 * windowRows, 2 * windowRows, groups*groupRows - 6} {
		if row, err := table.Read(i); err != nil || row.ID != fmt.Sprint(i) {
			t.Fatal(i, row, err)
		}
	}
}
