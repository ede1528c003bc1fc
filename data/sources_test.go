package data

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSourcesOfTables: lists of pictures in every format: as written by pyarrow (tools/oracle/sources.py), and as
// text.
func TestSourcesOfTables(t *testing.T) {
	jsonl := `{"sources": ["0.png", "1.png", "2.png"], "edit": "e.png", "instruction": "x"}
{"sources": ["1.png"], "edit": "e.png", "instruction": "x"}
{"sources": ["2.png", {"path": "2.png"}, "0.png"], "edit": "e.png", "instruction": "x"}
`
	csv := `sources,edit,instruction
"[""0.png"", ""1.png"", ""2.png""]",e.png,x
"[""1.png""]",e.png,x
" [""2.png"",""2.png"",""0.png""]",e.png,x
`
	for name, text := range map[string]string{
		"testdata/sources/paths.parquet": "", "testdata/sources/structs.parquet": "", "testdata/sources/bytes.parquet": "",
		"t.jsonl": jsonl, "t.csv": csv,
	} {
		t.Run(name, func(t *testing.T) {
			path := name
			if text != "" {
				path = filepath.Join(t.TempDir(), name)
				write(t, path, text)
			}
			for row, want := range sourcesOf(t, path) {
				got := strings.Fields(want)
				if expect := []int{3, 1, 3}[row]; len(got) != expect {
					t.Errorf("row %d: got sources %v, want %d", row+1, got, expect)
				}
				if expect := [][]string{{"0.png", "1.png", "2.png"}, {"1.png"}, {"2.png", "2.png", "0.png"}}[row]; !cmp.Equal(got,
					expect) && !strings.Contains(path, "bytes") {
					t.Errorf("row %d: got sources %v, want %v", row+1, got, expect)
				}
			}
		})
	}
}

// sourcesOf reads a table and returns for each row the paths of its sources, or their sizes in bytes.
func sourcesOf(t *testing.T, path string) (out []string) {
	t.Helper()
	table, err := OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for row, err := range table.All() {
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range row.Sources() {
			if m.Path == "" {
				m.Path = string('0' + rune(len(m.Bytes)%10))
			}
			names = append(names, m.Path)
		}
		out = append(out, strings.Join(names, " "))
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestSourcesRefused(t *testing.T) {
	for _, c := range []struct{ name, row, want string }{
		{"both", `{"source": "a.png", "sources": ["b.png"], "edit": "e.png", "instruction": "x"}`, "both a source and a"},
		{"none", `{"sources": [], "edit": "e.png", "instruction": "x"}`, "the list of pictures is empty"},
		{"a null", `{"sources": ["a.png", null], "edit": "e.png", "instruction": "x"}`, "picture 2 of the list"},
		{"one path", `{"sources": "a.png", "edit": "e.png", "instruction": "x"}`, "want a list of pictures"},
		{"numbers", `{"sources": [1], "edit": "e.png", "instruction": "x"}`, "picture 1 of the list: want a picture"},
		{"neither", `{"edit": "e.png", "instruction": "x"}`, `no column "source"`},
		{"a note", `{"source": "a.png", "sources": "unsplash", "edit": "e.png", "instruction": "x"}`, ""},
		{"null", `{"source": "a.png", "sources": null, "edit": "e.png", "instruction": "x"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.jsonl")
			write(t, path, c.row)
			table, err := OpenTable(path)
			if err != nil {
				t.Fatal(err)
			}
			defer table.Close()
			_, err = table.Read(0)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestSourcesMove: paths in lists resolve from the folder of the written table.
func TestSourcesMove(t *testing.T) {
	const folder = "testdata/sources/"
	for _, name := range []string{folder + "paths.parquet", folder + "structs.parquet", "t.jsonl", "t.csv"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, filepath.Base(name))
			switch filepath.Ext(name) {
			case ".jsonl":
				write(t, path, `{"sources": ["0.png", {"path": "1.png"}, "/2.png"], "edit": "e.png", "instruction": "x"}`)
			case ".csv":
				write(t, path, "sources,edit,instruction\n\"[\"\"0.png\"\", \"\"1.png\"\", \"\"/2.png\"\"]\",e.png,x\n")
			default:
				raw, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				write(t, path, string(raw))
			}
			table, err := OpenTable(path)
			if err != nil {
				t.Fatal(err)
			}
			defer table.Close()
			before := sourcesOf(t, path)
			for _, to := range []string{"out/t.jsonl", "out/t.parquet"} {
				out := filepath.Join(dir, to)
				if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
					t.Fatal(err)
				}
				format, err := FormatOf(out)
				if err != nil {
					t.Fatal(err)
				}
				keep := func(int, *Record) error { return nil }
				if err := table.Rewrite(context.Background(), out, format, nil, keep); err != nil {
					t.Fatal(err)
				}
				for i, got := range sourcesOf(t, out) {
					want := strings.ReplaceAll("../"+before[i], " ", " ../")
					if filepath.Ext(name) != ".parquet" {
						want = "../0.png ../1.png /2.png"
					} else if strings.Contains(name, "structs") { // embedded pictures have names, not paths
						want = strings.ReplaceAll(before[i], "1.png", "../1.png")
					}
					if got != want {
						t.Errorf("%s, row %d: got %q, want %q", to, i+1, got, want)
					}
				}
			}
		})
	}
}

// TestSourcesOfPairs: preferences of several sources.
func TestSourcesOfPairs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.jsonl")
	write(t, path, `{"prompt": "x", "sources": ["a.png", "b.png"], "chosen": "c.png", "rejected": "d.png"}`)
	e, err := OpenEdits(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i, want := range []string{"c.png", "d.png"} {
		row, err := e.Read(i)
		if err != nil || len(row.Sources()) != 2 || row.Edit.Path != want {
			t.Errorf("edit %d: got %v of %v (%v), want %s of two sources", i, row.Edit, row.Sources(), err, want)
		}
	}
}

func TestSourcesRecord(t *testing.T) {
	r := Row{Source: Image{Path: "a.png"}, References: []Image{{Path: "b.png", Bytes: []byte("b")}}}
	rec := r.Record()
	raw, err := rec.MarshalJSON()
	if want := []byte(`"sources":["a.png",{"bytes":"Yg==","path":"b.png"}]`); err != nil || !bytes.Contains(raw, want) {
		t.Errorf("got %s (%v), want %s in it", raw, err, want)
	}
}
