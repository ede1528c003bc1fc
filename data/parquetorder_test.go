package data

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestInOrderKeepsTwo: of a table that is read from the beginning to the end no more than two blocks of rows are in
// memory, whatever its row groups are; read here and there, whole row groups are.
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
	kept := func() (rows, whole int) {
		for _, b := range p.blocks {
			if rows += len(b.rows); len(b.rows) > blockRows {
				whole++
			}
		}
		return rows, whole
	}
	most, i := 0, 0
	for row, err := range table.All() {
		if err != nil || row.ID != fmt.Sprint(i) {
			t.Fatal(i, row, err)
		}
		rows, _ := kept()
		most, i = max(most, rows), i+1
	}
	if len(p.starts)-1 != groups || i != table.Len() || most != 2*blockRows {
		t.Errorf("%d rows of %d in %d row groups were in memory", most, i, len(p.starts)-1)
	}
	for _, g := range []int{2, 0, 3, 1, 3, 2} {
		if row, err := table.Read(g*groupRows + 7); err != nil || row.ID != fmt.Sprint(g*groupRows+7) {
			t.Fatal(row, err)
		}
	}
	if _, whole := kept(); whole != groups {
		t.Errorf("%d row groups are kept of %d that were read here and there", whole, groups)
	}
	for _, i := range []int{groupRows - 1, groupRows, 5, 2*groupRows + 3*blockRows, 2*groupRows + 4*blockRows - 1,
		2*groupRows + 4*blockRows, 0, blockRows, 3 * blockRows, 2 * blockRows, groups*groupRows - 6} {
		p.blocks = nil // each is decoded anew, wherever the reader stands
		if row, err := table.Read(i); err != nil || row.ID != fmt.Sprint(i) {
			t.Fatal(i, row, err)
		}
	}
}
