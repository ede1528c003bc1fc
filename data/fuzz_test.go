package data

import (
	"os"
	"path/filepath"
	"testing"
)

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/decode/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(raw[:len(raw)*3/4])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Decode(raw, Limits{MaxPixels: 1 << 16})
		if err == nil && (p.Width < 1 || p.Height < 1 || len(p.Pix) != 3*p.Width*p.Height) {
			t.Errorf("%d x %d pixels in %d bytes", p.Width, p.Height, len(p.Pix))
		}
	})
}

// FuzzTable reads anything as a table, all rows, as a label table and as records.
func FuzzTable(f *testing.F) {
	f.Add([]byte("{\"source\": \"a\", \"edit\": {\"bytes\": \"YQ==\"}, \"instruction\": \"\", \"label\": 1e9}\n{}\n"), "t.jsonl")
	f.Add([]byte("[{\"source\": null}, [], {\"edit\": {\"path\": {\"path\": 1}}}]"), "t.json")
	f.Add([]byte("source,edit,instruction\na,\"b\n\",c\n\"\"\"\",,\n"), "t.csv")
	for _, name := range []string{"pandas", "nested", "datasets"} {
		raw, err := os.ReadFile("testdata/tables/" + name + ".parquet")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, "t.parquet")
		raw = append([]byte(nil), raw...)
		raw[len(raw)/3] ^= 0x55
		f.Add(raw, "t.parquet")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		if filepath.Ext(name) != ".csv" {
			name = "t"
		}
		path := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return // a name that cannot be one
		}
		table, err := OpenTable(path, WithRequired())
		if err != nil {
			return
		}
		defer table.Close()
		if table.Len() > 1000 {
			return // a damaged count of rows
		}
		for rec, err := range table.Records() {
			if err != nil {
				continue
			}
			if _, err := rec.MarshalJSON(); err != nil {
				t.Errorf("read but not written: %v", err)
			}
			_, _ = table.Row(rec)
		}
	})
}
