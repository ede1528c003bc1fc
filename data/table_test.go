package data

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"assay/internal/fuzzing"
	"assay/internal/packed"
	"assay/internal/testfile"
)

func number(x float64) *float64 { return &x }

func open(t testing.TB, path string, options ...Option) *Table {
	t.Helper()
	table, err := OpenTable(path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

func rows(t testing.TB, table *Table) []Row {
	t.Helper()
	var out []Row
	for row, err := range table.All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

func picture(t testing.TB, name string) []byte {
	t.Helper()
	return packed.File(t, pictures, name)
}

// TestForeignParquet reads files written by pandas, pyarrow and datasets.
func TestForeignParquet(t *testing.T) {
	names := []string{"grey.png", "rgb.png", "420.jpg"}
	texts := []string{"Make it grey.", "", "Größer, „bitte“"}
	embedded := func(i int) Image { return Image{Path: names[i], Bytes: picture(t, names[i])} }
	beside := func(i int) Image { return Image{Path: "../decode/" + names[i]} }
	similar := []*float64{number(0.25), nil, number(-0.125)}
	splits := []string{"train", "train", "validation"}
	want := map[string][]Row{}
	for i := range names {
		want["pandas"] = append(want["pandas"], Row{ID: string(rune('a' + i)), Source: beside(i), Edit: beside(2 - i),
			Instruction: texts[i], Label: []*float64{number(0), number(0.5), nil}[i], ClipD: similar[i], Split: splits[i]})
		want["binary"] = append(
			want["binary"],
			Row{ID: fmt.Sprint(i + 1), Source: Image{Bytes: picture(t, names[i])}, Edit: beside(i),
				Instruction: texts[i], Label: []*float64{number(0), number(1), nil}[i], ClipD: similar[i], Split: splits[i]},
		)
		want["datasets"] = append(
			want["datasets"],
			Row{ID: string(rune('a' + i)), Source: embedded(i), Edit: embedded(i),
				Instruction: texts[i], Label: []*float64{number(0), number(0.5), nil}[i]},
		)
	}
	for name, rowsWanted := range want {
		t.Run(name, func(t *testing.T) {
			table := open(t, "testdata/tables/"+name+".parquet")
			if d := cmp.Diff(rowsWanted, rows(t, table)); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
			for _, i := range []int{2, 0, 1, 0} {
				row, err := table.Read(i)
				if err != nil || cmp.Diff(rowsWanted[i], row) != "" {
					t.Errorf("%s: row %d at random: got %v, %v, want %v", name, i, row.ID, err, rowsWanted[i].ID)
				}
				if p, err := row.Edit.Open(table.Folder(), Limits{}); err != nil || p.Width != 45 {
					t.Errorf("%s: row %d: got error %v, want a picture 45 pixels wide", name, i, err)
				}
			}
		})
	}
}

func TestNestedParquet(t *testing.T) {
	var want, got []any
	testfile.ReadJSON(t, "testdata/tables/nested.json", &want)
	for rec, err := range open(t, "testdata/tables/nested.parquet", WithRequired()).Records() {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTextTables(t *testing.T) {
	want := []Row{
		{
			ID:          "1",
			Source:      Image{Path: "a.png"},
			Edit:        Image{Path: "b.png"},
			Instruction: `say "hi", twice`,
			Label:       number(0.5),
		},
		{
			ID:          "x",
			Source:      Image{Path: "c.png", Bytes: []byte("abc")},
			Edit:        Image{Path: "d.png"},
			Instruction: "two\nlines",
		},
	}
	first := `{"id": 1, "source": "a.png", "edit": {"path": "b.png"}, "instruction": "say \"hi\", twice", "label": ` +
		`0.5, "other": [1, {}]}`
	second := `{"id": "x", "source": {"bytes": "YWJj", "path": "c.png"}, "edit": "d.png", "instruction": "two\nlines", ` +
		`"label": null}`
	for name, text := range map[string]string{
		"lines.jsonl":    first + "\n\n  \r\n" + second,
		"lines.txt":      "\ufeff" + first + "\r\n" + second + "\r\n",
		"array.json":     "[" + first + ",\n" + second + "]\n",
		"no_end.parquet": first + "\n" + second + "\n", // detected from the content
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(want, rows(t, open(t, testfile.Write(t, name, text)))); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		})
	}
	want[1].Source = Image{Path: "c.png"}
	table := "\ufeffid,source,edit,text,label,other\n1,a.png,b.png,\"say \"\"hi\"\", " +
		"twice\",0.5,\n\nx,c.png,d.png,\"two\nlines\",,1\n"
	got := rows(t, open(t, testfile.Write(t, "t.csv", table), WithColumns(map[string]string{"instruction": "text"})))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("csv (-want +got):\n%s", d)
	}
	if n := open(t, testfile.Write(t, "empty.jsonl", "")).Len(); n != 0 {
		t.Errorf("an empty file: got %d rows, want none", n)
	}
}

// TestOnly: problems in columns that are not read are not errors.
func TestOnly(t *testing.T) {
	path := testfile.Write(
		t,
		"t.jsonl",
		`{"source": "a", "edit": "b", "instruction": "c", "label": 7, "clip_d": "good", "id": "x"}`,
	)
	want := []Row{{Source: Image{Path: "a"}, Edit: Image{Path: "b"}, Instruction: "c"}}
	if d := cmp.Diff(want, rows(t, open(t, path, WithOnly("source", "edit", "instruction")))); d != "" {
		t.Error(d)
	}
}

func TestTableErrors(t *testing.T) {
	good := `{"source": "a", "edit": "b", "instruction": "c"}`
	for _, c := range []struct{ name, text, want string }{
		{"t.jsonl", good + "\n\n{\"source\": 1", "t.jsonl:3: "},
		{"t.jsonl", `{"source": "a", "edit": "b"}`, `t.jsonl:1: no column "instruction", only source, edit`},
		{"t.jsonl", `{"source": null, "edit": "b", "instruction": ""}`, `t.jsonl:1: column "source" is null`},
		{"t.jsonl", `{"source": 5, "edit": "b", "instruction": ""}`, `column "source": want a picture`},
		{"t.jsonl", `{"source": {"bytes": "!"}, "edit": "b", "instruction": ""}`, `column "source": bytes: want base64`},
		{"t.jsonl", `{"source": "a", "edit": "b", "instruction": "c", "label": "good"}`,
			`column "label": want a number, have "good"`},
		{"t.jsonl", `{"source": "a", "edit": "b", "instruction": true}`, `column "instruction": want text, have true`},
		{"t.jsonl", `{"source": "a", "edit": "b", "instruction": "c", "label": 7}`, "label 7 is outside 0..1"},
		{"t.json", "[" + good + ", 5]", "t.json: row 2: "},
		{"t.json", "[" + good, "EOF"},
		{"t.csv", "source,edit\na,b\n", `t.csv: no column "instruction", only source, edit`},
		{"t.csv", "source,edit,instruction\na,b,c\na,b\n", "t.csv:3: 2 fields, but 3 columns"},
		{"t.csv", "", "empty"},
		{"t.parquet", "PAR1 and then nothing", "damaged Parquet file"},
		{"t.jsonl", "source: a", "not a table"},
	} {
		t.Run(c.want, func(t *testing.T) {
			table, err := OpenTable(testfile.Write(t, c.name, c.text))
			if err == nil {
				for _, e := range table.All() {
					if e != nil {
						err = e
					}
				}
				table.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%s: %v, want %q", c.text, err, c.want)
			}
		})
	}
	if _, err := OpenTable("testdata/tables/nested.parquet"); err == nil ||
		!strings.Contains(err.Error(), `no column "source"`) {
		t.Errorf("OpenTable: got error %v, want one with %q", err, `no column "source"`)
	}
	if _, err := OpenTable("testdata/tables/none.parquet"); !os.IsNotExist(err) {
		t.Errorf("no such file: got error %v, want one that says so", err)
	}
	if _, err := OpenTable("testdata/tables/nested.json", WithColumns(map[string]string{"picture": "a"})); err == nil {
		t.Errorf("a wrong column map: got error %v, want one", err)
	}
	table := open(t, testfile.Write(t, "t.jsonl", good+"\nnothing\n"+good))
	if _, err := table.Read(2); err != nil {
		t.Errorf("the row after a broken one: got error %v, want none", err)
	}
	if _, err := table.Read(3); err == nil {
		t.Errorf("a row beyond the last: got error %v, want one", err)
	}
}

// A Parquet file whose footer claims gigabytes of metadata is refused before memory is allocated for them.
func TestParquetFooter(t *testing.T) {
	raw, err := os.ReadFile("testdata/tables/nested.parquet")
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-5] = 0xdf
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	fuzzing.Bounded(t, 1<<20, func() { _, err = OpenTable(path, WithRequired()) })
	if err == nil || !strings.Contains(err.Error(), "bytes of metadata") {
		t.Errorf("%v, want an error about its metadata", err)
	}
}

// LZ4 is refused: the library's decoder does not terminate on damaged data.
func TestParquetLZ4(t *testing.T) {
	type row struct{ Instruction string }
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := parquet.WriteFile(path, []row{{"x"}}, parquet.Compression(&parquet.Lz4Raw)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTable(path, WithRequired()); err == nil || !strings.Contains(err.Error(), "LZ4") {
		t.Errorf("%v, want an error about LZ4", err)
	}
}
