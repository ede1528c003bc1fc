package benchmarks

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// half writes the first lines of a file of predictions.
func half(t *testing.T, path string, lines int) string {
	t.Helper()
	all := bytes.SplitAfter(must[[]byte](t)(os.ReadFile(path)), []byte("\n"))
	return write(t, "half.jsonl", string(bytes.Join(all[:lines], nil)))
}

// Half of the predictions never stand in a column with whole ones, or with printed ones, in any format.
func TestCoverageStandsApart(t *testing.T) {
	s := loadSet(t, imagenHub, Options{Data: golden + "imagenhub"})
	judge := golden + "imagenhub/judges/gpt4o_0shot.jsonl"
	r := &Report{Benchmark: imagenHub}
	r.Add("whole", must[Predictions](t)(s.Read(judge)))
	r.Add("half", must[Predictions](t)(s.Read(half(t, judge, 716))))
	r.Measure(s, 20, 1)
	summary := r.Summary()
	const name = "published (50% of 1432), the mean over 4 of 8 methods"
	whole, part := slices.Index(summary.Columns, "published"), -1
	for i, c := range summary.Columns {
		if strings.HasPrefix(c, "published (50% of 1432)") {
			part = i
		}
	}
	if whole < 0 || part < 0 {
		t.Fatalf("columns %q, want published and %s", summary.Columns, name)
	}
	for _, row := range summary.Rows {
		isHalf := row.Name == "half"
		if math.IsNaN(row.Cells[whole]) != isHalf && row.ranked() || math.IsNaN(row.Cells[part]) == isHalf {
			t.Errorf("%s stands in the wrong column: %v", row.Name, row.Cells)
		}
	}
	if remarks := strings.Join(r.Remarks(), "\n"); !strings.Contains(remarks, "it covers 716 of 1432 items") {
		t.Errorf("the reason is not told: %s", remarks)
	}
	if err := r.Compare(20, 1); err != nil || len(r.Comparison.Notes) != 1 {
		t.Errorf("%v: %+v: no source has all of its edits in both", err, r.Comparison)
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"results.csv", "results.md", "index.html", "results.json"} {
		text := must[[]byte](t)(os.ReadFile(filepath.Join(dir, file)))
		if !bytes.Contains(text, []byte("published (50% of 1432)")) {
			t.Errorf("%s does not name the coverage", file)
		}
	}
	v := must[any](t)((&Report{Benchmark: imagenHub, Systems: r.Systems[1:]}).JSON())
	if b := string(must[[]byte](t)(json.Marshal(v))); !strings.Contains(b, `"name":"published (50% of 1432)"`) ||
		!strings.Contains(b, `"coverage":{"used":716,"of":1432,"without":"`) ||
		!strings.Contains(b, `"target":"O","published (50% of 1432)":0.4`) || strings.Contains(b, `"published":`) {
		t.Errorf("the JSON does not name the coverage: %.300s", b)
	}
}

func TestCoverageNames(t *testing.T) {
	for want, c := range map[string]Coverage{"x": {Used: 3, Of: 3}, "x (50% of 4)": {Used: 2, Of: 4},
		"x (99.9% of 1432)": {Used: 1431, Of: 1432}, "x (0% of 9)": {Of: 9}} {
		if got := (Basis{Rule: "x", Coverage: c}).Name(); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

// Every part of a basis keeps numbers apart, and the reason names it.
func TestBasisDiffers(t *testing.T) {
	b := Basis{Benchmark: "b", Rule: "r", Coverage: Coverage{Used: 2, Of: 2}, Terms: Terms{Judge: "j"}}
	if why := b.Differs(b); why != "" {
		t.Errorf("a basis differs from itself: %s", why)
	}
	for want, change := range map[string]func(*Basis){
		"it is of c, not of b":                func(o *Basis) { o.Benchmark = "c" },
		"its rule is s, not r":                func(o *Basis) { o.Rule = "s" },
		"computed on 3 items, not on 2":       func(o *Basis) { o.Coverage = Coverage{Used: 3, Of: 3} },
		"it covers 1 of 2 items":              func(o *Basis) { o.Coverage = Coverage{Used: 1, Of: 2, Without: "x"} },
		"its part is s, that of the other is": func(o *Basis) { o.Subset = "s" },
		"its judge is k, not j":               func(o *Basis) { o.Judge = "k" },
		"its normalisation is n":              func(o *Basis) { o.Normalisation = "n" },
		"over 1 of 2, not the mean over all":  func(o *Basis) { o.Over = "the mean over 1 of 2" },
		"absent answers":                      func(o *Basis) { o.Counted = true },
	} {
		o := b
		change(&o)
		if why := o.Differs(b); !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
}

// The paper prints 59.96 and 59.41 for one number, 55.56, 52.88 and 52.38 for another: one stands in the column,
// marked, the others apart.
func TestContradictionsOfPapers(t *testing.T) {
	places := func(b *Benchmark, number string) (out []string) {
		for _, f := range b.printed() {
			if f.Rule == number && f.System == "ADIEE (in ADIEE)" {
				out = append(out, fmt.Sprint(float64(f.Value), " ", f.Place, " ", f.again, " ", len(f.Contradictions)))
			}
		}
		return out
	}
	for _, tt := range []struct {
		b      *Benchmark
		number string
		want   []string
	}{
		{genAIBench, "adiee", []string{"0.5996 Table 2 false 2", "0.5941 Table 7 (appendix) true 1",
			"0.5941 Table 5 (section 4.5) true 1"}},
		{auroraPair, "adiee", []string{"0.5556 Table 2 false 2", "0.5288 Table 7 (appendix) true 2",
			"0.5238 Table 5 (section 4.5) true 2"}},
		{auroraPoint, "global", []string{"0.4734 Table 1 false 1", "0.4744 Table 5 (section 4.5) true 1"}},
		{imagenHub, "published", []string{"0.345 Table 1 false 0"}},
	} {
		if got := places(tt.b, tt.number); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.b.Name, got, tt.want)
		}
	}
	result := &Result{N: 919, Numbers: []Number{{Name: "adiee", Value: 0.6}}}
	r := &Report{Benchmark: genAIBench, Systems: []System{{"x", result}}}
	if remarks := strings.Join(r.Remarks(), "\n"); !strings.Contains(remarks,
		"† ADIEE (in ADIEE): ADIEE prints 0.5996 for adiee in Table 2, but 0.5941 in Table 7 (appendix)") {
		t.Errorf("remarks %s", remarks)
	}
	var apart []string
	for _, table := range r.Apart() {
		apart = append(append(apart, table.Title), table.Notes...)
	}
	const why = "adiee: the paper prints another value for the same at an earlier place"
	if !strings.Contains(strings.Join(apart, "\n"), why) {
		t.Errorf("apart: %q", apart)
	}
}

// Printed numbers of AIM-Bench's Table 2 and FED-Bench's Table 4 are those of the golden files.
func TestPrintedTables(t *testing.T) {
	find := func(b *Benchmark, method, subset, number string) float64 {
		for _, f := range b.printed() {
			if strings.HasPrefix(f.System, method+" (in ") && f.Subset == subset && f.Rule == number {
				return float64(f.Value)
			}
		}
		return math.NaN()
	}
	rows := func(path string) (out []map[string]string) {
		f := must[*os.File](t)(os.Open(golden + path))
		defer f.Close()
		records := must[[][]string](t)(csv.NewReader(f).ReadAll())
		for _, r := range records[1:] {
			row := map[string]string{}
			for i, name := range records[0] {
				row[name] = r[i]
			}
			out = append(out, row)
		}
		return out
	}
	check := func(b *Benchmark, row map[string]string, subset, column, number string) {
		want := must[float64](t)(strconv.ParseFloat(row[column], 64))
		names := map[string]string{"Bagel": "BAGEL", "Doubao-Seededit-3-0": "Doubao-Seededit-3-0-i2i"}
		method := row["method"]
		if other, ok := names[method]; ok && b == aimBench {
			method = other
		}
		if got := find(b, method, subset, number); got != want {
			t.Errorf("%s, %s %s %s: %v, want %v", b.Name, method, subset, number, got, want)
		}
	}
	for _, row := range rows("aimbench/table2.csv") {
		for _, c := range []string{"acc", "d_vad"} {
			for _, half := range []string{"positive", "negative"} {
				check(aimBench, row, "", c+"_"+half, c+"_"+half)
			}
		}
	}
	for _, row := range rows("fedbench/table4.csv") {
		for _, c := range []string{"id", "bg_rmse", "pq", "sc", "gta", "reg", "score"} {
			check(fedBench, row, row["instructions"], c, map[bool]string{true: "fed_score", false: c}[c == "score"])
		}
	}
}

// Intervals hold the values, repeat, and chance stands beside them.
func TestMeasure(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Votes: golden + "genaibench/gpt4o.jsonl"})
	measure := func() []Figure {
		r := &Report{Benchmark: genAIBench}
		r.Add("gpt", must[Predictions](t)(s.Read(golden+"genaibench/gpt4o.jsonl")))
		r.Measure(s, 200, 5)
		return r.Figures()
	}
	f := measure()[0]
	if f.Low == nil || !(*f.Low < f.Value && f.Value < *f.High) {
		t.Fatalf("%+v", f)
	}
	// the standard error of 492 right answers of 919
	if se := math.Sqrt(0.5354 * 0.4646 / 919); math.Abs(float64(*f.High-*f.Low)-3.92*se) > 0.015 {
		t.Errorf("the interval is %v wide, want about %v", *f.High-*f.Low, 3.92*se)
	}
	near(t, "chance", float64(*f.Chance), 0.25, 0.01)
	if again := measure()[0]; *again.Low != *f.Low || *again.Chance != *f.Chance {
		t.Error("one seed gives two intervals")
	}
}

// Values in another unit are refused by the measure's name.
func TestRanges(t *testing.T) {
	aimSet := loadSet(t, aimBench, Options{Data: "testdata"})
	fedSet := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5})
	fed := func(field, value string) string {
		line := `{"sample": "s", "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
			`"lpips_src_gt": 0.1}`
		at := strings.Index(line, `"`+field+`":`) + len(field) + 4
		return line[:at] + value + line[at+strings.IndexAny(line[at:], ",}"):]
	}
	for _, tt := range []struct {
		s          Set
		line, want string
	}{
		{aimSet, `{"id": 0, "clip_t": 25}`, "c.jsonl:1: clip_t is 25: a number from -1 to 1 was expected"},
		{aimSet, `{"id": 0, "sc": [80, 9]}`, "sc is 80: a number from 0 to 10"},
		{aimSet, `{"id": 0, "s_sm": -1, "s_vs": 1}`, "s_sm is -1"},
		{aimSet, `{"id": 0, "vad": [0.5, 0.5, 0.5]}`, "valence is 0.5: a number from 1 to 9"},
		{fedSet, fed("lpips_src_trg", "-3"), "lpips_src_trg is -3: 0 or more"},
		{fedSet, fed("pq", "97"), "pq is 97: a number from 0 to 10"},
		{fedSet, fed("id", "58"), "id is 58: a number from -1 to 1"},
		{fedSet, fed("bg_rmse", "300"), "bg_rmse is 300"},
	} {
		if _, err := tt.s.Read(write(t, "c.jsonl", tt.line)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.line, err, tt.want)
		}
	}
	const means = "method,clip_t,sc,aesthetic,pq,s_gtc,acc,f1,d_vad\na,22,8,5,7,7,60,60,2.5\n"
	if _, err := aimMeans(write(t, "m.csv", means)); err == nil ||
		!strings.Contains(err.Error(), "m.csv:2: clip_t is 22") {
		t.Error(err)
	}
}

// GenAI-Bench's captions are its own columns, and its wanted results ImagenHub's, found by instruction and captions.
func TestGenAIBenchCaptionsAndTargets(t *testing.T) {
	const row = `{"vote_type": "leftvote", "instruct_prompt": "let it rain", "source_prompt": "a street", ` +
		`"target_prompt": "a street in rain", "source_image": "s.png", "left_output_image": "l.png", ` +
		`"right_output_image": "r.png"}`
	data := write(t, "test_v1.jsonl", row)
	hub := write(t, "dataset_lookup.json", `{"sample_1.jpg": {"instruction": "let it rain", `+
		`"source_global_caption": "a street", "target_global_caption": "a street in rain"}}`)
	s := loadSet(t, genAIBench, Options{Data: data, Targets: filepath.Dir(hub)})
	items := must[[]Item](t)(s.(Scorable).Items())
	want := filepath.Join(filepath.Dir(hub), "GroundTruth", "sample_1.jpg")
	if len(items) != 2 || items[1].Captions != [2]string{"a street", "a street in rain"} || items[1].Target.Path != want {
		t.Errorf("%+v", items)
	}
	clipT, _ := FindSimilarity("clip_t")
	if err := clipT.Caption(items, ""); err != nil {
		t.Error(err)
	}
	clipI, _ := FindSimilarity("clip_i")
	err := clipI.Caption(items, "")
	if err == nil || !strings.Contains(err.Error(), "sample_1.jpg: the picture is not there") {
		t.Error(err)
	}
}

// Coverage of EditReward-Bench counts samples of each kind, not comparisons.
func TestEditRewardCoverage(t *testing.T) {
	s := loadSet(t, editRewardBench, Options{Data: "testdata/tiger.parquet"})
	r := &Report{Benchmark: editRewardBench}
	r.Add("one", must[Predictions](t)(s.Read(write(t, "p.jsonl", `{"id": "3pair000_AvsB", "answer": "A>B"}`))))
	r.Add("all", must[Predictions](t)(s.Read("testdata/tiger_rows.jsonl")))
	var got []string
	for _, f := range r.Figures() {
		got = append(got, f.Name)
	}
	want := []string{"k2 (0% of 20)", "k3 (0% of 12)", "k4 (0% of 10)", "overall (0% of 42)", "k2", "k3", "k4", "overall",
		"k2 as run", "k3 as run", "k4 as run", "overall as run", "pairwise overall as run"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Means over different methods have columns of their own that name the methods, no difference, and no chance of all.
func TestMeansOverDifferentMethods(t *testing.T) {
	for _, tt := range []struct {
		b            *Benchmark
		o            Options
		number, what string
		model        func(s Set, i int) (Key, string)
	}{
		{imagenHub, Options{Data: golden + "imagenhub"}, "published", "7 of 8 methods", func(s Set, i int) (Key, string) {
			k := s.(*hub).keys[i]
			return k, k.Model
		}},
		{auroraPoint, Options{Data: "testdata"}, "per_model_mean", "of ", func(s Set, i int) (Key, string) {
			return s.(*aurora).keys[i], s.(*aurora).names[s.(*aurora).group[i]]
		}},
	} {
		s := loadSet(t, tt.b, tt.o)
		var p *points
		switch s := s.(type) {
		case *hub:
			p = &s.points
		case *aurora:
			p = &s.points
		}
		constant := func(model string) string { // is constant in one model
			var out strings.Builder
			for i := range p.keys {
				key, m := tt.model(s, i)
				score := i * 37 % 11
				if m == model {
					score = 5
				}
				fmt.Fprintf(&out, "{\"id\": %q, \"model\": %q, \"score\": %d}\n", key.ID, key.Model, score)
			}
			return strings.ReplaceAll(out.String(), `, "model": ""`, "")
		}
		r := &Report{Benchmark: tt.b}
		for k, name := range []string{"a", "b"} {
			r.Add(name, must[Predictions](t)(s.Read(write(t, name+".jsonl", constant(p.names[k])))))
		}
		r.Measure(s, 20, 1)
		if err := r.Compare(20, 1); err != nil {
			t.Fatal(err)
		}
		summary := r.Summary()
		for k := range 2 {
			at := slices.IndexFunc(summary.Columns, func(c string) bool {
				return strings.HasPrefix(c, tt.number+", the mean over ") && strings.Contains(c, tt.what) &&
					strings.HasSuffix(c, "(without "+p.names[k]+")")
			})
			if at < 0 {
				t.Fatalf("%s: no column without %s: %q", tt.b.Name, p.names[k], summary.Columns)
			}
			for _, row := range summary.Rows {
				if isIt := row.Name == []string{"a", "b"}[k]; math.IsNaN(row.Cells[at]) == isIt {
					t.Errorf("%s: %s in %s is %v", tt.b.Name, row.Name, summary.Columns[at], row.Cells[at])
				}
			}
		}
		for _, d := range r.Comparison.Differences {
			if d.Number == tt.number {
				t.Errorf("%s: %+v", tt.b.Name, d)
			}
		}
	}
}

// Nobody states on how many comparisons the paper's numbers of EditReward-Bench stand: no data share their columns.
func TestUnstatedSizesStandApart(t *testing.T) {
	s := loadSet(t, editRewardBench, Options{Data: "testdata/tiger.parquet"})
	r := &Report{Benchmark: editRewardBench}
	r.Add("rows", must[Predictions](t)(s.Read("testdata/tiger_rows.jsonl")))
	for _, row := range r.Summary().Rows {
		if row.Printed {
			t.Errorf("%s stands beside another data set", row.Name)
		}
	}
	var notes []string
	for _, table := range r.Apart() {
		notes = append(notes, table.Notes...)
	}
	if why := "on how many items it is computed is not stated"; !strings.Contains(strings.Join(notes, "\n"), why) {
		t.Errorf("notes %q", notes)
	}
}
