package adiee

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
)

// A null in the first line must not select another field of the file.
func TestNumberOfAllLines(t *testing.T) {
	const golden = "../../../testdata/golden/imagenhub/human_ratings"
	set := benchtest.LoadSet(t, ImagenHub, protocol.Options{Data: golden, Target: "SC"})
	keys := set.(*hub).Keys
	line := func(i int, sc string) string {
		return fmt.Sprintf(`{"id": %q, "model": %q, "sc": %s, "score": 5}`+"\n", keys[i].ID, keys[i].Model, sc)
	}
	p := benchtest.Must[protocol.Predictions](t)(set.Read(benchtest.Write(t, "p.jsonl",
		line(0, "null")+line(1, "2")+line(2, "3"))))
	scores := p.(hubPredictions).Scores
	if !math.IsNaN(scores[0]) || scores[1] != 2 || scores[2] != 3 {
		t.Errorf("%v: want the column sc", scores[:3])
	}
}

// A line of a pair has one prediction: fields that would be ignored are refused, and an answer next to two scores is
// used.
func TestOneKindOfPrediction(t *testing.T) {
	set := benchtest.LoadSet(t, GenAIBench, protocol.Options{Votes: benchtest.Write(t, "v.jsonl",
		`{"id": 0, "vote_type": "leftvote"}`)})
	for row, want := range map[string]string{
		`{"id": 0, "left": 7, "right": 3, "score": [1, 9]}`:                "both left and right and score",
		`{"id": 0, "model": "left", "score": 1, "answer": "A>B"}`:          `this line is for "left" only`,
		`{"id": 0, "model": "left", "score": 1, "left": 7, "right": 3}`:    "both left and right and score",
		`{"id": 0, "model": "left", "left": 7, "right": 3}`:                `this line is for "left" only`,
		`{"id": 0, "answer": "A>B", "right": 3}`:                           `there is no "left"`,
		`{"id": 0, "answer": "A>B", "score": [7, 3]}`:                      "official adiee threshold threshold as run",
		`{"id": 0, "answer": "A>B", "left": 7, "right": 3}`:                "official adiee threshold threshold as run",
		`{"id": 0, "score": [7, 3]}` + "\n" + `{"id": 0, "score": [7, 3]}`: "a second prediction",
	} {
		p, err := set.Read(benchtest.Write(t, "p.jsonl", row))
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", row, err, want)
			}
			continue
		}
		var names []string
		for _, n := range p.Result().Numbers {
			names = append(names, n.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: numbers %s, want %s", row, got, want)
		}
	}
}

// Votes are used instead of the data: options that would be ignored are refused.
func TestVotesAlone(t *testing.T) {
	votes := benchtest.Write(t, "v.jsonl", `{"id": 0, "vote_type": "leftvote"}`)
	for want, o := range map[string]protocol.Options{
		"votes without pictures, instead of --ratings": {Votes: votes, Data: "../testdata"},
		"leave out --ratings, --images and --targets":  {Votes: votes, Targets: "../testdata"},
		`subset "tset": want test_v1 or test`:          {Votes: votes, Subset: "tset"},
	} {
		if _, err := loadGenAIBench(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

// A rating that is null is not 0, and a method is rated in one column.
func TestRatersCells(t *testing.T) {
	for want, text := range map[string]string{
		`r2.tsv:2: a has "[null, 1]": want [SC, PQ], two numbers`: "uid\ta\nx\t[null, 1]\n",
		`r2.tsv:2: a has "null": want [SC, PQ], two numbers`:      "uid\ta\nx\tnull\n",
		`r2.tsv:1: a second column "a"`:                           "uid\ta\ta\nx\t[1, 1]\t[0, 0]\n",
	} {
		dir := t.TempDir()
		for name, body := range map[string]string{"1": "uid\ta\nx\t[1, 1]\n", "2": text} {
			path := filepath.Join(dir, "Text-Guided_IE_rater"+name+".tsv")
			if err := os.WriteFile(path, []byte(body), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want = "Text-Guided_IE_rate" + want
		if _, err := loadImagenHub(protocol.Options{Data: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestThresholdAsAuthors: the rule as run is calc_accuracy_with_ties of EditReward's program.
func TestThresholdAsAuthors(t *testing.T) {
	votes := map[int]string{1: "leftvote", -1: "rightvote", 0: "tievote"}
	winners := map[int]string{1: "x", -1: "y", 0: "tie"}
	for n, f := range benchtest.Authors[authorsThresholds](t, "thresholds") {
		var data, predictions strings.Builder
		var pairs []map[string]any
		for i, p := range f.Pairs {
			fmt.Fprintf(&data, `{"id": %d, "vote_type": %q}`+"\n", i, votes[p.Human])
			pairs = append(pairs, map[string]any{"input": "i", "prompt": fmt.Sprint(i), "models": []string{"x", "y"},
				"gens": []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}, "winner": winners[p.Human]})
			if p.Scores[1] != nil {
				fmt.Fprintf(&predictions, `{"id": %d, "left": %v, "right": %v}`+"\n", i, *p.Scores[0], *p.Scores[1])
			}
		}
		path := benchtest.Write(t, "p.jsonl", predictions.String())
		for _, s := range []protocol.Set{benchtest.LoadSet(t, GenAIBench,
			protocol.Options{Votes: benchtest.Write(t, "v.jsonl", data.String())}),
			benchtest.LoadSet(t, AuroraPair, protocol.Options{Data: benchtest.PutFile(t, t.TempDir(),
				"human_ratings_pairwise.json", pairs)})} {
			p := benchtest.Must[protocol.Predictions](t)(s.Read(path))
			benchtest.EqualNumbers(t, fmt.Sprintf("file %d of %T", n, s), benchtest.ByRule(benchtest.NumbersOf(p)),
				map[string]float64{"threshold as run": f.Expect})
			benchtest.Near(t, "rules", benchtest.At(benchtest.ResultOf(t, p), "rules", "threshold as run", "accuracy"),
				f.Expect, 1e-9)
		}
	}
	s := benchtest.LoadSet(t, GenAIBench, protocol.Options{Data: "../testdata", Epsilon: 0.5})
	if _, ok := benchtest.NumbersOf(benchtest.Must[protocol.Predictions](t)(
		s.Read("../testdata/genaibench_scores.jsonl")))["threshold as run"]; ok {
		t.Error("a margin that was chosen elsewhere also has a number as run")
	}
}

// TestOfficialAsAuthors: models' answers are right and wrong as in GenAI-Bench's inference.py.
func TestOfficialAsAuthors(t *testing.T) {
	right := 0
	for n, list := range benchtest.Authors[authorsVotes](t, "votes") {
		for _, v := range list {
			s := benchtest.LoadSet(t, GenAIBench, protocol.Options{Votes: benchtest.Write(t, "v.jsonl",
				fmt.Sprintf(`{"id": 0, "vote_type": %q}`, v.Vote))})
			line := string(benchtest.Must[[]byte](t)(json.Marshal(map[string]any{"id": 0, "answer": v.Answer})))
			p := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", line)))
			if got := p.Result().Numbers[0].Value == 1; got != v.Correct {
				t.Errorf("file %d: %q for a %s is right: %t, want %t", n, v.Answer, v.Vote, got, v.Correct)
			} else if got {
				right++
			}
		}
	}
	if right == 0 {
		t.Error("a missing answer is right")
	}
}

// The numbers of real judges, by scipy (golden/README.md), among them the published 0.3821 and 0.2728.
func TestImagenHubGolden(t *testing.T) {
	var expected map[string]map[string]struct {
		N                 int
		Published, Fisher float64
		PerModelMean      float64            `json:"per_model_mean"`
		PerModel          map[string]float64 `json:"per_model"`
	}
	b := benchtest.Must[[]byte](t)(os.ReadFile(benchtest.Golden + "imagenhub/expected.json"))
	if err := json.Unmarshal(b, &expected); err != nil {
		t.Fatal(err)
	}
	for judge, targets := range expected {
		for target, want := range targets {
			what := judge + " " + target
			s := benchtest.LoadSet(t, ImagenHub, protocol.Options{Data: benchtest.Golden + "imagenhub", Target: target})
			got := benchtest.ResultOf(t, benchtest.Must[protocol.Predictions](t)(
				s.Read(benchtest.Golden+"imagenhub/judges/"+judge+".jsonl")))
			benchtest.Near(t, what+" n", got["n"], float64(want.N), 0)
			benchtest.Near(t, what+" published", got["published"], want.Published, 1e-9)
			benchtest.Near(t, what+" fisher", got["fisher"], want.Fisher, 1e-9)
			benchtest.Near(t, what+" mean", got["per_model_mean"], want.PerModelMean, 1e-9)
			for m, rho := range want.PerModel {
				benchtest.Near(t, what+" "+m, got["per_model"].(map[string]any)[m], rho, 1e-9)
			}
			if target == "O" {
				benchtest.Near(t, "human", got["human"], 0.41839, 5e-6)
			}
			if m := got["missing"].([]any); len(m) != 0 {
				t.Errorf("%s: missing %v", what, m)
			}
		}
	}
}

func TestImagenHubConstantAndMissing(t *testing.T) {
	b := benchtest.Must[[]byte](t)(os.ReadFile(benchtest.Golden + "imagenhub/judges/gpt4o_0shot.jsonl"))
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
	s := benchtest.LoadSet(t, ImagenHub, protocol.Options{Data: benchtest.Golden + "imagenhub/human_ratings"})
	j := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", strings.Join(lines, "\n"))))
	got := benchtest.ResultOf(t, j)
	benchtest.Near(t, "n", got["n"], 1431, 0)
	if m := fmt.Sprint(got["missing"]); m != "[map[id:sample_100081_1.jpg model:CycleDiffusion]]" {
		t.Errorf("missing %v", m)
	}
	if v, ok := got["per_model"].(map[string]any)["SDEdit"]; !ok || v != nil {
		t.Errorf("a constant method has the correlation %v, want null", v)
	}
	if u := fmt.Sprint(got["undefined"], got["notes"]); !strings.Contains(u, "[SDEdit]") ||
		!strings.Contains(u, "1 of 8 methods is undefined") {
		t.Errorf("undefined methods are reported as %s", u)
	}
	// the other seven of the golden file, one item short in CycleDiffusion
	benchtest.Near(t, "published", got["published"], math.Tanh((8*0.4024653053902596-0.36492442319759405)/7), 2e-3)
	if j.Complete(0) || !j.Complete(1) {
		t.Error("the first source alone is incomplete")
	}
}

func TestImagenHubErrors(t *testing.T) {
	s := benchtest.LoadSet(t, ImagenHub, protocol.Options{Data: benchtest.Golden + "imagenhub"})
	const ok = `{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": 1}`
	tests := []struct{ file, want string }{
		{ok + "\n" + ok, `p.jsonl:2: a second prediction for sample_100081_1.jpg of SDEdit (the first is in p.jsonl:1)`},
		{`{"id": "x.jpg", "model": "SDEdit", "score": 1}`, `p.jsonl:1: the id "x.jpg" is not rated`},
		{`{"id": "sample_100081_1.jpg", "model": "Nobody", "score": 1}`,
			`the model "Nobody" is not rated: want one of CycleDiffusion,`},
		{`{"id": "sample_100081_1.jpg", "score": 1}`, `there is no "model"`},
		{"\xef\xbb\xbf" + `{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": true}`,
			"score is true: want a finite number"},
		{"\n" + `{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": NaN}`,
			"p.jsonl:2: NaN or Infinity: want finite numbers"},
		{`{"id": "sample_100081_1.jpg", "model": "SDEdit", "score": "8"}`,
			`score is "8": want a finite number`},
		{`{"id": "sample_100081_1.jpg", "model": "SDEdit"}`, `there is no "score"`},
		{`{"id": "sample_100081_1.jpg", `, "p.jsonl:1: unexpected end of JSON input"},
		{`7`, "want a JSON object"},
		{``, "p.jsonl is empty"},
	}
	for _, tt := range tests {
		if _, err := s.Read(benchtest.Write(t, "p.jsonl", tt.file)); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.file, err, tt.want)
		}
	}
}

func TestImagenHubBrokenRatings(t *testing.T) {
	const first = "uid\tSDEdit\tImagic\na.jpg\t[0.5, 1]\t[0,0]\nb.jpg\t[0, 0]\t[0,0]"
	tests := []struct{ second, want string }{
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5, 1]\t[0,0]", "rater2.tsv: there is no row for b.jpg"},
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5]\t[0,0]\nb.jpg\t[0, 0]\t[0,0]",
			`rater2.tsv:2: SDEdit has "[0.5]": want [SC, PQ]`},
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5, 7]\t[0,0]\nb.jpg\t[0, 0]\t[0,0]", "two numbers from 0 to 1"},
		{"uid\tSDEdit\tImagic\na.jpg\t[0.5, 1]\nb.jpg\t[0, 0]\t[0,0]", "rater2.tsv:2: 2 columns: want 3"},
		{"uid\tOther\na.jpg\t[0.5, 1]\nb.jpg\t[0, 0]", `rater2.tsv:1: there is no column "SDEdit"`},
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
		if _, err := loadImagenHub(protocol.Options{Data: dir}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q:\n got %v\nwant %s", tt.second, err, tt.want)
		}
	}
	if _, err := loadImagenHub(protocol.Options{Data: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "contains no Text-Guided_IE_rater*.tsv") {
		t.Error(err)
	}
	if _, err := loadImagenHub(protocol.Options{Data: benchtest.Golden + "imagenhub", Target: "X"}); err == nil {
		t.Error("a wrong target was accepted")
	}
}

// The number of raters is part of a number's basis: two raters are not the published three, nor is one file twice.
func TestImagenHubRaters(t *testing.T) {
	const ratings = benchtest.Golden + "imagenhub/human_ratings/Text-Guided_IE/Text-Guided_IE_rater"
	dir := t.TempDir()
	put := func(from, to string) {
		raw := benchtest.Must[[]byte](t)(os.ReadFile(ratings + from + ".tsv"))
		if err := os.WriteFile(filepath.Join(dir, "Text-Guided_IE_rater"+to+".tsv"), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("1", "1")
	put("2", "2")
	r := &report.Report{Benchmark: ImagenHub}
	s := benchtest.LoadSet(t, ImagenHub, protocol.Options{Data: dir})
	r.Add("gpt", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Golden+"imagenhub/judges/gpt4o_0shot.jsonl")))
	summary := r.Summary()
	if len(summary.Rows) != 1 || summary.Title != ImagenHub.Title+": 2 raters" {
		t.Errorf("%s has the rows %v", summary.Title, summary.Rows)
	}
	put("1", "3")
	if _, err := ImagenHub.Load(protocol.Options{Data: dir}); err == nil ||
		!strings.Contains(err.Error(), "rater3.tsv: the same ratings as in Text-Guided_IE_rater1.tsv") {
		t.Error(err)
	}
}

// authorsThresholds is a part of authors.json.
type authorsThresholds []struct {
	Pairs []struct {
		Human  int
		Scores [2]*float64
	}
	Expect float64
}

// authorsVotes is a part of authors.json.
type authorsVotes [][]struct {
	Vote    string `json:"vote_type"`
	Answer  string
	Correct bool
}
