package benchmarks

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const golden = "../testdata/golden/"

// resultOf evaluates predictions and reads the result back from its JSON.
func resultOf(t *testing.T, j Predictions) map[string]any {
	t.Helper()
	b, err := json.Marshal(j.Result().JSON)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func near(t *testing.T, what string, got any, want, tolerance float64) {
	t.Helper()
	if f, ok := got.(float64); !ok || !(math.Abs(f-want) <= tolerance) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func loadSet(t *testing.T, b *Benchmark, o Options) Set {
	t.Helper()
	if o.Epsilon == 0 {
		o.Epsilon = math.NaN()
	}
	return must[Set](t)(b.Load(o))
}

// The numbers of real judges, by scipy (golden/README.md), among them the published 0.3821 and 0.2728.
func TestImagenHubGolden(t *testing.T) {
	var expected map[string]map[string]struct {
		N                 int
		Published, Fisher float64
		PerModelMean      float64            `json:"per_model_mean"`
		PerModel          map[string]float64 `json:"per_model"`
	}
	b := must[[]byte](t)(os.ReadFile(golden + "imagenhub/expected.json"))
	if err := json.Unmarshal(b, &expected); err != nil {
		t.Fatal(err)
	}
	for judge, targets := range expected {
		for target, want := range targets {
			what := judge + " " + target
			s := loadSet(t, imagenHub, Options{Data: golden + "imagenhub", Target: target})
			got := resultOf(t, must[Predictions](t)(s.Read(golden+"imagenhub/judges/"+judge+".jsonl")))
			near(t, what+" n", got["n"], float64(want.N), 0)
			near(t, what+" published", got["published"], want.Published, 1e-9)
			near(t, what+" fisher", got["fisher"], want.Fisher, 1e-9)
			near(t, what+" mean", got["per_model_mean"], want.PerModelMean, 1e-9)
			for m, rho := range want.PerModel {
				near(t, what+" "+m, got["per_model"].(map[string]any)[m], rho, 1e-9)
			}
			if target == "O" {
				near(t, "human", got["human"], 0.41839, 5e-6)
			}
			if m := got["missing"].([]any); len(m) != 0 {
				t.Errorf("%s: missing %v", what, m)
			}
		}
	}
}

func TestImagenHubConstantAndMissing(t *testing.T) {
	b := must[[]byte](t)(os.ReadFile(golden + "imagenhub/judges/gpt4o_0shot.jsonl"))
	var lines []string
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		switch {
		case strings.Contains(line, `"SDEdit"`):
			line = fmt.Sprintf(`{"id": %q, "model": "SDEdit", "score": 3}`, strings.Split(line, `"`)[3])
		case i == 0:
			continue
		}
		lines = append(lines, line)
	}
	lines = append(lines, `{"id": "sample_100081_1.jpg", "model": "Imagic", "score": 1}`)
	s := loadSet(t, imagenHub, Options{Data: golden + "imagenhub/human_ratings"})
	j := must[Predictions](t)(s.Read(write(t, "p.jsonl", strings.Join(lines, "\n"))))
	got := resultOf(t, j)
	near(t, "n", got["n"], 1431, 0)
	if m := fmt.Sprint(got["missing"]); m != "[map[id:sample_100081_1.jpg model:CycleDiffusion]]" {
		t.Errorf("missing %v", m)
	}
	if v, ok := got["per_model"].(map[string]any)["SDEdit"]; !ok || v != nil {
		t.Errorf("a constant method has the correlation %v, want null", v)
	}
	if u := fmt.Sprint(got["undefined"], got["notes"]); !strings.Contains(u, "[SDEdit]") ||
		!strings.Contains(u, "1 of 8 methods is undefined") {
		t.Errorf("undefined methods are told as %s", u)
	}
	// the other seven of the golden file, one item short in CycleDiffusion
	near(t, "published", got["published"], math.Tanh((8*0.4024653053902596-0.36492442319759405)/7), 2e-3)
	if j.Complete(0) || !j.Complete(1) {
		t.Error("the first source alone is incomplete")
	}
}

func TestImagenHubErrors(t *testing.T) {
	s := loadSet(t, imagenHub, Options{Data: golden + "imagenhub"})
	const ok = `{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": 1}`
	tests := []struct{ file, want string }{
		{ok + "\n" + ok, `p.jsonl:2: a second prediction for sample_100081_1.jpg of SDEdit (the first is in p.jsonl:1)`},
		{`{"id": "x.jpg", "model": "SDEdit", "score": 1}`, `p.jsonl:1: the id "x.jpg" is not rated`},
		{`{"id": "sample_100081_1.jpg", "model": "Nobody", "score": 1}`,
			`the model "Nobody" is not rated: one of CycleDiffusion,`},
		{`{"id": "sample_100081_1.jpg", "score": 1}`, `there is no "model"`},
		{"\xef\xbb\xbf" + `{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": true}`,
			"score is true: a finite number"},
		{"\n" + `{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": NaN}`,
			"p.jsonl:2: NaN or Infinity: finite numbers"},
		{`{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": "8"}`, `score is "8": a finite number was expected`},
		{`{"id": "sample_100081_1.jpg", "model": "SDEdit"}`, `there is no "score"`},
		{`{"id": "sample_100081_1.jpg", `, "p.jsonl:1: unexpected end of JSON input"},
		{`7`, "a JSON object was expected"},
		{``, "p.jsonl is empty"},
	}
	for _, tt := range tests {
		if _, err := s.Read(write(t, "p.jsonl", tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.file, err, tt.want)
		}
	}
}

func TestImagenHubBrokenRatings(t *testing.T) {
	const first = "uid\tSDEdit\tImagic\na.jpg\t[0.5, 1]\t[0,0]\nb.jpg\t[0, 0]\t[0,0]"
	tests := []struct{ second, want string }{
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5, 1]\t[0,0]", "rater2.tsv: there is no row for b.jpg"},
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5]\t[0,0]\nb.jpg\t[0, 0]\t[0,0]", `rater2.tsv:2: SDEdit has "[0.5]": [SC, PQ]`},
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5, 7]\t[0,0]\nb.jpg\t[0, 0]\t[0,0]", "two numbers from 0 to 1"},
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5, 1]\nb.jpg\t[0, 0]\t[0,0]", "rater2.tsv:2: 2 columns: 3 were expected"},
		{"uid\tOther\na.jpg\t[0.5, 1]\nb.jpg\t[0, 0]", `rater2.tsv:1: the column "SDEdit"`},
		{"uid\tSDEdit\na.jpg\t[0.5, 1]\nb.jpg\t[0, 0]\nb.jpg\t[0, 0]", "rater2.tsv:4: a second row for b.jpg"},
		{"id,SDEdit", `rater2.tsv:1: the header begins with`},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		for i, content := range []string{first, tt.second} {
			name := filepath.Join(dir, fmt.Sprintf("Text-Guided_IE_rater%d.tsv", i+1))
			if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := loadImagenHub(Options{Data: dir}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q:\n got %v\nwant %s", tt.second, err, tt.want)
		}
	}
	if _, err := loadImagenHub(Options{Data: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "holds no Text-Guided_IE_rater*.tsv") {
		t.Error(err)
	}
	if _, err := loadImagenHub(Options{Data: golden + "imagenhub", Target: "X"}); err == nil {
		t.Error("a wrong target passed")
	}
}

// The number of raters is part of what a number is: two raters are not the published three, nor is one twice.
func TestImagenHubRaters(t *testing.T) {
	const ratings = golden + "imagenhub/human_ratings/Text-Guided_IE/Text-Guided_IE_rater"
	dir := t.TempDir()
	put := func(from, to string) {
		raw := must[[]byte](t)(os.ReadFile(ratings + from + ".tsv"))
		if err := os.WriteFile(filepath.Join(dir, "Text-Guided_IE_rater"+to+".tsv"), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("1", "1")
	put("2", "2")
	r := &Report{Benchmark: imagenHub}
	s := loadSet(t, imagenHub, Options{Data: dir})
	r.Add("gpt", must[Predictions](t)(s.Read(golden+"imagenhub/judges/gpt4o_0shot.jsonl")))
	summary := r.Summary()
	if len(summary.Rows) != 1 || summary.Title != imagenHub.Title+": 2 raters" {
		t.Errorf("%s has the rows %v", summary.Title, summary.Rows)
	}
	put("1", "3")
	if _, err := imagenHub.Load(Options{Data: dir}); err == nil ||
		!strings.Contains(err.Error(), "rater3.tsv: the same ratings as in Text-Guided_IE_rater1.tsv") {
		t.Error(err)
	}
}
