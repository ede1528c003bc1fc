package benchmarks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	j := must[Predictions](t)(s.Read("testdata/genaibench_scores.jsonl"))
	c := must[*Comparison](t)(Compare([]string{"<one>", "two"}, []Predictions{j, s.(Guessable).Guess(nil)}, 20, 1))
	dir := filepath.Join(t.TempDir(), "report")
	r := &Report{Benchmark: genAIBench,
		Systems: []System{{"<one>", j.Result()},
			{"two", s.(Guessable).Guess(nil).Result()}}, Comparison: c, Facts: []string{"question 'x'"}}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string { return string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, name)))) }
	page := read("index.html")
	if m := regexp.MustCompile(`(?i)(src|href|url\()\s*=?\s*["']?(https?:|//)|https?:|<script|<link|@import`).
		FindString(page); m != "" {
		t.Errorf("the page asks for something outside: %q", m)
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
	if md := read("results.md"); !strings.Contains(md, "| <one> | 0.3500 | 0.4500 |") ||
		!strings.Contains(md, "confusion (rows: truth, columns: predicted)") {
		t.Errorf("results.md is\n%s", md)
	}
	if !strings.Contains(read("results.json"), `"epsilon_from": "test set"`) {
		t.Error("results.json lacks the results")
	}
}

func TestScatter(t *testing.T) {
	svg := string(scatterSVG(Scatter{Title: "x", Score: []float64{1, 5, 5}, Human: []float64{0, 1, 1}}))
	if strings.Count(svg, "<circle") != 3 || strings.Contains(svg, "NaN") {
		t.Error(svg)
	}
	if svg := string(scatterSVG(Scatter{Score: []float64{2}, Human: []float64{1}})); strings.Contains(svg, "NaN") {
		t.Error("a single point has no place")
	}
}

// The page sorts by the headline, marks the best and the second of every column in its better direction. A link leads
// from every column to a rule that is on the page.
func TestReportRanks(t *testing.T) {
	s := loadSet(t, aimBench, Options{Data: "testdata"})
	better := func(text string) string { // every sub-score of sc one higher, the point nearer to the target
		return strings.NewReplacer(`"sc": [`, `"sc": [9, `, `"clip_t": 0.3`, `"clip_t": 0.2`).Replace(text)
	}
	text := string(must[[]byte](t)(os.ReadFile("testdata/aim.jsonl")))
	r := &Report{Benchmark: aimBench}
	r.Add("as it is", must[Predictions](t)(s.Read("testdata/aim.jsonl")))
	r.Add("worse clip_t", must[Predictions](t)(s.Read(write(t, "b.jsonl", better(text)))))
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
	// of distances the smaller one is the better one
	low := Table{Columns: []string{"d"}, Better: []int{-1}, Rows: []TableRow{{Name: "a", Cells: []float64{3}},
		{Name: "b", Cells: []float64{2}}, {Name: "human", Cells: []float64{1}, Printed: true}}}
	if got := low.ranks(); got[0][0] != 2 || got[1][0] != 1 || got[2][0] != 0 {
		t.Errorf("ranks %v", got)
	}
	low.Rows[2] = TableRow{Name: "human-edit", Cells: []float64{1}} // an editor of that name
	if got := low.ranks(); got[0][0] != 0 || got[1][0] != 2 || got[2][0] != 1 {
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

// A name may be broken behind its underscores, and is escaped.
func TestSoft(t *testing.T) {
	if got := soft("without_rule<"); got != "without_<wbr>rule&lt;" {
		t.Error(got)
	}
}
