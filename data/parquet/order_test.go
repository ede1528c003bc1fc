package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestInOrderKeepsOne: when a table is read in order, at most one page per column is in memory, whatever its row
// groups. When it is read at random, more pages are cached, within bounds.
func TestInOrderKeepsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.parquet")
	const groups = 4
	raw, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	w, err := NewWriter(raw, nil, []Column{{"id", Text}, {"source", Picture}, {"label", Number}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range groups*groupRows - 5 {
		if err := w.Write(nil, []any{fmt.Append(nil, i), Image{Path: "a"}, 0.5}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p := open(t, path)
	read := func(i int) {
		t.Helper()
		row, _, err := p.Read(i)
		if got, want := get(row, "id"), any(fmt.Sprint(i)); err != nil || got != want {
			t.Fatalf("row %d: got id %v and error %v, want id %v", i, got, err, want)
		}
	}
	most, i := 0, 0
	for ; i < p.Len(); i++ {
		read(i)
		most = max(most, len(p.rows.kept))
	}
	if len(p.starts)-1 != groups || i != groups*groupRows-5 || most != len(p.rows.last) {
		t.Errorf("got %d row groups, %d rows, %d pages of %d columns in memory, want %d, %d and a page a column",
			len(p.starts)-1, i, most, len(p.rows.last), groups, groups*groupRows-5)
	}
	for _, g := range []int{2, 0, 3, 1, 3, 2} {
		read(g*groupRows + 7)
	}
	if n := len(p.rows.kept); n < groups*len(p.rows.last) {
		t.Errorf("got %d pages kept, want at least one a column of %d row groups", n, groups)
	}
	for _, i := range []int{groupRows - 1, groupRows, 5, 2*groupRows + 3*windowRows, 2*groupRows + 4*windowRows - 1,
		2*groupRows + 4*windowRows, 0, windowRows, 3 * windowRows, 2 * windowRows, groups*groupRows - 6} {
		read(i)
	}
}
