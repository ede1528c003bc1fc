package parquet

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"assay/internal/packed"
)

// Pages of pyarrow that the library decodes wrongly or not at all: booleans in runs, and pages without values at the
// end of a list's column chunk (tools/oracle/parquet_pages.py). Rows are read in order, and backwards.
func TestPagesOfPyarrow(t *testing.T) {
	dir := packed.Unpack(t, "testdata/pages.zip")
	var expect map[string]map[string][]any
	if err := json.Unmarshal(packed.File(t, "testdata/pages.zip", "expect.json"), &expect); err != nil {
		t.Fatal(err)
	}
	if len(expect) != 6 {
		t.Fatalf("got %d files, want 6", len(expect))
	}
	for name, columns := range expect {
		for _, backwards := range []bool{false, true} {
			f := open(t, filepath.Join(dir, name))
			wrong := 0
			for k := range f.Len() {
				i := k
				if backwards {
					i = f.Len() - 1 - k
				}
				row, _, err := f.Read(i)
				if err != nil {
					t.Fatalf("%s: row %d: %v", name, i, err)
				}
				for column, want := range columns {
					got := floats(get(row, column))
					if !reflect.DeepEqual(got, want[i]) && wrong < 3 {
						wrong++
						t.Errorf("%s: row %d, column %s: got %v, want %v", name, i, column, got, want[i])
					}
				}
			}
			for column, want := range columns {
				if f.Len() != len(want) {
					t.Errorf("%s: got %d rows, want %d in column %s", name, f.Len(), len(want), column)
				}
			}
		}
	}
}

// floats has the numbers as JSON has them.
func floats(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	}
	return v
}
