package data

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestInOrderKeepsTwo: of a table that is read from the beginning to the end no more than two row groups are in memory;
// read here and there, more are.
func TestInOrderKeepsTwo(t *testing.T) {
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
	most := 0
	for row, err := range table.All() {
		if err != nil || row.Instruction != "c" {
			t.Fatal(row, err)
		}
		most = max(most, len(p.groups))
	}
	if len(p.starts)-1 != groups || most != 2 {
		t.Errorf("%d of %d row groups were in memory", most, len(p.starts)-1)
	}
	for _, g := range []int{2, 0, 3, 1, 3, 2} {
		if row, err := table.Read(g*groupRows + 7); err != nil || row.ID != fmt.Sprint(g*groupRows+7) {
			t.Fatal(row, err)
		}
	}
	if len(p.groups) != groups {
		t.Errorf("%d row groups are kept of %d that were read here and there", len(p.groups), groups)
	}
}
