package readers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/heuristics"
	"assay/internal/packed"
)

// fixtures is a folder of small datasets in their published layouts (tools/oracle/readers.py).
var fixtures string

func TestMain(m *testing.M) { packed.Main(m, &fixtures, "testdata/layouts.zip") }

// colour returns the n of a picture made by tools/oracle/readers.py.
func colour(m data.Image) string {
	if m.IsZero() {
		return "-"
	}
	p, err := m.Open("", data.Limits{})
	if err != nil {
		return err.Error()
	}
	r, g := int(p.Pix[0]), int(p.Pix[1])
	if n := (r + 255 - g) / 2; math.Abs(float64(r-n)) <= 2 { // JPEG
		return fmt.Sprint(n)
	}
	return fmt.Sprint(p.Pix[:3])
}

func number(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", *x)
}

func similarity(s heuristics.Similarity) string {
	if x, ok := s.Value(); ok {
		return number(&x)
	}
	return s.String()
}

// describe describes a sample in one line.
func describe(s *Sample, err error) string {
	var left Left
	if errors.As(err, &left) {
		return "left: " + err.Error()
	} else if err != nil {
		return "error: " + err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s|%s|", s.ID, s.Session)
	if s.Split != "" {
		fmt.Fprintf(&b, "%s|", s.Split)
	}
	if s.Chain != nil {
		for i, p := range s.Chain.Pictures {
			if i > 0 {
				fmt.Fprintf(&b, " >%s> ", s.Chain.Instructions[i-1])
			}
			b.WriteString(colour(p))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%s >%s> %s", colour(s.Source), s.Instruction, colour(s.Target))
	if s.SourceCaption+s.TargetCaption != "" {
		fmt.Fprintf(&b, "|%s > %s", s.SourceCaption, s.TargetCaption)
	}
	for _, o := range s.Outputs {
		fmt.Fprintf(&b, "|%s %s", o.Editor, colour(o.Picture))
		if o.Given != nil {
			fmt.Fprintf(&b, " label %s", number(o.Given))
		}
		if !o.ClipI.Unknown() {
			fmt.Fprintf(&b, " %s %s %s", similarity(o.ClipD), similarity(o.ClipI), similarity(o.DinoI))
		}
	}
	if s.Preference != nil {
		fmt.Fprintf(&b, "|better %d", s.Preference.Better)
	}
	return b.String()
}

func all(t *testing.T, layout string, o Options) []string {
	t.Helper()
	r, err := Open(t.Context(), layout, o)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, r.Len())
	for i := len(out) - 1; i >= 0; i-- { // any order
		out[i] = describe(r.Read(i))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return out
}

func TestLayouts(t *testing.T) {
	magicbrush := []string{"100-1|100|10 >add a hat> 11", "100-2|100|11 >make it red> 12",
		"200-1|200|20 >remove the dog> 21"}
	adiee := []string{
		"000000||10 >add a hat> 11|cyclediff 30 0.1 0.9 0.5|diffedit 31 0.3 0.9 0.5|magicbrush 32 0.5 0.9 0.5",
		"000001||11 >make it red> 12|cyclediff 40 undefined 0.8 0.4|diffedit 41 undefined 0.8 0.4|magicbrush 42 undefined " +
			"0.8 0.4",
		"000002||20 >remove the dog> 21|cyclediff 50 unknown 0.7 0.3|magicbrush 52 unknown 0.7 0.3",
	}
	for _, c := range []struct {
		name, layout string
		o            Options
		want         []string
	}{
		{"magicbrush", "magicbrush", Options{Path: "magicbrush"}, magicbrush},
		{"magicbrush chains", "magicbrush", Options{Path: "magicbrush", Chains: true},
			[]string{"100|100|10 >add a hat> 11 >make it red> 12", "left: a later turn of a chain",
				"200|200|20 >remove the dog> 21"}},
		{"magicbrush files", "magicbrush", Options{Path: "magicbrush_files"}, []string{
			"100-output1|100|10 >add a hat> 11|a man > a man with a hat",
			"100-output2|100|11 >make it red> 12|a man with a hat > ",
			"200-output1|200|20 >remove the dog> 21"}},
		{"magicbrush zip, chains", "magicbrush", Options{Path: "magicbrush.zip", Chains: true},
			[]string{"100|100|dev|10 >add a hat> 11 >make it red> 12", "200|200|dev|20 >remove the dog> 21"}},
		{"adiee as datasets saves it", "adiee-magicbrush", Options{Path: "adiee"}, adiee},
		{"adiee, one split", "adiee-magicbrush", Options{Path: "adiee/train"}, adiee},
		{"adiee, Parquet", "adiee-magicbrush", Options{Path: "adiee.parquet"}, adiee},
		{"emu-edit", "emu-edit", Options{Path: "emu.parquet"},
			[]string{"h0-000000||test|10 >add a hat> -|a man > a man with a hat",
				"h1-000001||test|20 >make it a painting> -|a dog > a painting of a dog"}},
		{"emu-edit generations, styles", "emu-edit", Options{Path: "emu_generations.parquet",
			Tasks: []string{"global", "style"}},
			[]string{"left: task add", "h1-000001||test|20 >make it a painting> -|a dog > a painting of a dog|hive 62"}},
		{"seed part 3", "seed-data-edit", Options{Path: "seed3"}, []string{
			"000000|20240401_1turns/Data/1/0.jpg|10 >add a hat> 11 >make it red> 12",
			"left: folder 20240330_315P_1323turns/Data/210",
			`error: split_1.jsonl:1: column "edit_image_1": 20240401_1turns/Data/2/1.jpg: no such file under ` +
				filepath.Join(fixtures, "seed3") + `, nor in an archive there`}},
		{"seed part 2", "seed-data-edit", Options{Path: "seed2"}, []string{"000000|1/0.png|10 >add a hat> 11"}},
		{"seed, dropped", "seed-data-edit", Options{Path: "seed2", Drop: []string{"1"}}, []string{"left: folder 1"}},
		{"instructpix2pix", "instructpix2pix", Options{Path: "instructpix2pix"}, []string{
			"0000001/5|0000001|5 >add a hat 0000001> 6|a man > a man with a hat",
			"0000001/77|0000001|77 >add a hat 0000001> 78|a man > a man with a hat",
			"0000002/77|0000002|77 >add a hat 0000002> 78|a man > a man with a hat"}},
		{"aim-bench", "aim-bench", Options{Path: "aimbench"}, []string{"000000||10 >make it sad> 11"}},
		{"editreward", "editreward", Options{Path: "editreward.parquet"}, []string{
			"k1-000000||10 >edit k1> -|A 61 label 1|B 62 label 0|better 0",
			"k1-000001||10 >edit k1> -|A 61 label 1|B 63 label 1|better -1",
			"k2-000002||20 >edit k2> -|A 64 label 0.167|B 65 label 0.5|better 1"}},
		{"folder", "folder", Options{Path: "folder"}, []string{"dog||20 >edit the dog> -|magicbrush 70",
			"hat||10 >edit the hat> 11|a man > a man with a hat|magicbrush 60|sdedit 70"}},
		{"table by a column map", "table", Options{Path: "table.csv", LabelRange: [2]float64{0, 10},
			Columns: map[string]string{"source": "before", "edit": "after", "instruction": "text", "method": "who",
				"label": "mark"}},
			[]string{"000000||10 >add a hat> -|sdedit 70 label 0.4", "000001||20 >remove the dog> -"}},
		{"triplets by a column map", "triplets", Options{Path: "magicbrush",
			Columns: map[string]string{"source": "source_img", "target": "target_img", "id": "img_id"}},
			[]string{"100||10 >add a hat> 11", "100||11 >make it red> 12", "200||20 >remove the dog> 21"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Path = filepath.Join(fixtures, c.o.Path)
			c.o.Unpack = t.TempDir()
			if d := cmp.Diff(c.want, all(t, c.layout, c.o)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestColumns(t *testing.T) {
	table := map[string]string{"source": "before", "edit": "after", "instruction": "text", "method": "who"}
	with := func(field, column string) map[string]string {
		m := maps.Clone(table)
		m[field] = column
		return m
	}
	without := maps.Clone(table)
	delete(without, "edit")
	for _, c := range []struct {
		layout, path string
		columns      map[string]string
		want         string
	}{
		{"table", "table.csv", nil, "table: " + filepath.Join(fixtures, "table.csv") +
			`: no column "source", only before, after, text, who, mark; name the column for source in sources[].columns`},
		{"table", "table.csv", without, `no column "edit"`},
		{"table", "table.csv", with("label", "marks"), "columns: label: " + filepath.Join(fixtures, "table.csv") +
			`: no column "marks", only before`},
		{"table", "table.csv", with("picture", "before"), `no field "picture"`},
		{"editreward", "editreward.parquet", map[string]string{"left_score": "points"}, `no column "points"`},
		{"magicbrush", "magicbrush", map[string]string{"source": "picture"},
			`dev-00000-of-00002.parquet: no column "picture"`},
		{"adiee-magicbrush", "adiee", map[string]string{"session": "img_id"},
			`data-00000-of-00002.arrow: no column "img_id"`},
		{"seed-data-edit", "seed2", map[string]string{"source": "before"},
			`part2.jsonl: no column "before", only source_image`},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := Open(t.Context(), c.layout, Options{
				Path: filepath.Join(fixtures, c.path), Columns: c.columns, Unpack: t.TempDir(),
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %v: %v, want %s", c.path, c.columns, err, c.want)
			}
		})
	}
	for layout, path := range map[string]string{"luck": ".", "folder": "adiee", "magicbrush": "none", "table": "folder",
		"seed-data-edit": "folder", "instructpix2pix": "."} {
		t.Run(layout, func(t *testing.T) {
			if _, err := Open(t.Context(), layout, Options{Path: filepath.Join(fixtures, path)}); err == nil {
				t.Errorf("%s: opening %s: got error %v, want one", layout, path, err)
			} else {
				t.Log(err)
			}
		})
	}
	if n := len(Layouts()); n != 12 {
		t.Errorf("got %d layouts, want 12", n)
	}
}

// An interrupted run continues from the files already there, and a finished one does not read the archive again.
func TestUnpackAgain(t *testing.T) {
	dir := t.TempDir()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	o := Options{Path: filepath.Join(fixtures, "seed3"), Unpack: dir}
	if _, err := Open(stopped, "seed-data-edit", o); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped: got error %v, want %v", err, context.Canceled)
	}
	picture := filepath.Join(dir, "20240401_1turns", "Data", "1", "1.jpg")
	all(t, "seed-data-edit", o)
	if _, err := os.Stat(filepath.Join(dir, "20240401_1turns", "Data", "9", "0.jpg")); err == nil {
		t.Errorf("a picture that no annotation names: got error %v, want it not unpacked", err)
	}
	if err := os.Truncate(picture, 3); err != nil { // as after a crash
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "unpacked.json")); err != nil {
		t.Fatal(err)
	}
	want := all(t, "seed-data-edit", o)[0]
	if strings.Contains(want, "error") || !strings.Contains(want, "11") {
		t.Errorf("got %q, want the sample of pictures 11", want)
	}
	if err := os.Remove(picture); err != nil {
		t.Fatal(err)
	}
	if got := all(t, "seed-data-edit", o)[0]; !strings.HasPrefix(got, "error") {
		t.Errorf("rereading the archive: got %s, want an error", got)
	}
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A picture that archives have twice is unpacked if both are equal; one that may be either of two is refused, since
// the wrong one would be read without a word.
func TestUnpackAmbiguous(t *testing.T) {
	const a, b = `{"source_image": "x/1/0.jpg", "target_image": "x/1/1.jpg", "instruction": "do"}`,
		`{"source_image": "y/1/0.jpg", "target_image": "y/1/1.jpg", "instruction": "do"}`
	tests := []struct {
		name, rows string
		archives   [][]string
		want       string // of the error; "": none
	}{
		{"apart", a + "\n" + b, [][]string{{"x/1/0.jpg=1", "x/1/1.jpg=2"},
			{"y/1/0.jpg=3", "y/1/1.jpg=4"}}, ""},
		{"without folders", a, [][]string{{"1/0.jpg=1", "1/1.jpg=2"}}, ""},
		{"either name", a + "\n" + b, [][]string{{"1/0.jpg=1", "1/1.jpg=2"}},
			"1/0.jpg may be x/1/0.jpg or y/1/0.jpg"},
		{"equal", a, [][]string{{"x/1/0.jpg=1", "x/1/1.jpg=2"}, {"old/x/1/0.jpg=1"}}, ""},
		{"either file", a, [][]string{{"x/1/0.jpg=1", "x/1/1.jpg=2"}, {"old/x/1/0.jpg=9"}},
			"x/1/0.jpg may be x/1/0.jpg or old/x/1/0.jpg, which differ"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, files := range tt.archives {
				move(t, tarOf(t, files...), filepath.Join(dir, fmt.Sprintf("%d.tar", i)))
			}
			write(t, filepath.Join(dir, "a.jsonl"), []byte(tt.rows))
			r, err := Open(t.Context(), "seed-data-edit", Options{Path: dir, Unpack: t.TempDir()})
			if err == nil {
				defer r.Close()
				_, err = r.Read(0)
			}
			if said := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(said, tt.want) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

// The archives are read again for pictures that an earlier run did not want.
func TestUnpackMore(t *testing.T) {
	dir, into := t.TempDir(), t.TempDir()
	move(t, tarOf(t, "x/0.jpg=1", "x/1.jpg=2"), filepath.Join(dir, "a.tar"))
	row := `{"source_image": "x/0.jpg", "target_image": "x/1.jpg", "instruction": "do"}`
	write(t, filepath.Join(dir, "a.jsonl"), []byte(row))
	for _, drop := range [][]string{{"x"}, nil} {
		r, err := Open(t.Context(), "seed-data-edit", Options{Path: dir, Unpack: into, Drop: drop})
		if err != nil {
			t.Fatal(err)
		}
		var left Left
		if _, err = r.Read(0); drop != nil && !errors.As(err, &left) || drop == nil && err != nil {
			t.Errorf("dropped %v: got error %v, want the picture, or that it is left out", drop, err)
		}
		r.Close()
	}
}

func TestDamaged(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(fixtures, "adiee/train/data-00000-of-00002.arrow"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "data-00000-of-00001.arrow")
	for n := 0; n < len(raw); n += 41 {
		damaged := append([]byte(nil), raw[:n]...)
		if n%2 == 1 {
			damaged = append([]byte(nil), raw...)
			damaged[n] ^= 0xff
		}
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := openRows(dir) // an error or not, but no panic
		if err != nil {
			continue
		}
		for i := range min(r.len(), 3) {
			r.record(i)
		}
		r.close()
	}
}

func FuzzSeeds(f *testing.F) {
	f.Add([]byte(`[["0000001",[5,"77"]]]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "seeds.json"), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(context.Background(), "instructpix2pix", Options{Path: dir})
		if err != nil {
			return
		}
		for i := range min(r.Len(), 10) {
			if _, err := r.Read(i); err == nil {
				t.Errorf("reading a sample out of nothing: got error %v, want one", err)
			}
		}
	})
}

// The authors' repository of AIM-Bench has the pictures in benchmark/.
func TestAIMBenchPictures(t *testing.T) {
	from, dir := filepath.Join(fixtures, "aimbench"), t.TempDir()
	for _, name := range []string{"in", "out"} {
		if err := os.CopyFS(filepath.Join(dir, "benchmark", name), os.DirFS(filepath.Join(from, name))); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(from, "Instructions.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Instructions.json"), raw, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "Instructions.json")} {
		if d := cmp.Diff([]string{"000000||10 >make it sad> 11"}, all(t, "aim-bench", Options{Path: path})); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

// TestListOfSources: rows with several sources are refused, since labels need a single source.
func TestListOfSources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	rows := `{"source": "a.png", "edit": "c.png", "instruction": "x"}
{"sources": ["a.png", "b.png"], "edit": "c.png", "instruction": "x"}`
	if err := os.WriteFile(path, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	const want = "the row has a list of sources, but labels need a single source"
	if got := all(t, "table", Options{Path: path}); len(got) != 2 || !strings.Contains(got[1], want) {
		t.Errorf("got %q, want a second row with %q", got, want)
	}
}

// TestBrokenSessions: a chain ends where turns are missing, and another begins; a turn that is there twice is an error.
func TestBrokenSessions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	short := func(r Reader, i int) string {
		s, err := r.Read(i)
		if err != nil {
			return err.Error()
		}
		return s.ID + ": " + strings.Join(s.Chain.Instructions, " ")
	}
	check := func(path string, want ...string) {
		t.Helper()
		r, err := Open(t.Context(), "magicbrush", Options{Path: path, Chains: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var got []string
		for i := range r.Len() {
			got = append(got, short(r, i))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("chains (-want +got):\n%s", d)
		}
	}
	csv := "img_id,turn_index,source_img,target_img,instruction\n"
	for _, turn := range []string{"a,1", "a,2", "a,4", "a,5", "b,2", "c,1", "c,2", "c,2", "c,3", "d,1"} {
		csv += turn + ",s.png,t.png," + strings.Replace(turn, ",", "", 1) + "\n"
	}
	write("t.csv", csv)
	const later = "a later turn of a chain"
	check(filepath.Join(dir, "t.csv"), "a: a1 a2", later, "a-4: a4 a5", later, "b-2: b2", "c: c1 c2", later,
		"session c has turn 2 twice, in rows 7 and 8", "c-3: c3", "d: d1")
	write("edit_turns.json", "[]")
	write("edit_sessions.json", `{"7": [{"input": "7-input.png", "output": "7-output1.png", "instruction": "one"},
		{"input": "7-output2.png", "output": "7-output3.png", "instruction": "three"}]}`)
	check(dir, "7: one", "7-output3: three")
}

// TestFolderOfTables: every kind of table in a folder is read, but not the files that only describe a data set.
func TestFolderOfTables(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.CSV":             "source,instruction,edit\ns.png,a,e.png\n",
		"b.json":            `[{"source": "s.png", "instruction": "b", "edit": "e.png"}]`,
		"c.ndjson":          `{"source": "s.png", "instruction": "c", "edit": "e.png"}`,
		"d.json":            `{"source": "s.png", "instruction": "d", "edit": "e.png"}` + "\n" + `{"instruction": "e"}`,
		"dataset_info.json": "{\n  \"features\": {}\n}",
		"state.json":        `{"_data_files": [{"filename": "a"}]}`,
		"numbers.json":      "[1, 2]",
		"README.md":         "# Data",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r, err := openRows(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	var got []string
	for i := range r.len() {
		rec, err := r.record(i)
		text, _ := rec.Get("instruction")
		if err != nil {
			t.Errorf("row %d: got error %v, want none", i, err)
		}
		name, _ := data.Text(text)
		got = append(got, name)
	}
	if d := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.arrow"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := openRows(dir); err == nil || !strings.Contains(err.Error(), "x.arrow and ") {
		t.Errorf("with an arrow file: got error %v, want one that names the files", err)
	}
}
