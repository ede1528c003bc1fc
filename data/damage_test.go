package data

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"assay/internal/fuzzing"
)

// TestDamagedTable: a Parquet table with a damaged byte is refused, or every row is as written.
func TestDamagedTable(t *testing.T) {
	dir := t.TempDir()
	text, path := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "table.parquet")
	var lines bytes.Buffer
	for i := range 60 {
		fmt.Fprintf(
			&lines,
			`{"id":"%d","source":"a%d.png","edit":"b%d.png","instruction":"make it %d","label":%g,"split":"%s",`+
				`"clip_d":%g,"own":%d}`+"\n",
			i,
			i/3,
			i,
			i*i,
			float64(i%3)/2,
			[]string{"train", "validation"}[i%2],
			float64(i)/64,
			i,
		)
	}
	if err := os.WriteFile(text, lines.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := OpenTable(text)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	w, err := in.NewWriter(&out, FormatParquet)
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range in.Records() {
		if err == nil {
			err = w.Write(rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	read := func() (rows []Row, columns []string, err error) {
		table, err := OpenTable(path)
		if err != nil {
			return nil, nil, err
		}
		defer table.Close()
		for row, err := range table.All() {
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, row)
		}
		return rows, table.Columns(), nil
	}
	want, columns, err := read()
	if err != nil || len(want) != 60 {
		t.Fatalf("got %d rows, %v, want 60", len(want), err)
	}
	fuzzing.Damage(t, 1000, []string{path}, func() (bool, error) {
		got, names, err := read()
		if err != nil {
			return true, nil
		}
		if !reflect.DeepEqual(names, columns) {
			return false, fmt.Errorf("its columns are %q", names)
		}
		if !reflect.DeepEqual(got, want) {
			return false, fmt.Errorf("%d rows, different from those written", len(got))
		}
		return false, nil
	})
}

// TestDamagedRow: the error for a row in a damaged page names file, row and column.
func TestDamagedRow(t *testing.T) {
	raw, err := os.ReadFile("testdata/tables/plain.parquet")
	if err != nil {
		t.Fatal(err)
	}
	const first = 8 // in the first page
	for at := first; at < 64; at++ {
		raw[at] ^= 0xff
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, path, WithRequired()).Record(1)
	if want := path + ": row 2: column"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Record(1) of a damaged page: got error %v, want one that begins with %q", err, want)
	}
}
