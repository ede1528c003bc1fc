package fedbench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
)

// A scorer's lines and halves of the components mix, and the scorer is compared with every component and the votes.
func TestFEDBenchMixes(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5,
		Votes: "../testdata/fed_votes.jsonl"}).(protocol.Mixed)
	whole := benchtest.Must[[]protocol.Editor](t)(s.ReadAll([]string{"../testdata/fed.jsonl"}))[0].Result()
	var a, b, scores strings.Builder
	for i, r := range benchtest.Must[[]*protocol.Line](t)(protocol.ReadLines("../testdata/fed.jsonl")) {
		one, two := map[string]any{}, map[string]any{"by": map[string]string{"pq": "Judge-1", "sc": "Judge-1"}}
		for name, raw := range r.Fields {
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
			json.Unmarshal(r.Fields[name], to)
		}
		for w, v := range map[*strings.Builder]any{&a: one, &b: two,
			&scores: map[string]any{"id": sample, "model": method + "/" + kind, "score": float64(i*37%11) / 2}} {
			w.Write(append(benchtest.Must[[]byte](t)(json.Marshal(v)), '\n'))
		}
	}
	paths := []string{benchtest.Write(t, "a.jsonl", a.String()), benchtest.Write(t, "b.jsonl", b.String()),
		benchtest.Write(t, "s.jsonl", scores.String())}
	mixed := benchtest.Must[[]protocol.Editor](t)(s.ReadAll(paths))[0]
	got := mixed.Result()
	for i, n := range whole.Numbers {
		g := got.Numbers[i]
		if g.Value != n.Value || g.Name == "pq" && g.Judge != "judge-1" ||
			g.Name == "fed_score" && g.Judge != "not stated; judge-1" {
			t.Errorf("%s: got %v by %q, want %v", n.Name, g.Value, g.Judge, n.Value)
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

// TestFEDBenchSources: the units of resampling are sources: by their files, by their bytes in the table, or, without
// triplets, by the sample. The names of two files' units differ if they hold other samples.
func TestFEDBenchSources(t *testing.T) {
	triplets := `{"sample": "a", "source": {"bytes": "QQ==", "path": "x.png"}, "gt": "g.png"}
{"sample": "b", "source": {"bytes": "Qg==", "path": "x.png"}, "gt": "g.png"}
{"sample": "c", "source": {"bytes": "QQ==", "path": "y.png"}, "gt": "g.png"}
{"sample": "d", "source": "s.png", "gt": "g.png"}
{"sample": "e", "source": "s.png", "gt": "g.png"}`
	line := func(sample, kind string) string {
		return fmt.Sprintf(`{"sample": %q, "instructions": %q, "id": 1, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, `+
			`"lpips_src_trg": 1, "lpips_src_gt": 1}`+"\n", sample, kind)
	}
	all := line("a", "dense") + line("b", "dense") + line("c", "dense") + line("d", "dense") + line("a", "simple") +
		line("e", "dense")
	units := func(o protocol.Options, lines string) *fedPredictions {
		o.BGNorm, o.Sigma = "linear:255", 0.5
		s := benchtest.LoadSet(t, Benchmark, o)
		return benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "c.jsonl", lines))).(*fedPredictions)
	}
	data := protocol.Options{Data: benchtest.Write(t, "triplets.jsonl", triplets)}
	for want, got := range map[string]*fedPredictions{
		"[[0 2 4] [1] [3 5]]":     units(data, all),
		"[[0 4] [1] [2] [3] [5]]": units(protocol.Options{}, all),
	} {
		if got := fmt.Sprint(got.bySource().Samples); got != want {
			t.Errorf("units %s, want %s", got, want)
		}
	}
	one, other := units(data, line("a", "dense")+line("c", "dense")), units(data, line("a", "dense"))
	if got := slices.Concat(one.UnitNames(), other.UnitNames()); len(got) != 2 || got[0] == got[1] {
		t.Errorf("units with other samples are called %q, want two different names", got)
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
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: filepath.Join(root, "index.jsonl"), BGNorm: "exp:20",
		Sigma:   0.5,
		Editors: []string{filepath.Join(root, "M")}})
	items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items())
	if len(items) != 2 || protocol.ItemKey(items[0]) != (protocol.Key{ID: "a", Model: "M/dense"}) ||
		items[0].Instruction != "raise the brows" ||
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
		fmt.Fprintf(&index, `{"sample": %q, "source": "a.png", "gt": "g.png", "dense_instruction": "raise %d"}`+"\n",
			name, i)
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
	o := protocol.Options{Data: filepath.Join(root, "index.jsonl"), BGNorm: "linear:255", Sigma: 0.5,
		Editors: []string{filepath.Join(root, "M")}}
	examples := benchtest.Must[protocol.Predictions](
		t,
	)(
		benchtest.LoadSet(t, Benchmark, o).Read(benchtest.Write(t, "c.jsonl", components.String())),
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
	examples = benchtest.Must[protocol.Predictions](
		t,
	)(
		benchtest.LoadSet(t, Benchmark, o).Read(benchtest.Write(t, "c.jsonl", components.String())),
	).Result().
		Examples
	if len(examples) != 4 || len(examples[0].Pictures) != 0 {
		t.Errorf("without the editor's folder: %+v", examples)
	}
}

// A pair has one line of votes, for two samples, and the table shows how many pairs there are.
func TestFEDBenchVotes(t *testing.T) {
	const line = `{"sample": %q, "id": 0.5, "bg_rmse": %d, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0.1}` + "\n"
	components := benchtest.Write(t, "c.jsonl", fmt.Sprintf(line, "s1", 1)+fmt.Sprintf(line, "s2", 2)+fmt.Sprintf(line,
		"s3", 3))
	read := func(votes ...string) (protocol.Predictions, error) {
		return benchtest.LoadSet(t, Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5,
			Votes: benchtest.Write(t, "v.jsonl", strings.Join(votes, "\n"))}).Read(components)
	}
	one := `{"a": "s1", "b": "s2", "votes": ["a", "a", "b"]}`
	for want, second := range map[string]string{
		"v.jsonl:2: a second line for a pair (the first is in v.jsonl:1)":  one,
		"v.jsonl:2: a second line for a pair (the first is in v.jsonl:1) ": `{"a": "s2", "b": "s1", "votes": ["b"]}`,
		"v.jsonl:2: a and b are the same sample":                           `{"a": "s3", "b": "s3", "votes": ["b"]}`,
	} {
		if _, err := read(one, second); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	p := benchtest.Must[protocol.Predictions](t)(read(one, `{"a": "s2", "b": "s3", "votes": ["a"]}`))
	i := slices.IndexFunc(p.Result().Tables, func(t protocol.Table) bool { return strings.HasPrefix(t.Title, "2AFC") })
	if columns := p.Result().Tables[i].Columns; !slices.Equal(columns, []string{"all (2 pairs)"}) {
		t.Errorf("columns %q", columns)
	}
	// of s1 and s2
	text := strings.Replace(string(benchtest.Must[[]byte](t)(os.ReadFile(components))), "{", `{"clip_i": 0.9, `, 2)
	components = benchtest.Write(t, "d.jsonl", text)
	p = benchtest.Must[protocol.Predictions](t)(read(one, `{"a": "s2", "b": "s3", "votes": ["a"]}`))
	if notes := p.Result().Tables[i].Notes; !slices.Equal(notes, []string{
		"clip_i is left out: 1 of 2 pairs have no value of it"}) {
		t.Errorf("notes %q", notes)
	}
}

// For the names of --lower, less is better in the votes as in tables: also for numbers with this prefix.
func TestFEDBenchLower(t *testing.T) {
	const line = `{"sample": %q, "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0.1, "far_l": %d}` + "\n"
	components := benchtest.Write(t, "c.jsonl", fmt.Sprintf(line, "s1", 1)+fmt.Sprintf(line, "s2", 2))
	votes := benchtest.Write(t, "v.jsonl", `{"a": "s1", "b": "s2", "votes": ["a"]}`)
	for want, lower := range map[float64][]string{0: nil, 1: {"far"}} {
		o := protocol.Options{BGNorm: "linear:255", Sigma: 0.5, Votes: votes, Lower: lower}
		p := benchtest.Must[protocol.Predictions](t)(benchtest.LoadSet(t, Benchmark, o).Read(components))
		if better := Benchmark.WithLower(lower).Direction("far_l"); (better < 0) != (want == 1) {
			t.Errorf("with --lower %v the direction of far_l is %d", lower, better)
		}
		tables := p.Result().Tables
		i := slices.IndexFunc(tables, func(t protocol.Table) bool { return strings.HasPrefix(t.Title, "2AFC") })
		k := slices.IndexFunc(tables[i].Rows, func(r protocol.TableRow) bool { return r.Name == "far_l" })
		if got := tables[i].Rows[k].Cells[0].Value; got != want {
			t.Errorf("with --lower %v far_l agrees in %v of the votes, want %v", lower, got, want)
		}
	}
}

// Lines of FED-Bench that name no samples are not merged with those of another file, and are reported.
func TestUnnamedSamples(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5}).(protocol.Mixed)
	line := strings.Replace(benchtest.FedLines([]int{1}, 0), `"sample": "s1", `, "", 1)
	p := benchtest.Must[[]protocol.Editor](t)(s.ReadAll([]string{benchtest.Write(t, "a.jsonl", line)}))
	if notes := strings.Join(p[0].Result().Notes, "; "); !strings.Contains(notes, "by their positions in the file") {
		t.Error(notes)
	}
	_, err := s.ReadAll([]string{benchtest.Write(t, "a.jsonl", line), benchtest.Write(t, "b.jsonl", `{"score": 3}`)})
	if err == nil || !strings.Contains(err.Error(), `there is no "sample"`) {
		t.Error(err)
	}
}

// FED-Bench's Table 4 shows both kinds of instructions side by side, and marks cells that cover fewer samples.
func TestFEDBenchTable4(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5})
	text := ""
	for k, part := range []string{"A dense", "A simple", "B dense", "B simple"} {
		method, kind, _ := strings.Cut(part, " ")
		ids := []int{1, 2, 3}
		if part == "B simple" {
			ids = ids[:2]
		}
		tags := fmt.Sprintf(`{"method": %q, "instructions": %q, "expression": "happy", `, method, kind)
		text += strings.ReplaceAll(benchtest.FedLines(ids, float64(k)/100), "{", tags)
	}
	p := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", text)))
	tables := p.Result().Tables
	at := slices.IndexFunc(tables, func(t protocol.Table) bool { return strings.Contains(t.Title, "Table 4") })
	if at < 0 {
		t.Fatal("there is no such table")
	}
	table := tables[at]
	if len(table.Columns) != 14 || table.Columns[7] != "simple: id" || table.Rows[0].Name != "B" ||
		!benchtest.Equal(table.Rows[0].Cells[0].Value, 0.2+0.02) || table.Rows[0].Cells[7].Mark != " (2 of 3)" ||
		table.Rows[0].Cells[0].Mark != "" || len(table.Notes) != 1 {
		t.Errorf("%+v", table)
	}
}

func TestFEDBench(t *testing.T) {
	want := benchtest.Expected(t, "fed")
	options := protocol.Options{Votes: "../testdata/fed_votes.jsonl", BGNorm: "linear:255", Sigma: 0.5}
	got := benchtest.ReadSet(t, benchtest.LoadSet(t, Benchmark, options), "../testdata/fed.jsonl")
	for c := range want["means"].(map[string]any) {
		benchtest.Same(t, got, want, [2]string{"means." + c, "means." + c})
	}
	for m := range want["two_afc"].(map[string]any) {
		benchtest.Same(t, got, want, [2]string{"two_afc.all.accuracy." + m, "two_afc." + m})
	}
	benchtest.Same(t, got, want, [2]string{"per_expression.happy.fed_score", "happy"},
		[2]string{"per_instructions.dense.fed_score", "dense"})
	benchtest.Near(t, "first sample", benchtest.At(got["samples"].([]any)[0], "values", "fed_score"),
		want["first"].(float64), 1e-12)
	options.BGNorm = "exp:20"
	benchtest.Same(t, benchtest.ReadSet(t, benchtest.LoadSet(t, Benchmark, options), "../testdata/fed.jsonl"), want,
		[2]string{"fed_score", "exp20"})

	zero := `{"id": "s", "identity": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0}`
	r := benchtest.Must[protocol.Predictions](t)(benchtest.LoadSet(t, Benchmark,
		protocol.Options{BGNorm: "linear:255", Sigma: 0.5}).Read(benchtest.Write(t, "c.jsonl", zero))).Result()
	if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "c.jsonl:1: sample s: the LPIPS distance of source and "+
		"ground truth is not positive") || r.N != 0 {
		t.Errorf("failed %q, n %d", r.Failed, r.N)
	}
	if _, err := Benchmark.Load(protocol.Options{BGNorm: "cubic:1", Sigma: 0.5}); err == nil {
		t.Error("an unknown normalisation was accepted")
	}
}
