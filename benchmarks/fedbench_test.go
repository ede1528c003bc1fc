package benchmarks

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/stats"
)

// The leaderboard has each method's means by kind of instructions, as the means of the lines alone.
func TestFEDBenchLeaderboard(t *testing.T) {
	s := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5})
	r := &Report{Benchmark: fedBench}
	r.Add("all", must[Predictions](t)(s.Read("testdata/fed.jsonl")))
	r.Measure(s, 50, 1)
	want := map[string][]float64{} // method and kind: the samples' scores, one line at a time
	text := string(must[[]byte](t)(os.ReadFile("testdata/fed.jsonl")))
	for line := range strings.Lines(text) {
		var tags struct{ Method, Instructions string }
		if err := json.Unmarshal([]byte(line), &tags); err != nil {
			t.Fatal(err)
		}
		j := must[Predictions](t)(s.Read(write(t, "one.jsonl", line)))
		k := tags.Instructions + " " + tags.Method
		want[k] = append(want[k], j.Result().number("fed_score"))
	}
	seen := 0
	for _, b := range r.Boards() {
		summary := b.Summary()
		at := slices.Index(summary.Columns, "fed_score")
		kind := summary.Title[strings.LastIndex(summary.Title, " ")+1:]
		for _, row := range summary.Rows {
			list, ok := want[kind+" "+row.Name]
			if !ok {
				continue
			}
			seen++
			if !(math.Abs(row.Cells[at]-stats.Mean(list)) < 1e-12) || !row.bounded(at) {
				t.Errorf("%s %s: %v, want %v", kind, row.Name, row.Cells[at], stats.Mean(list))
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d methods and kinds of instructions on the boards, want %d", seen, len(want))
	}
}

// A scorer's lines and halves of the components mix, and the scorer is compared with every component and the votes.
func TestFEDBenchMixes(t *testing.T) {
	s := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5, Votes: "testdata/fed_votes.jsonl"}).(Mixed)
	whole := must[[]Editor](t)(s.ReadAll([]string{"testdata/fed.jsonl"}))[0].Result()
	var a, b, scores strings.Builder
	for i, r := range must[[]row](t)(readRows("testdata/fed.jsonl")) {
		one, two := map[string]any{}, map[string]any{"by": map[string]string{"pq": "Judge-1", "sc": "Judge-1"}}
		for name, raw := range r.fields {
			switch name {
			case "sample", "method", "instructions":
				one[name], two[name] = raw, raw
			case "pq", "sc":
				two[name] = raw
			default:
				one[name] = raw
			}
		}
		var method, kind, sample string
		for to, name := range map[*string]string{&method: "method", &kind: "instructions", &sample: "sample"} {
			json.Unmarshal(r.fields[name], to)
		}
		for w, v := range map[*strings.Builder]any{&a: one, &b: two,
			&scores: map[string]any{"id": sample, "model": method + "/" + kind, "score": float64(i*37%11) / 2}} {
			w.Write(append(must[[]byte](t)(json.Marshal(v)), '\n'))
		}
	}
	paths := []string{write(t, "a.jsonl", a.String()), write(t, "b.jsonl", b.String()),
		write(t, "s.jsonl", scores.String())}
	mixed := must[[]Editor](t)(s.ReadAll(paths))[0]
	got := mixed.Result()
	for i, n := range whole.Numbers {
		g := got.Numbers[i]
		if g.Value != n.Value || g.Name == "pq" && g.Judge != "judge-1" || g.Name == "fed_score" && g.Judge != "" {
			t.Errorf("%s = %v by %q, want %v", n.Name, g.Value, g.Judge, n.Value)
		}
	}
	var titles []string
	rows := map[string]int{}
	for _, table := range slices.Concat(got.Agreement, got.Tables) {
		titles = append(titles, table.Title)
		for _, r := range table.Rows {
			if r.Name == "score" {
				rows[table.Title]++
			}
		}
	}
	all := strings.Join(titles, "; ")
	if !strings.Contains(all, "agreement of the scorer with each component") ||
		rows["2AFC accuracy against the majority of votes"] != 1 {
		t.Errorf("tables %s, rows of the scorer %v", all, rows)
	}
	_, err := s.ReadAll(append(paths, paths[1]))
	if err == nil || !strings.Contains(err.Error(), "a second value of pq for") {
		t.Error(err)
	}
}

// Components that are missing in part show in the coverage; judges, normalisation and instructions keep printed numbers
// apart.
func TestFEDBenchBasis(t *testing.T) {
	const line = `{"sample": "%", "method": "m", "instructions": "dense", "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, ` +
		`"gta": 5, "lpips_src_trg": 0.1, "lpips_src_gt": 0.1, "by": {"pq": "Gemini-2.5-Pro"}}`
	data := write(t, "index.jsonl", `{"sample": "a", "source": "a.png", "gt": "g.png", "dense_instruction": "x"}`+"\n"+
		`{"sample": "b", "source": "b.png", "gt": "g.png", "dense_instruction": "x"}`)
	s := loadSet(t, fedBench, Options{Data: data, BGNorm: "linear:255", Sigma: 0.5})
	r := &Report{Benchmark: fedBench}
	r.Add("m", must[Predictions](t)(s.Read(write(t, "c.jsonl", strings.Replace(line, "%", "a", 1)))))
	pq := r.Figures()[3]
	if pq.Name != "pq (50% of 2)" || pq.Judge != "gemini-2.5-pro" || pq.Subset != "dense" {
		t.Errorf("%+v", pq)
	}
	var apart []string
	for _, table := range r.Apart() {
		apart = append(apart, table.Notes...)
	}
	for _, want := range []string{"it covers all 747 items, not 1 of 2 items", "its part is simple, not dense",
		"its normalisation is not public, not linear:255", "its judge is arcface-r100, that of the other is not stated"} {
		if !strings.Contains(strings.Join(apart, "\n"), want) {
			t.Errorf("%q is no reason: %q", want, apart)
		}
	}
	if _, err := s.Read(write(t, "c.jsonl", strings.Replace(line, "%", "z", 1))); err == nil ||
		!strings.Contains(err.Error(), `the sample "z" is not in the data`) {
		t.Error(err)
	}
}

// The pictures of an editor are found by kind of instructions.
func TestFEDBenchItems(t *testing.T) {
	root := t.TempDir()
	index := `{"sample": "a", "source": "a.png", "gt": "g.png", "dense_instruction": "raise the brows", ` +
		`"simple_instruction": "surprise"}`
	if err := os.WriteFile(filepath.Join(root, "index.jsonl"), []byte(index), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"dense", "simple"} {
		path := filepath.Join(root, "M", kind, "a.png")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := loadSet(t, fedBench, Options{Data: filepath.Join(root, "index.jsonl"), BGNorm: "exp:20", Sigma: 0.5,
		Editors: []string{filepath.Join(root, "M")}})
	items := must[[]Item](t)(s.(Scorable).Items())
	if len(items) != 2 || items[0].Key != (Key{"a", "M/dense"}) || items[0].Instruction != "raise the brows" ||
		items[1].Instruction != "surprise" {
		t.Errorf("%+v", items)
	}
}

// The samples on which a scorer and FED-Score disagree most are shown with their pictures.
func TestFEDBenchGallery(t *testing.T) {
	root := t.TempDir()
	var index, components strings.Builder
	for i, score := range []float64{1, 2, 9, 4} { // gta is 2, 4, 6, 8: the third's rank is one too high
		name := fmt.Sprintf("s%d", i)
		fmt.Fprintf(&index, `{"sample": %q, "source": "a.png", "gt": "g.png", "dense_instruction": "raise %d"}`+"\n", name, i)
		fmt.Fprintf(&components, `{"sample": %q, "method": "M", "instructions": "dense", "id": 0.5, "bg_rmse": 1, "pq": 5, `+
			`"sc": 5, "gta": %d, "lpips_src_trg": 0.1, "lpips_src_gt": 0.1, "score": %v}`+"\n", name, 2*i+2, score)
		path := filepath.Join(root, "M", "dense", name+".png")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "index.jsonl"), []byte(index.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	o := Options{Data: filepath.Join(root, "index.jsonl"), BGNorm: "linear:255", Sigma: 0.5,
		Editors: []string{filepath.Join(root, "M")}}
	examples := must[Predictions](
		t,
	)(
		loadSet(t, fedBench, o).Read(write(t, "c.jsonl", components.String())),
	).Result().
		Examples
	var kinds []string
	for _, e := range examples {
		kinds = append(kinds, e.Kind+" "+e.Instruction)
		if len(e.Pictures) != 3 || e.Pictures[1].Picture.Path != filepath.Join(root, "M", "dense", e.Text[:2]+".png") {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"agrees raise 0", "agrees raise 1", "disagrees raise 2", "disagrees raise 3"}; !slices.Equal(
		slices.Sorted(slices.Values(kinds)), want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	o.Editors = nil
	examples = must[Predictions](
		t,
	)(
		loadSet(t, fedBench, o).Read(write(t, "c.jsonl", components.String())),
	).Result().
		Examples
	if len(examples) != 4 || len(examples[0].Pictures) != 0 {
		t.Errorf("without the editor's folder: %+v", examples)
	}
}

// Resamples without a number are told of, by number and system.
func TestUndefinedResamples(t *testing.T) {
	s := loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)})
	rows := `{"id": "7/1", "l1": 0.5}` + "\n" + `{"id": "7/2", "l1": 0.5}` + "\n" + `{"id": "7/final", "l1": 0.25}`
	r := &Report{Benchmark: magicBrush}
	r.Add("m", must[Predictions](t)(s.Read(write(t, "p.jsonl", rows))))
	r.Measure(s, 300, 1)
	remarks := strings.Join(r.Remarks(), "\n")
	for _, f := range r.Figures() { // of three draws of three samples 1 of 27 lacks the first two
		if f.Rule == "l1: multi-turn" { // the mean of one sample, which says nothing of others
			if f.Low != nil || f.Undefined > 0 {
				t.Errorf("one sample has an interval: %+v", f)
			}
			continue
		}
		if f.Undefined == 0 || !strings.Contains(remarks, fmt.Sprintf("%d of 300 resamples have no %s of m", f.Undefined,
			f.Name)) {
			t.Errorf("%s: %d resamples without it, remarks %s", f.Name, f.Undefined, remarks)
		}
	}
}

// Coverage is of the data's triplets on every table, by method and kind of instructions. Means do not mix kinds that
// other methods lack, and say on how many samples they stand.
func TestFEDBenchCoverage(t *testing.T) {
	line := func(sample, method, kind, pq string) string {
		return fmt.Sprintf(`{"sample": %q, "method": %q, "instructions": %q, "id": 0.5, "bg_rmse": 1, "pq": %s, "sc": 5, `+
			`"gta": 5, "lpips_src_trg": 0.1, "lpips_src_gt": 0.1, "score": 1}`+"\n", sample, method, kind, pq)
	}
	var index strings.Builder
	for _, name := range []string{"s1", "s2", "s3", "s4"} {
		fmt.Fprintf(&index, `{"sample": %q, "source": "a", "gt": "g", "dense_instruction": "x", "simple_instruction": "y"}`+
			"\n", name)
	}
	s := loadSet(t, fedBench, Options{Data: write(t, "index.jsonl", index.String()), BGNorm: "linear:255", Sigma: 0.5})
	read := func(lines ...string) *Report {
		r := &Report{Benchmark: fedBench}
		r.Add("all", must[Predictions](t)(s.Read(write(t, "c.jsonl", strings.Join(lines, "")))))
		return r
	}
	r := read(line("s1", "A", "dense", "5"), line("s2", "A", "dense", "null"), line("s1", "B", "dense", "5"),
		line("s2", "B", "dense", "5"), line("s1", "A", "simple", "1"))
	var names []string
	for _, board := range r.Boards() {
		for _, f := range board.Figures() {
			if f.Rule == "pq" {
				names = append(names, f.System+" "+f.Subset+" "+f.Name)
			}
		}
	}
	if want := []string{"A dense pq (25% of 4)", "B dense pq (50% of 4)", "A simple pq (25% of 4)"}; !slices.Equal(names,
		want) {
		t.Errorf("the boards have %q, want %q", names, want)
	}
	var rows []string
	for _, table := range r.Systems[0].Result.Tables {
		for _, row := range table.Rows {
			if table.Title == "per method" {
				rows = append(rows, row.Name+": "+row.Text[0])
			}
		}
	}
	if want := []string{"A, dense: 1 to 2", "A, simple: 1", "B, dense: 2"}; !slices.Equal(rows, want) {
		t.Errorf("per method %q, want %q", rows, want)
	}
	without := func(lines ...string) string { return read(lines...).Figures()[0].Coverage.Without }
	a1, a2, b1, b2 := line("s1", "A", "dense", "1"), line("s2", "A", "dense", "1"), line("s1", "B", "dense", "1"),
		line("s2", "B", "dense", "1")
	if without(a1, a2, b1) == without(a1, b1, b2) {
		t.Error("what one method lacks is taken for what the other lacks")
	}
	if without(a1) != without(b1) || without(a1) == without(line("s1", "A", "simple", "1")) {
		t.Error("what a single method lacks goes by its name, or not by the kind of instructions")
	}
	if without(b1, a2, a1) != without(a1, a2, b1) {
		t.Error("the digest of what is missing depends on the order of the lines")
	}
}

// A pair has one line of votes, of two samples, and the table says how many pairs there are.
func TestFEDBenchVotes(t *testing.T) {
	const line = `{"sample": %q, "id": 0.5, "bg_rmse": %d, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0.1}` + "\n"
	components := write(t, "c.jsonl", fmt.Sprintf(line, "s1", 1)+fmt.Sprintf(line, "s2", 2)+fmt.Sprintf(line, "s3", 3))
	read := func(votes ...string) (Predictions, error) {
		return loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5,
			Votes: write(t, "v.jsonl", strings.Join(votes, "\n"))}).Read(components)
	}
	one := `{"a": "s1", "b": "s2", "votes": ["a", "a", "b"]}`
	for want, second := range map[string]string{
		"v.jsonl:2: a second line for a pair (the first is in v.jsonl:1)":  one,
		"v.jsonl:2: a second line for a pair (the first is in v.jsonl:1) ": `{"a": "s2", "b": "s1", "votes": ["b"]}`,
		"v.jsonl:2: a and b are one sample":                                `{"a": "s3", "b": "s3", "votes": ["b"]}`,
	} {
		if _, err := read(one, second); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	p := must[Predictions](t)(read(one, `{"a": "s2", "b": "s3", "votes": ["a"]}`))
	i := slices.IndexFunc(p.Result().Tables, func(t Table) bool { return strings.HasPrefix(t.Title, "2AFC") })
	if columns := p.Result().Tables[i].Columns; !slices.Equal(columns, []string{"all (2 pairs)"}) {
		t.Errorf("columns %q", columns)
	}
	text := strings.Replace(string(must[[]byte](t)(os.ReadFile(components))), "{", `{"clip_i": 0.9, `, 2) // of s1 and s2
	components = write(t, "d.jsonl", text)
	p = must[Predictions](t)(read(one, `{"a": "s2", "b": "s3", "votes": ["a"]}`))
	if notes := p.Result().Tables[i].Notes; !slices.Equal(notes, []string{
		"clip_i is left out: 1 of 2 pairs have no value of it"}) {
		t.Errorf("notes %q", notes)
	}
}

// What --lower names is lower in the votes as in tables: also of numbers whose names begin so.
func TestFEDBenchLower(t *testing.T) {
	const line = `{"sample": %q, "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0.1, "far_l": %d}` + "\n"
	components := write(t, "c.jsonl", fmt.Sprintf(line, "s1", 1)+fmt.Sprintf(line, "s2", 2))
	votes := write(t, "v.jsonl", `{"a": "s1", "b": "s2", "votes": ["a"]}`)
	for want, lower := range map[float64][]string{0: nil, 1: {"far"}} {
		o := Options{BGNorm: "linear:255", Sigma: 0.5, Votes: votes, Lower: lower}
		p := must[Predictions](t)(loadSet(t, fedBench, o).Read(components))
		if better := fedBench.WithLower(lower).Direction("far_l"); (better < 0) != (want == 1) {
			t.Errorf("with --lower %v the direction of far_l is %d", lower, better)
		}
		tables := p.Result().Tables
		i := slices.IndexFunc(tables, func(t Table) bool { return strings.HasPrefix(t.Title, "2AFC") })
		k := slices.IndexFunc(tables[i].Rows, func(r TableRow) bool { return r.Name == "far_l" })
		if got := tables[i].Rows[k].Cells[0]; got != want {
			t.Errorf("with --lower %v far_l agrees in %v of the votes, want %v", lower, got, want)
		}
	}
}

func TestEditorsOfOneName(t *testing.T) {
	for _, b := range []*Benchmark{fedBench, aimBench} {
		_, err := b.Load(Options{Data: "testdata", BGNorm: "exp:2", Sigma: 0.5, Editors: []string{"ed/A", "ed2/A/"}})
		if err == nil || !strings.Contains(err.Error(), "--editors ed/A and ed2/A/ are both called A") {
			t.Errorf("%s: %v", b.Name, err)
		}
	}
}
