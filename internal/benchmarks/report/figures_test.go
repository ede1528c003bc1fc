package report

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

	"github.com/google/go-cmp/cmp"

	"assay/internal/benchmarks/adiee"
	"assay/internal/benchmarks/aimbench"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/fedbench"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/rewardbench"
	"assay/internal/benchmarks/runner"
	"assay/internal/long"
	"assay/internal/stats"
)

// The leaderboard has each method's means by kind of instructions, equal to the means of the single lines.
func TestFEDBenchLeaderboard(t *testing.T) {
	s := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5})
	r := &Report{Benchmark: fedbench.Benchmark}
	r.Add("all", benchtest.Must[protocol.Predictions](t)(s.Read("../testdata/fed.jsonl")))
	r.Measure(s, 50, 1)
	want := map[string][]float64{} // method and kind: the samples' scores, one line at a time
	text := string(benchtest.Must[[]byte](t)(os.ReadFile("../testdata/fed.jsonl")))
	for line := range strings.Lines(text) {
		var tags struct{ Method, Instructions string }
		if err := json.Unmarshal([]byte(line), &tags); err != nil {
			t.Fatal(err)
		}
		j := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "one.jsonl", line)))
		k := tags.Instructions + " " + tags.Method
		want[k] = append(want[k], valueOf("fed_score", j.Result().Numbers))
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
			if !(math.Abs(row.Cells[at].Value-stats.Mean(list)) < 1e-12) || !row.Cells[at].Bounded() {
				t.Errorf("%s %s: %v, want %v", kind, row.Name, row.Cells[at].Value, stats.Mean(list))
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d methods and kinds of instructions on the boards, want %d", seen, len(want))
	}
}

// Partly missing components are visible in the coverage; printed numbers of other judges, normalisations and
// instructions are kept separate.
func TestFEDBenchBasis(t *testing.T) {
	const line = `{"sample": "%", "method": "m", "instructions": "dense", "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, ` +
		`"gta": 5, "lpips_src_trg": 0.1, "lpips_src_gt": 0.1, "by": {"pq": "Gemini-2.5-Pro"}}`
	data := benchtest.Write(t, "index.jsonl",
		`{"sample": "a", "source": "a.png", "gt": "g.png", "dense_instruction": "x"}`+"\n"+
			`{"sample": "b", "source": "b.png", "gt": "g.png", "dense_instruction": "x"}`)
	s := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{Data: data, BGNorm: "linear:255", Sigma: 0.5})
	r := &Report{Benchmark: fedbench.Benchmark}
	r.Add("m", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "c.jsonl", strings.Replace(line, "%",
		"a", 1)))))
	pq := r.allFigures()[3]
	if pq.Name != "pq (50% of 2)" || pq.Judge != "gemini-2.5-pro" || pq.Subset != "dense" {
		t.Errorf("%+v", pq)
	}
	var apart []string
	for _, table := range r.Apart() {
		apart = append(apart, table.Notes...)
	}
	for _, want := range []string{"it covers all 747 items, not 1 of 2 items", "its part is simple, not dense",
		"its normalisation is not public, not linear:255",
		"its judge is arcface-r100, the other's is not stated"} {
		if !strings.Contains(strings.Join(apart, "\n"), want) {
			t.Errorf("%q is not among the reasons: %q", want, apart)
		}
	}
	if _, err := s.Read(benchtest.Write(t, "c.jsonl", strings.Replace(line, "%", "z", 1))); err == nil ||
		!strings.Contains(err.Error(), `the sample "z" is not in the data`) {
		t.Error(err)
	}
}

// Coverage refers to the data's triplets in every table, by method and kind of instructions. Means do not mix kinds
// that other methods lack, and state how many samples they cover.
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
	s := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{Data: benchtest.Write(t, "index.jsonl",
		index.String()), BGNorm: "linear:255", Sigma: 0.5})
	read := func(lines ...string) *Report {
		r := &Report{Benchmark: fedbench.Benchmark}
		r.Add("all", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "c.jsonl",
			strings.Join(lines, "")))))
		return r
	}
	r := read(line("s1", "A", "dense", "5"), line("s2", "A", "dense", "null"), line("s1", "B", "dense", "5"),
		line("s2", "B", "dense", "5"), line("s1", "A", "simple", "1"))
	var names []string
	for _, board := range r.Boards() {
		for _, f := range board.allFigures() {
			if f.Rule == "pq" {
				names = append(names, f.System+" "+f.Subset+" "+f.Name)
			}
		}
	}
	if want := []string{"A dense pq (25% of 4)", "B dense pq (50% of 4)",
		"A simple pq (25% of 4)"}; !slices.Equal(names,
		want) {
		t.Errorf("the boards have %q, want %q", names, want)
	}
	var rows []string
	for _, table := range r.Systems[0].Result.Tables {
		for _, row := range table.Rows {
			if table.Title == "per method" {
				rows = append(rows, row.Name+": "+row.Cells[0].Text)
			}
		}
	}
	if want := []string{"A, dense: 1 to 2", "A, simple: 1", "B, dense: 2"}; !slices.Equal(rows, want) {
		t.Errorf("per method %q, want %q", rows, want)
	}
	without := func(lines ...string) string { return read(lines...).allFigures()[0].Coverage.Without }
	a1, a2, b1, b2 := line("s1", "A", "dense", "1"), line("s2", "A", "dense", "1"), line("s1", "B", "dense", "1"),
		line("s2", "B", "dense", "1")
	if without(a1, a2, b1) == without(a1, b1, b2) {
		t.Error("what one method lacks is taken for what the other lacks")
	}
	if without(a1) != without(b1) || without(a1) == without(line("s1", "A", "simple", "1")) {
		t.Error("what a single method lacks depends on its name, or not on the kind of instructions")
	}
	if without(b1, a2, a1) != without(a1, a2, b1) {
		t.Error("the digest of what is missing depends on the order of the lines")
	}
}

// Files of FED-Bench are compared sample by sample, whatever the order of their lines, and files of other samples have
// no column in common.
func TestFEDBenchAlignsFiles(t *testing.T) {
	s := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5})
	ids := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	turned := slices.Clone(ids)
	slices.Reverse(turned)
	a := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "a.jsonl", benchtest.FedLines(ids, 0))))
	b := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "b.jsonl", benchtest.FedLines(ids, 0.1))))
	back := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "c.jsonl", benchtest.FedLines(turned,
		0.1))))
	c1 := benchtest.Must[*Comparison](t)(compare([]string{"a", "b"}, []protocol.Predictions{a, b}, 50, 1))
	c2 := benchtest.Must[*Comparison](t)(compare([]string{"a", "c"}, []protocol.Predictions{a, back}, 50, 1))
	for i, d := range c1.Differences {
		if d.Number != "id" {
			continue
		}
		e := c2.Differences[i]
		if !benchtest.Equal(float64(d.Difference), 0.1) || !benchtest.Equal(float64(d.Low), 0.1) ||
			!benchtest.Equal(float64(e.High), 0.1) ||
			!benchtest.Equal(float64(e.Low), 0.1) {
			t.Errorf("%+v, %+v: each sample differs by 0.1", d, e)
		}
	}
	other := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "o.jsonl",
		benchtest.FedLines([]int{1, 2, 3, 4, 5, 6, 7, 8, 10}, 0.1))))
	c := benchtest.Must[*Comparison](t)(compare([]string{"a", "o"}, []protocol.Predictions{a, other}, 50, 1))
	if c.Units != 8 {
		t.Errorf("%d units, want the 8 samples that both have", c.Units)
	}
	r := &Report{Benchmark: fedbench.Benchmark}
	r.Add("a", a)
	r.Add("o", other)
	for _, row := range r.Summary().Rows[:2] {
		n := 0
		for _, c := range row.Cells {
			if !math.IsNaN(c.Value) {
				n++
			}
		}
		if n > len(row.Cells)/2 {
			t.Errorf("%s shares columns with samples that it does not have", row.Name)
		}
	}
	if text := strings.Join(r.Remarks(), "\n"); !strings.Contains(text, "computed on other samples") {
		t.Error(text)
	}
	r = &Report{Benchmark: fedbench.Benchmark}
	r.Add("a", a)
	r.Add("c", back)
	for _, c := range r.Summary().Rows[1].Cells {
		if math.IsNaN(c.Value) {
			t.Error("the same samples in another order are kept separate")
		}
	}
}

// Half of the predictions never share a column with complete ones, or with printed ones, in any format.
func TestCoverageStandsApart(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.ImagenHub, protocol.Options{Data: benchtest.Golden + "imagenhub"})
	judge := benchtest.Golden + "imagenhub/judges/gpt4o_0shot.jsonl"
	r := &Report{Benchmark: adiee.ImagenHub}
	r.Add("whole", benchtest.Must[protocol.Predictions](t)(s.Read(judge)))
	r.Add("half", benchtest.Must[protocol.Predictions](t)(s.Read(half(t, judge, 716))))
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
		if math.IsNaN(row.Cells[whole].Value) != isHalf && row.Ranked() ||
			math.IsNaN(row.Cells[part].Value) == isHalf {
			t.Errorf("%s is in the wrong column: %v", row.Name, row.Cells)
		}
	}
	if remarks := strings.Join(r.Remarks(), "\n"); !strings.Contains(remarks, "it covers 716 of 1432 items") {
		t.Errorf("the reason is not given: %s", remarks)
	}
	if err := r.Compare(20, 1); err != nil || len(r.Comparison.Notes) != 1 {
		t.Errorf("%v: %+v: no source has all of its edits in both", err, r.Comparison)
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"results.csv", "results.md", "index.html", "results.json"} {
		text := benchtest.Must[[]byte](t)(os.ReadFile(filepath.Join(dir, file)))
		if !bytes.Contains(text, []byte("published (50% of 1432)")) {
			t.Errorf("%s does not name the coverage", file)
		}
	}
	v := benchtest.Must[any](t)((&Report{Benchmark: adiee.ImagenHub, Systems: r.Systems[1:]}).JSON())
	if b := string(benchtest.Must[[]byte](t)(json.Marshal(v))); !strings.Contains(b,
		`"name":"published (50% of 1432)"`) ||
		!strings.Contains(b, `"coverage":{"used":716,"of":1432,"without":"`) ||
		!strings.Contains(b, `"target":"O","published (50% of 1432)":0.4`) || strings.Contains(b, `"published":`) {
		t.Errorf("the JSON does not name the coverage: %.300s", b)
	}
}

// The paper prints 59.96 and 59.41 for one number, 55.56, 52.88 and 52.38 for another: one is in the column, marked,
// the others are kept separate.
func TestContradictionsOfPapers(t *testing.T) {
	places := func(b *protocol.Benchmark, number string) (out []string) {
		for _, f := range printed(b) {
			if f.Rule == number && f.System == "ADIEE (in ADIEE)" {
				out = append(out, fmt.Sprint(float64(f.Value), " ", f.Place, " ", f.again, " ", len(f.Contradictions)))
			}
		}
		return out
	}
	for _, tt := range []struct {
		b      *protocol.Benchmark
		number string
		want   []string
	}{
		{adiee.GenAIBench, "adiee", []string{"0.5996 Table 2 false 2", "0.5941 Table 7 (appendix) true 1",
			"0.5941 Table 5 (section 4.5) true 1"}},
		{adiee.AuroraPair, "adiee", []string{"0.5556 Table 2 false 2", "0.5288 Table 7 (appendix) true 2",
			"0.5238 Table 5 (section 4.5) true 2"}},
		{adiee.AuroraPoint, "global", []string{"0.4734 Table 1 false 1", "0.4744 Table 5 (section 4.5) true 1"}},
		{adiee.ImagenHub, "published", []string{"0.345 Table 1 false 0"}},
	} {
		if got := places(tt.b, tt.number); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.b.Name, got, tt.want)
		}
	}
	result := &protocol.Result{N: 919, Numbers: []protocol.Number{{Name: "adiee", Value: 0.6}}}
	r := &Report{Benchmark: adiee.GenAIBench, Systems: []System{{Name: "x", Result: result}}}
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

// Printed numbers of AIM-Bench's Table 2 and FED-Bench's Table 4 equal those of the golden files.
func TestPrintedTables(t *testing.T) {
	find := func(b *protocol.Benchmark, method, subset, number string) float64 {
		for _, f := range printed(b) {
			if strings.HasPrefix(f.System, method+" (in ") && f.Subset == subset && f.Rule == number {
				return float64(f.Value)
			}
		}
		return math.NaN()
	}
	rows := func(path string) (out []map[string]string) {
		f := benchtest.Must[*os.File](t)(os.Open(benchtest.Golden + path))
		defer f.Close()
		records := benchtest.Must[[][]string](t)(csv.NewReader(f).ReadAll())
		for _, r := range records[1:] {
			row := map[string]string{}
			for i, name := range records[0] {
				row[name] = r[i]
			}
			out = append(out, row)
		}
		return out
	}
	check := func(b *protocol.Benchmark, row map[string]string, subset, column, number string) {
		want := benchtest.Must[float64](t)(strconv.ParseFloat(row[column], 64))
		names := map[string]string{"Bagel": "BAGEL", "Doubao-Seededit-3-0": "Doubao-Seededit-3-0-i2i"}
		method := row["method"]
		if other, ok := names[method]; ok && b == aimbench.Benchmark {
			method = other
		}
		if got := find(b, method, subset, number); got != want {
			t.Errorf("%s, %s %s %s: %v, want %v", b.Name, method, subset, number, got, want)
		}
	}
	for _, row := range rows("aimbench/table2.csv") {
		for _, c := range []string{"acc", "d_vad"} {
			for _, half := range []string{"positive", "negative"} {
				check(aimbench.Benchmark, row, "", c+"_"+half, c+"_"+half)
			}
		}
	}
	for _, row := range rows("fedbench/table4.csv") {
		for _, c := range []string{"id", "bg_rmse", "pq", "sc", "gta", "reg", "score"} {
			check(fedbench.Benchmark, row, row["instructions"], c, map[bool]string{true: "fed_score",
				false: c}[c == "score"])
		}
	}
}

// Intervals contain the values and are reproducible, and chance is shown next to them.
func TestMeasure(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Votes: benchtest.Golden + "genaibench/gpt4o.jsonl"})
	measure := func() []figure {
		r := &Report{Benchmark: adiee.GenAIBench}
		r.Add("gpt", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Golden+"genaibench/gpt4o.jsonl")))
		r.Measure(s, 200, 5)
		return r.allFigures()
	}
	f := measure()[0]
	if f.Low == nil || !(*f.Low < f.Value && f.Value < *f.High) {
		t.Fatalf("%+v", f)
	}
	// the standard error of 492 right answers of 919
	if se := math.Sqrt(0.5354 * 0.4646 / 919); !(math.Abs(float64(*f.High-*f.Low)-3.92*se) <= 0.015) {
		t.Errorf("the interval is %v wide, want about %v", *f.High-*f.Low, 3.92*se)
	}
	benchtest.Near(t, "chance", float64(*f.Chance), 0.25, 0.01)
	if again := measure()[0]; *again.Low != *f.Low || *again.Chance != *f.Chance {
		t.Error("one seed gives two intervals")
	}
}

// Coverage of EditReward-Bench counts samples of each kind, not comparisons.
func TestEditRewardCoverage(t *testing.T) {
	s := benchtest.LoadSet(t, rewardbench.EditRewardBench, protocol.Options{Data: "../testdata/tiger.parquet"})
	r := &Report{Benchmark: rewardbench.EditRewardBench}
	r.Add("one", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl",
		`{"id": "3pair000_AvsB", "answer": "A>B"}`))))
	r.Add("all", benchtest.Must[protocol.Predictions](t)(s.Read("../testdata/tiger_rows.jsonl")))
	var got []string
	for _, f := range r.allFigures() {
		got = append(got, f.Name)
	}
	want := []string{"k2 (0% of 20)", "k3 (0% of 12)", "k4 (0% of 10)", "overall (0% of 42)", "k2", "k3", "k4",
		"overall",
		"k2 as run", "k3 as run", "k4 as run", "overall as run", "pairwise overall as run"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The number of comparisons behind the paper's numbers of EditReward-Bench is not stated: no data share their
// columns.
func TestUnstatedSizesStandApart(t *testing.T) {
	s := benchtest.LoadSet(t, rewardbench.EditRewardBench, protocol.Options{Data: "../testdata/tiger.parquet"})
	r := &Report{Benchmark: rewardbench.EditRewardBench}
	r.Add("rows", benchtest.Must[protocol.Predictions](t)(s.Read("../testdata/tiger_rows.jsonl")))
	for _, row := range r.Summary().Rows {
		if row.Printed {
			t.Errorf("%s shares columns with another data set", row.Name)
		}
	}
	var notes []string
	for _, table := range r.Apart() {
		notes = append(notes, table.Notes...)
	}
	if why := "the number of items it is computed on is not stated"; !strings.Contains(strings.Join(notes, "\n"), why) {
		t.Errorf("notes %q", notes)
	}
}

// Scores that are clearly on another scale than the rule is made for have a separate column.
func TestScaleOfADIEERule(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Data: "../testdata"})
	lines := func(scale float64) protocol.Predictions {
		text := ""
		for i := range 40 {
			text += fmt.Sprintf(`{"id": "%d", "left": %v, "right": %v}`+"\n", i, scale*float64(i%11),
				scale*float64(i*7%11))
		}
		return benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", text)))
	}
	r := &Report{Benchmark: adiee.GenAIBench}
	for name, scale := range map[string]float64{"ten": 1, "one": 0.1, "hundred": 10} {
		r.Add(name, lines(scale))
	}
	n := 0
	for _, c := range r.columns() {
		if c.Rule == "adiee" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d columns of the rule adiee, want three: %v", n, r.Summary().Columns)
	}
}

func TestCompareAndBaselines(t *testing.T) {
	long.Test(t)
	s := benchtest.LoadSet(t, adiee.ImagenHub, protocol.Options{Data: benchtest.Golden + "imagenhub"})
	gpt := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Golden + "imagenhub/judges/gpt4o_0shot.jsonl"))
	gemini := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Golden + "imagenhub/judges/gemini_0shot.jsonl"))
	compare := func() *Comparison {
		return benchtest.Must[*Comparison](t)(compare([]string{"gpt", "gemini", "gpt again"},
			[]protocol.Predictions{gpt, gemini, gpt}, 300, 7))
	}
	c := compare()
	if d := cmp.Diff(c, compare()); d != "" {
		t.Errorf("one seed gave two results: %s", d)
	}
	benchtest.Near(t, "difference", float64(c.Differences[0].Difference), 0.2728093758207022-0.38205639488565435, 1e-9)
	if d := c.Differences[0]; d.Number != "published" || !(d.Low < d.Difference && d.Difference < d.High &&
		d.High < 0) {
		t.Errorf("%+v: the interval of GPT-4o's lead is not below 0", d)
	}
	if d := c.Differences[2]; d.Difference != 0 || d.Low != 0 || d.High != 0 {
		t.Errorf("a judge differs from itself: %+v", d)
	}
	random := benchtest.Must[*runner.Baseline](t)(runner.NewBaseline(s, "random", 1))
	benchtest.Near(t, "expected correlation", float64(random.Expectation["published"]), 0, 0.005)
	r := benchtest.Must[*runner.Baseline](t)(runner.NewBaseline(s, "constant", 1)).Result()
	if !math.IsNaN(valueOf("published", r.Numbers)) || !strings.Contains(strings.Join(r.Notes, " "),
		"8 of 8 methods is undefined") {
		t.Errorf("a constant judge: %v %q", r.Numbers, r.Notes)
	}
	votes := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Votes: benchtest.Golden +
		"genaibench/gpt4o.jsonl"})
	random = benchtest.Must[*runner.Baseline](t)(runner.NewBaseline(votes, "random", 1))
	benchtest.Near(t, "expected accuracy", float64(random.Expectation["official"]), 0.25, 0.003)
	// P(t1 > t2) = 5/16, P(both >= 9) = 1/100, so by the shares of votes (240 + 263, 24, 392 of 919):
	benchtest.Near(t, "expected accuracy", float64(random.Expectation["adiee"]),
		(503*5.0/16+24*0.01+392*(3.0/8-0.01))/919, 0.003)
	again := benchtest.Must[*runner.Baseline](t)(runner.NewBaseline(votes, "random", 1))
	if d := cmp.Diff(random.Result().Numbers, again.Result().Numbers); d != "" {
		t.Error(d)
	}
	if _, err := runner.NewBaseline(benchtest.LoadSet(t, aimbench.Benchmark, protocol.Options{Data: "../testdata"}),
		"random", 1); err == nil {
		t.Error("random components were generated")
	}
}

// half writes the first lines of a file of predictions.
func half(t *testing.T, path string, lines int) string {
	t.Helper()
	all := bytes.SplitAfter(benchtest.Must[[]byte](t)(os.ReadFile(path)), []byte("\n"))
	return benchtest.Write(t, "half.jsonl", string(bytes.Join(all[:lines], nil)))
}
