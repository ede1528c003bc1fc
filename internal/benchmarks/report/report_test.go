package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/benchmarks/adiee"
	"assay/internal/benchmarks/aimbench"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/editors"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/registry"
)

// Editors with equal records have the same rank, whatever the order of their votes.
func TestEqualStrengths(t *testing.T) {
	var votes []string
	won := func(a, b string, n int) {
		votes = append(votes, slices.Repeat([]string{fmt.Sprintf(`{"left": %q, "right": %q, "winner": "left"}`, a, b)},
			n)...)
	}
	for _, x := range []string{"A", "B"} { // A and B have equal records
		won(x, "C", 3)
		won("C", x, 2)
		won(x, "D", 5)
		won("D", x, 1)
		won(x, "E", 2)
		won("E", x, 1)
	}
	won("A", "B", 1)
	won("B", "A", 1)
	won("C", "D", 3)
	won("D", "C", 1)
	won("C", "E", 1)
	won("E", "C", 2)
	given := map[string]float64{"A": 4, "B": 1, "C": 2, "D": 1, "E": 1, "Z": 9}
	rank := func() *Ranking {
		c := benchtest.Must[*Contest](t)(ReadVotes(benchtest.Write(t, "v.jsonl", strings.Join(votes, "\n"))))
		return benchtest.Must[*Ranking](t)(c.Rank(given, 0, 1))
	}
	// scipy.stats.spearmanr and kendalltau of ranks 4.5, 4.5, 2, 1, 3 with 4, 1, 2, 1, 1
	const spearman, kendall = 0.2867696673382022, 0.2519763153394848
	for range 2 {
		r := rank()
		if !(math.Abs(float64(r.Human.Spearman)-spearman) <= 1e-12) ||
			!(math.Abs(float64(r.Human.Kendall)-kendall) <= 1e-12) {
			t.Errorf("%+v, want %v and %v", r.Human, spearman, kendall)
		}
		if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, "1 of 6 editors of the given ranking") {
			t.Errorf("notes %q", notes)
		}
		slices.Reverse(votes)
	}
}

// Scores and ranks do not mix in a given ranking, and a null counts as a value of an editor.
func TestGivenRankings(t *testing.T) {
	for text, want := range map[string]string{
		`{"model": "A"}` + "\n" + `{"model": "B", "rank": 2}`:                `there is no "rank"`,
		`{"model": "A", "score": 1200}` + "\n" + `{"model": "B", "rank": 2}`: "has a score, but the file has",
		`{"model": "A", "rank": 1, "score": 1200}` + "\n" +
			`{"model": "B", "rank": 2}`: "has a score, but the file has",
	} {
		if _, err := ReadGiven(benchtest.Write(t, "h.jsonl", text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	rows := `{"id": 4, "model": "A", "score": null}` + "\n" + `{"id": 4, "model": "A", "score": 7}`
	_, err := ReadScores([]string{benchtest.Write(t, "s.jsonl", rows)}, "score", false)
	if err == nil || !strings.Contains(err.Error(), "a second value of 4 for A") {
		t.Error(err)
	}
}

// A ranking by a distance puts the smallest first, with and without lower.
func TestRankingByDistance(t *testing.T) {
	rows := `{"id": "1", "model": "far", "l1": 0.5}` + "\n" + `{"id": "1", "model": "near", "l1": 0.1}` + "\n" +
		`{"id": "2", "model": "far", "l1": 0.1}` + "\n" + `{"id": "2", "model": "near", "l1": 0.1}`
	for _, lower := range []bool{false, true} {
		c := benchtest.Must[*Contest](t)(ReadScores([]string{benchtest.Write(t, "l1.jsonl", rows)}, "l1", lower ||
			registry.LowerIsBetter("l1")))
		r := benchtest.Must[*Ranking](t)(c.Rank(nil, 0, 1))
		if r.Editors[0].Name != "near" || !strings.Contains(strings.Join(r.Notes, "; "), "less of l1 is better") {
			t.Errorf("%+v", r)
		}
	}
	rows = strings.ReplaceAll(rows, "l1", "lpips_alex") + "\n" + `{"id": "3", "model": "far", "lpips_alex": 0.1}`
	c := benchtest.Must[*Contest](t)(ReadScores([]string{benchtest.Write(t, "lpips.jsonl", rows)}, "lpips_alex",
		registry.LowerIsBetter("lpips_alex")))
	r := benchtest.Must[*Ranking](t)(c.Rank(nil, 0, 1))
	notes := strings.Join(r.Notes, "; ")
	if r.Editors[0].Name != "near" || !strings.Contains(notes, "near has lpips_alex for 2 of 3 samples") {
		t.Errorf("%+v", r)
	}
}

// A name of an editor takes precedence over words for sides; if they conflict, the vote is refused.
func TestSidesOfVotes(t *testing.T) {
	for _, tt := range []struct {
		vote, a, b string
		want       int
		refused    bool
	}{
		{"x", "x", "y", 1, false}, {"y", "x", "y", -1, false}, {"left", "x", "y", 1, false},
		{"tie", "x", "y", 0, false},
		{"a", "b", "a", 0, true}, {"b", "b", "a", 0, true}, {"a", "a", "b", 1, false}, {"tie", "tie", "y", 0, true},
		{"z", "x", "y", 0, true},
	} {
		got, err := protocol.SideOf(tt.vote, tt.a, tt.b, voteWords)
		if got != tt.want || (err != nil) != tt.refused {
			t.Errorf("%+v: %d, %v", tt, got, err)
		}
	}
}

// Editors scored by different judges are not compared sample by sample, and the reason is given.
func TestDuelsOfOneJudge(t *testing.T) {
	s := benchtest.LoadSet(t, editors.MagicBrush, protocol.Options{Data: benchtest.GradedFolder(t, 2)}).(protocol.Mixed)
	line := func(model string) string {
		return `{"id": "7/1", "model": "` + model + `", "score": 3}` + "\n" +
			`{"id": "7/2", "model": "` + model + `", "score": 4}`
	}
	for _, same := range []bool{true, false} {
		second := "bbbbbbbbbbbb"
		if same {
			second = "aaaaaaaaaaaa"
		}
		list, err := s.ReadAll([]string{benchtest.RunFolder(t, "aaaaaaaaaaaa", line("A")),
			benchtest.RunFolder(t, second, line("B"))})
		if err != nil {
			t.Fatal(err)
		}
		r := &Report{Benchmark: editors.MagicBrush}
		for _, e := range list {
			r.Add(e.Name, e.Predictions)
		}
		if err := r.Compare(20, 1); err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(r.Comparison.Notes, "\n")
		if told := strings.Contains(
			notes,
			"who wins where is not shown",
		); told == same ||
			(len(r.Comparison.Duels) == 1) != same {
			t.Errorf("one judge %v: %d duels, %s", same, len(r.Comparison.Duels), notes)
		}
	}
}

func TestScatter(t *testing.T) {
	draw := func(s protocol.Scatter) string {
		var svg strings.Builder
		if err := reportTemplate.ExecuteTemplate(&svg, "scatter", scattersOf([]protocol.Scatter{s})[0]); err != nil {
			t.Fatal(err)
		}
		return svg.String()
	}
	svg := draw(protocol.Scatter{Title: "x", Score: []float64{1, 5, 5}, Human: []float64{0, 1, 1}})
	if strings.Count(svg, "<circle") != 3 || strings.Contains(svg, "NaN") {
		t.Errorf("three points are drawn as %s", svg)
	}
	if svg := draw(protocol.Scatter{Score: []float64{2}, Human: []float64{1}}); strings.Contains(svg, "NaN") {
		t.Errorf("a single point has no place: %s", svg)
	}
}

// A name may be wrapped after its underscores, and is escaped.
func TestSoft(t *testing.T) {
	if got := soft("without_rule<"); got != "without_<wbr>rule&lt;" {
		t.Error(got)
	}
}

// TestMarkdown: texts from files, such as a remark on a sample with a strange name, stay texts on one line.
func TestMarkdown(t *testing.T) {
	strange, want := "a | b\n# c <d> *e* `f`", "a \\| b # c \\<d> \\*e\\* \\`f\\`"
	r := &Report{Benchmark: adiee.GenAIBench, Comparison: &Comparison{Notes: []string{strange}},
		Systems: []System{{Name: strange, Result: &protocol.Result{Notes: []string{strange}, Tables: []protocol.Table{{
			Columns: []string{strange}, Rows: []protocol.TableRow{{Name: strange, Cells: []protocol.Cell{{Text: strange}}}},
		}}}}}}
	var md strings.Builder
	r.markdown(&md)
	for _, line := range []string{"- " + want, want + ": 0 predictions used.", "| " + want + " | " + want + " |"} {
		if n := strings.Count(md.String(), line+"\n"); n == 0 || strings.HasPrefix(line, "-") && n != 2 {
			t.Errorf("got %q %d times, want it (twice if it is a remark) in\n%s", line, n, &md)
		}
	}
}

func TestReport(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Data: "../testdata"})
	j := benchtest.Must[protocol.Predictions](t)(s.Read("../testdata/genaibench_scores.jsonl"))
	c := benchtest.Must[*Comparison](t)(compare([]string{"<one>", "two"}, []protocol.Predictions{j,
		s.(protocol.Guessable).Guess(nil)}, 20, 1))
	dir := filepath.Join(t.TempDir(), "report")
	r := &Report{Benchmark: adiee.GenAIBench,
		Systems: []System{{Name: "<one>", Result: j.Result()},
			{Name: "two", Result: s.(protocol.Guessable).Guess(nil).Result()}}, Comparison: c, Facts: []string{"question 'x'"}}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		return string(benchtest.Must[[]byte](t)(os.ReadFile(filepath.Join(dir, name))))
	}
	page := read("index.html")
	if m := regexp.MustCompile(`(?i)(src|href|url\()\s*=?\s*["']?(https?:|//)|https?:|<script|<link|@import`).
		FindString(page); m != "" {
		t.Errorf("the page loads external content: %q", m)
	}
	for _, want := range []string{"&lt;one&gt;", `src="data:image/png;base64,`, "ADIEE (in ADIEE)", "edit 3",
		"bothbad_vote", "95 % intervals of 20 paired resamples", "viewport"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if csv := read("results.csv"); !strings.HasPrefix(csv,
		"name,adiee,threshold,threshold as run\n<one>,0.35,0.45,0.45\ntwo,") {
		t.Errorf("results.csv is\n%s", csv)
	}
	if md := read("results.md"); !strings.Contains(md, `| \<one> | 0.3500 | 0.4500 |`) ||
		!strings.Contains(md, "confusion (rows: truth, columns: predicted)") {
		t.Errorf("results.md is\n%s", md)
	}
	if !strings.Contains(read("results.json"), `"epsilon_from": "test set"`) {
		t.Error("results.json lacks the results")
	}
}

// The page sorts by the headline, marks the best and the second of every column in its better direction. A link leads
// from every column to a rule that is on the page.
func TestReportRanks(t *testing.T) {
	s := benchtest.LoadSet(t, aimbench.Benchmark, protocol.Options{Data: "../testdata"})
	better := func(text string) string { // every sub-score of sc one higher, the point nearer to the target
		return strings.NewReplacer(`"sc": [`, `"sc": [9, `, `"clip_t": 0.3`, `"clip_t": 0.2`).Replace(text)
	}
	text := string(benchtest.Must[[]byte](t)(os.ReadFile("../testdata/aim.jsonl")))
	r := &Report{Benchmark: aimbench.Benchmark}
	r.Add("as it is", benchtest.Must[protocol.Predictions](t)(s.Read("../testdata/aim.jsonl")))
	r.Add("worse clip_t", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "b.jsonl", better(text)))))
	view := sortedView(r, r.Summary())
	column := func(name string) int {
		for i, h := range view.Head {
			if h.Name == name {
				return i
			}
		}
		t.Fatalf("no column %s", name)
		return -1
	}
	if view.Rows[0].Name != "as it is" {
		t.Errorf("the first row is %s: the greater overall score comes first", view.Rows[0].Name)
	}
	if c := view.Rows[0].Cells[column("clip_t")]; c.Rank != 1 || view.Rows[1].Cells[column("clip_t")].Rank != 2 {
		t.Errorf("clip_t %+v", c)
	}
	for i, row := range view.Rows { // of many columns the one that rows are sorted by comes first, with its cells
		if v := row.Cells[0].Full; view.Head[0].Name != "overall" || v == "" ||
			v != fmt.Sprint(valueOf("overall", r.Systems[i].Result.Numbers)) {
			t.Errorf("%s begins with %s %s", row.Name, view.Head[0].Name, v)
		}
	}
	if h := view.Head[column("d_vad")]; h.Arrow != " ↓" {
		t.Errorf("d_vad has the arrow %q", h.Arrow)
	}
	// for distances smaller is better
	low := protocol.Table{Columns: []string{"d"}, Better: []int{-1},
		Rows: []protocol.TableRow{{Name: "a", Cells: protocol.Cells(3)},
			{Name: "b", Cells: protocol.Cells(2)}, {Name: "human", Cells: protocol.Cells(1), Printed: true}}}
	if got := ranksOf(low); got[0][0] != 2 || got[1][0] != 1 || got[2][0] != 0 {
		t.Errorf("ranks %v", got)
	}
	low.Rows[2] = protocol.TableRow{Name: "human-edit", Cells: protocol.Cells(1)} // an editor of that name
	if got := ranksOf(low); got[0][0] != 0 || got[1][0] != 2 || got[2][0] != 1 {
		t.Errorf("ranks of an editor called human-edit: %v", got)
	}
	var page strings.Builder
	if err := reportTemplate.Execute(&page, r); err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`<a href="#([^"]+)"`).FindAllStringSubmatch(page.String(), -1)
	if len(links) < len(view.Head) {
		t.Errorf("%d links", len(links))
	}
	for _, l := range links {
		if !strings.Contains(page.String(), `id="`+l[1]+`"`) {
			t.Errorf("the page has no %s", l[1])
		}
	}
	if !strings.Contains(page.String(), "<polygon") || !strings.Contains(page.String(), `class="bars"`) {
		t.Error("the page has no charts")
	}
}

// For a distance less is better in every part of a benchmark, not only for the column's bare name.
func TestDirectionOfParts(t *testing.T) {
	s := benchtest.LoadSet(t, editors.MagicBrush, protocol.Options{Data: benchtest.GradedFolder(t, 2)}).(protocol.Mixed)
	line := func(model string, l1, dino float64) string {
		return fmt.Sprintf(`{"id": "7/1", "model": %q, "l1": %v, "dino": %v}`, model, l1, dino)
	}
	list := benchtest.Must[[]protocol.Editor](t)(s.ReadAll([]string{benchtest.Write(t, "p.jsonl",
		line("far", 0.5, 0.9)+"\n"+line("near", 0.1, 0.2))}))
	r := &Report{Benchmark: editors.MagicBrush}
	for _, e := range list {
		r.Add(e.Name, e.Predictions)
	}
	table := r.Summary()
	want := map[string][2]int{"l1: single turn (50% of 2)": {2, 1}, "dino: single turn (50% of 2)": {1, 2}}
	for c, name := range table.Columns {
		if ranks := ranksOf(table); want[name] != [2]int{ranks[0][c], ranks[1][c]} {
			t.Errorf("%s: the ranks of far and near are %d and %d", name, ranks[0][c], ranks[1][c])
		}
	}
	if view := sortedView(r, table); view.Rows[0].Name != "near" {
		t.Errorf("%s comes first", view.Rows[0].Name)
	}
	for number, want := range map[string]int{"l1_source: test": -1, "clip_dir: test": 1, "l1_source": -1,
		"lpips: test": -1, "bg_rmse": -1} {
		if got := editors.EmuEdit.Direction(number); got != want {
			t.Errorf("%s: %d", number, got)
		}
	}
}

// A rule that counts absent numbers as wrong also does so if all of a sample's numbers are absent.
func TestAbsentSamplesAreWrong(t *testing.T) {
	dir := t.TempDir()
	entries := ""
	for i := range 4 {
		entries += fmt.Sprintf(`{"index": "i%d", "category": "causal_reasoning", "instruction": "x", "image": "a.png"},`, i)
	}
	path := filepath.Join(dir, "datav2_total_w_subtask.json")
	if err := os.WriteFile(path, []byte("["+strings.TrimSuffix(entries, ",")+"]"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := benchtest.LoadSet(t, editors.RISEBench, protocol.Options{Data: dir})
	for _, row := range []string{`{"id": "i1", "reasoning": 5, "consistency": 5, "plausibility": 5}`,
		`{"id": "i1", "accuracy": 100}`} {
		p := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", row)))
		r := &Report{Benchmark: editors.RISEBench}
		r.Add("half", p)
		for _, f := range r.allFigures() {
			if f.Rule == "accuracy: overall" && (float64(f.Value) != 25 || f.Name != "accuracy: overall") {
				t.Errorf("%s: one sample of four is right, and %s is %v", row, f.Name, f.Value)
			}
		}
		if raw := string(benchtest.Must[[]byte](t)(json.Marshal(p.Result().JSON))); !strings.Contains(raw,
			`"accuracy":25`) {
			t.Errorf("%s", raw)
		}
	}
}

// A draw of samples may lack a part: its numbers then come from fewer draws, and never from another part.
func TestPartsMissingInDraws(t *testing.T) {
	s := benchtest.LoadSet(t, editors.MagicBrush, protocol.Options{Data: benchtest.GradedFolder(t, 2)})
	editor := func(name string, single, multi float64) protocol.Predictions {
		text := ""
		for id, v := range map[string]float64{"7/1": single, "7/2": single, "7/final": multi} {
			text += fmt.Sprintf("{\"id\": %q, \"model\": %q, \"l1\": %v, \"dino\": %v}\n", id, name, v, 1-v)
		}
		return benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, name+".jsonl", text)))
	}
	a, b := editor("A", 0.06, 0.5), editor("B", 0.08, 0.75)
	want := map[string]float64{"l1: single turn": 0.06, "l1: multi-turn": 0.5, "dino: single turn": 0.94,
		"dino: multi-turn": 0.5}
	intervals := intervalsOf(a, 400, 1)
	for name, v := range want {
		if in := intervals[name]; !benchtest.Equal(in.Low, v) || !benchtest.Equal(in.High, v) {
			t.Errorf("%s: %v, want %v at both ends: all of its samples have it", name, in, v)
		}
	}
	if len(intervals) != len(want) {
		t.Errorf("%v", intervals)
	}
	c, err := compare([]string{"A", "B"}, []protocol.Predictions{a, b}, 400, 1)
	if err != nil || len(c.Differences) != len(want) {
		t.Fatalf("%v: %+v", err, c)
	}
	for _, d := range c.Differences {
		if v := float64(d.Difference); !benchtest.Equal(float64(d.Low), v) || !benchtest.Equal(float64(d.High), v) {
			t.Errorf("%s differs by %v [%v, %v]", d.Number, d.Difference, d.Low, d.High)
		}
	}
}

// Resamples without a number are reported, by number and system.
func TestUndefinedResamples(t *testing.T) {
	s := benchtest.LoadSet(t, editors.MagicBrush, protocol.Options{Data: benchtest.GradedFolder(t, 2)})
	rows := `{"id": "7/1", "l1": 0.5}` + "\n" + `{"id": "7/2", "l1": 0.5}` + "\n" + `{"id": "7/final", "l1": 0.25}`
	r := &Report{Benchmark: editors.MagicBrush}
	r.Add("m", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", rows))))
	r.Measure(s, 300, 1)
	remarks := strings.Join(r.Remarks(), "\n")
	for _, f := range r.allFigures() { // of three draws of three samples 1 of 27 lacks the first two
		if f.Rule == "l1: multi-turn" { // the mean of a single sample, which has no spread
			if f.Low != nil || f.Undefined > 0 {
				t.Errorf("one sample has an interval: %+v", f)
			}
			continue
		}
		if f.Undefined == 0 || !strings.Contains(remarks, fmt.Sprintf("%d of 300 resamples have no %s of m",
			f.Undefined,
			f.Name)) {
			t.Errorf("%s: %d resamples without it, remarks %s", f.Name, f.Undefined, remarks)
		}
	}
}
