package benchmarks

import (
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
	if csv := read("results.csv"); !strings.HasPrefix(csv, "name,adiee,threshold\n<one>,0.35,0.45\ntwo,") {
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
