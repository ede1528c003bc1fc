package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testfile"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

func samples(t testing.TB) []Row {
	return []Row{
		{
			ID:          "0",
			Group:       "g",
			Source:      Image{Path: "a/b.png"},
			Edit:        Image{Path: "c.png", Bytes: picture(t, "grey.png")},
			Target:      Image{Bytes: picture(t, "420.jpg")},
			Instruction: "Größer & <klein>\n\"x\"",
			Label:       number(0.5),
			Why:         "clip_d",
			Method:      "ip2p",
			ClipD:       number(-0.25),
			ClipI:       number(1),
			DinoI:       number(0.1),
			Split:       "train",
			Dataset:     "d",
		},
		{ID: "1", Source: Image{Path: "a"}, Edit: Image{Path: "b"}, Instruction: "i", Label: number(0)},
		{ID: "2", Source: Image{Path: "a"}, Edit: Image{Path: "b"}},
	}
}

func sequence(rows []Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestWriteTable(t *testing.T) {
	for _, name := range []string{"t.parquet", "t.jsonl"} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, name)
			var before []byte
			for range 2 {
				if err := WriteTable(path, sequence(samples(t))); err != nil {
					t.Fatal(err)
				}
				raw, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if before != nil && !bytes.Equal(before, raw) {
					t.Errorf("%s: the second writing: got %d bytes, want the same %d", name, len(raw), len(before))
				}
				before = raw
			}
			if d := cmp.Diff(samples(t), rows(t, open(t, path))); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
			broken := errors.New("broken")
			err := WriteTable(path, func(yield func(Row, error) bool) { _ = yield(Row{}, nil) && yield(Row{}, broken) })
			if after, _ := os.ReadFile(path); !errors.Is(err, broken) || !bytes.Equal(before, after) {
				t.Errorf("%s: a writing that fails: got error %v, %d bytes in the file, want %v, %d", name, err, len(after), broken,
					len(before))
			}
			if files, _ := os.ReadDir(folder); len(files) != 1 {
				t.Errorf("%s: folder: got %v, want one file", name, files)
			}
		})
	}
	if err := WriteTable(filepath.Join(t.TempDir(), "t.csv"), sequence(nil)); err == nil {
		t.Errorf("writing CSV: got error %v, want one", err)
	}
}

// TestRowGroups reads a table of many row groups, in order and at random.
func TestRowGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	const n = 3<<14 + 5 // more than three row groups
	label := func(i int) *float64 { return number(float64(i%11) / 10) }
	err := WriteTable(path, func(yield func(Row, error) bool) {
		for i := range n {
			if !yield(Row{ID: "id", Source: Image{Path: "s"}, Edit: Image{Path: "e"}, Label: label(i)}, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	table := open(t, path)
	if table.Len() != n {
		t.Fatalf("%d rows, want %d", table.Len(), n)
	}
	for k := range 200 {
		i := k * 7919 % n
		if row, err := table.Read(i); err != nil || *row.Label != *label(i) {
			t.Fatalf("row %d: got %v, %v, want label %v", i, row, err, *label(i))
		}
	}
	i := 0
	for row, err := range table.All() {
		if err != nil || *row.Label != *label(i) {
			t.Fatalf("row %d: got %v, %v, want label %v", i, row, err, *label(i))
		}
		i++
	}
}

// metadata reads the metadata of a Parquet file.
func metadata(t testing.TB, path string) *format.FileMetaData {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return f.Metadata()
}

// TestLargeRowGroup reads with a seeking reader, with and without a page index.
func TestLargeRowGroup(t *testing.T) {
	folder := t.TempDir()
	indexed, plain := filepath.Join(folder, "indexed.parquet"), filepath.Join(folder, "plain.parquet")
	const n = 60
	blob := func(i int) []byte {
		p := noise(400, 400).Pix
		p[0] = byte(i)
		return p
	}
	if err := WriteTable(indexed, func(yield func(Row, error) bool) {
		for i := range n {
			if !yield(Row{Source: Image{Bytes: blob(i)}, Edit: Image{Path: "e"}}, nil) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Source      []byte `parquet:"source"`
		Edit        string `parquet:"edit"`
		Instruction string `parquet:"instruction"`
	}
	var all []row
	for i := range n {
		all = append(all, row{blob(i), "e", ""})
	}
	if err := parquet.WriteFile(plain, all); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{indexed, plain} {
		table := open(t, path)
		if size := metadata(t, path).RowGroups[0].TotalByteSize; size <= 16<<20 {
			t.Fatalf("%s: got a row group of %d bytes, want more than 16 MiB, or this tests nothing", path, size)
		}
		for _, i := range []int{0, 1, 2, 59, 30, 31, 7, 7, 0} {
			if row, err := table.Read(i); err != nil || !bytes.Equal(row.Source.Bytes, blob(i)) {
				t.Errorf("%s: row %d: got %d bytes, %v, want %d", path, i, len(row.Source.Bytes), err, len(blob(i)))
			}
		}
	}
}

func TestPassThrough(t *testing.T) {
	added := []Column{{"score", KindNumber}, {"error", KindText}}
	score := func(from *Table, format Format) *Table {
		t.Helper()
		path := filepath.Join(
			t.TempDir(),
			map[Format]string{FormatJSONL: "t.jsonl", FormatParquet: "t.parquet"}[format],
		)
		var out bytes.Buffer
		w, err := from.NewWriter(&out, format, added...)
		if err != nil {
			t.Fatal(err)
		}
		for rec, err := range from.Records() {
			if err != nil {
				t.Fatal(err)
			}
			rec.Set("score", 7.5)
			rec.Set("error", nil)
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return open(t, path, WithRequired())
	}
	text := testfile.Write(
		t,
		"t.jsonl",
		`{"source":"a","z":1.50,"b":[1,{"c":null}],"instruction":"i","edit":{"path":"p","bytes":"YQ=="},`+
			`"n":12345678901234567890}
{"edit":"q","new":true,"score":"old","source":"<b>","z":2,"mixed":1}
{"mixed":"text"}
`,
	)
	want := `{"source":"a","z":1.50,"b":[1,{"c":null}],"instruction":"i","edit":{"path":"p","bytes":"YQ=="},` +
		`"n":12345678901234567890,"score":7.5,"error":null}
{"edit":"q","new":true,"score":7.5,"source":"<b>","z":2,"mixed":1,"error":null}
{"mixed":"text","score":7.5,"error":null}
`
	lines := score(open(t, text, WithRequired()), FormatJSONL)
	if raw, _ := os.ReadFile(lines.Path()); string(raw) != want {
		t.Errorf("JSONL to JSONL:\n%s", cmp.Diff(want, string(raw)))
	}
	table := score(open(t, text, WithRequired()), FormatParquet)
	if got := strings.Join(table.source.columns(), " "); got != "source z b instruction edit n new mixed score error" {
		t.Errorf("got columns %s, want %s", got, "source z b instruction edit n new mixed score error")
	}
	back := score(table, FormatJSONL)
	raw, _ := os.ReadFile(back.Path())
	if got, want := strings.Split(string(raw), "\n")[1],
		`{"source":"<b>","z":2,"b":null,"instruction":null,"edit":{"bytes":null,"path":"q"},`+
			`"n":null,"new":true,"mixed":"1","score":7.5,"error":null}`; got != want {
		t.Errorf("JSONL to Parquet to JSONL:\n%s\n%s", got, want)
	}

	nested := open(t, "testdata/tables/nested.parquet", WithRequired())
	twice := score(score(nested, FormatParquet), FormatParquet) // the second time replaces the columns
	if got, want := twice.source.columns(), append(nested.source.columns(), "score", "error"); !cmp.Equal(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
	for i := range nested.Len() {
		a, errA := nested.Record(i)
		b, errB := twice.Record(i)
		a.Set("score", 7.5)
		a.Set("error", nil)
		if d := cmp.Diff(a.Fields, b.Fields, cmpopts.IgnoreUnexported(Record{})); d != "" || errA != nil ||
			errB != nil {
			t.Errorf("row %d: got errors %v, %v, want none; fields differ:\n%s", i, errA, errB, d)
		}
	}
}

func TestWrongValues(t *testing.T) {
	w, err := NewWriter(
		new(bytes.Buffer),
		FormatParquet,
		[]Column{{"n", KindInteger}, {"b", KindBool}, {"x", KindNumber}, {"i", KindImage}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"n": 1.5, "b": "yes", "x": "much", "i": 5.0} {
		t.Run(name, func(t *testing.T) {
			if err := w.Write(Record{Fields: []Field{{name, v}}}); err == nil ||
				!strings.Contains(err.Error(), `column "`+name+`"`) {
				t.Errorf("%s: got error %v, want one with %q", name, err, `column "`+name+`"`)
			}
		})
	}
	if _, err := NewWriter(new(bytes.Buffer), FormatParquet, []Column{{"n", KindInteger}, {"n", KindText}}); err == nil {
		t.Errorf("two columns of one name: got error %v, want one", err)
	}
}

// TestRewriteEncodings: columns of every type without dictionaries are copied with the same values, in encodings
// valid for their types.
func TestRewriteEncodings(t *testing.T) {
	for _, name := range []string{"plain.parquet", "datasets.parquet", "nested.parquet", "binary.parquet"} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile("testdata/tables/" + name)
			if err != nil {
				t.Fatal(err)
			}
			from := open(t, testfile.Write(t, name, string(raw)), WithRequired()) // in the folder of the copy: no path moves
			path := filepath.Join(from.Folder(), "out.parquet")
			if err := from.Rewrite(t.Context(), path, FormatParquet, nil, keep); err != nil {
				t.Errorf("%s: Rewrite: got error %v, want none", name, err)
				return
			}
			to := open(t, path, WithRequired())
			for i := range from.Len() {
				want, err := from.Record(i)
				if err != nil {
					t.Fatal(err)
				}
				got, err := to.Record(i)
				d := cmp.Diff(want.Fields, got.Fields, cmpopts.IgnoreUnexported(Record{}), cmpopts.EquateNaNs())
				if err != nil || d != "" {
					t.Errorf("%s: row %d: %v, -want +got\n%s", name, i+1, err, d)
				}
			}
			for _, c := range metadata(t, path).RowGroups[0].Columns {
				for _, s := range c.MetaData.EncodingStats {
					if s.Encoding == format.RLE && c.MetaData.Type != format.Boolean {
						t.Errorf("%s: got values of %v, of type %v, written as RLE, want it for Booleans alone", name,
							c.MetaData.PathInSchema, c.MetaData.Type)
					}
				}
			}
		})
	}
}

// TestLargeIntegers: ids beyond 2^53 are rewritten digit by digit, from JSONL and from unsigned columns of Parquet.
func TestLargeIntegers(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "in.jsonl")
	const rest = `,"source":"","instruction":""}` + "\n"
	lines := `{"id":1234567890123456789,"big":18446744073709551616,"small":3,"list":[9007199254740993,1.50],"edit":"a"` +
		rest + `{"id":-1234567890123456788,"big":1,"small":4.0,"list":null,"edit":"b"` + rest
	if err := os.WriteFile(text, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	type unsigned struct {
		ID          uint64 `parquet:"id"`
		Source      string `parquet:"source"`
		Edit        string `parquet:"edit"`
		Instruction string `parquet:"instruction"`
	}
	columns := filepath.Join(dir, "in.parquet")
	ids := []unsigned{{ID: 1<<64 - 1, Edit: "a"}, {ID: 1<<63 - 1, Edit: "b"}}
	if err := parquet.WriteFile(columns, ids); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, out, column, first, second string }{
		{text, "a.parquet", "id", "1234567890123456789", "-1234567890123456788"},
		{text, "a.parquet", "big", "18446744073709551616", "1"},
		{text, "a.parquet", "small", "3", "4"},
		{text, "a.parquet", "list", "[9007199254740993,1.50]", ""},
		{text, "a.jsonl", "id", "1234567890123456789", "-1234567890123456788"},
		{columns, "b.jsonl", "id", "18446744073709551615", "9223372036854775807"},
		{columns, "b.parquet", "id", "18446744073709551615", "9223372036854775807"},
	} {
		t.Run(c.out+" "+c.column, func(t *testing.T) {
			o := rewritten(t, c.in, filepath.Join(dir, c.out))
			for i, want := range []string{c.first, c.second} {
				rec, err := o.Record(i)
				if err != nil {
					t.Fatal(err)
				}
				v, _ := rec.Get(c.column)
				if got, err := Text(v); got != want || err != nil {
					t.Errorf("row %d: got %s, %v, want %s", i+1, got, err, want)
				}
			}
		})
	}
}

// TestIntegerCells: integers of all sources are written exactly.
func TestIntegerCells(t *testing.T) {
	const want = int64(9007199254740993)
	for _, v := range []any{want, json.RawMessage("9007199254740993")} {
		if got, err := cell(KindInteger, v); got != want || err != nil {
			t.Errorf("%T: got %v, %v, want %d", v, got, err, want)
		}
	}
}

// rewritten rewrites a table unchanged, and opens the copy.
func rewritten(t *testing.T, in, out string) *Table {
	t.Helper()
	from, err := OpenTable(in)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	f, err := FormatOf(out)
	if err == nil {
		err = from.Rewrite(t.Context(), out, f, nil, func(int, *Record) error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	to, err := OpenTable(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	return to
}

// TestUnmarkedText: binary columns of Parquet that hold text or pictures are the same in JSONL.
func TestUnmarkedText(t *testing.T) {
	dir := t.TempDir()
	type binary struct {
		ID          []byte `parquet:"id"`
		Source      []byte `parquet:"source"`
		Edit        []byte `parquet:"edit"`
		Instruction []byte `parquet:"instruction"`
	}
	grey := picture(t, "grey.png")
	in := filepath.Join(dir, "in.parquet")
	if err := parquet.WriteFile(in, []binary{{[]byte("first"), []byte("a.png"), grey, []byte("grün")}}); err != nil {
		t.Fatal(err)
	}
	row, err := rewritten(t, in, filepath.Join(dir, "out.jsonl")).Read(0)
	if err != nil {
		t.Fatal(err)
	}
	if row.ID != "first" || row.Source.Path != "a.png" || !bytes.Equal(row.Edit.Bytes, grey) || row.Instruction != "grün" {
		t.Errorf("got id %q, source %q, edit of %d bytes, instruction %q, want first, a.png, %d bytes, grün", row.ID,
			row.Source.Path, len(row.Edit.Bytes), row.Instruction, len(grey))
	}
}
