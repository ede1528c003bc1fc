package benchmarks

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/testfile"
	"assay/metrics"
	"assay/textjudge"
)

// authors are what programs of the benchmarks' authors make of random answers, some of them missing or malformed
// (tools/oracle/authors.py).
type authors struct {
	Tiger []struct {
		Samples []struct {
			K       int
			Ranking string
			Scores  []float64
		}
		Expect map[string]struct {
			Pairwise float64 `json:"pairwise_accuracy"`
			Strict   float64 `json:"strict_ranking_accuracy"`
			Samples  float64 `json:"strict_total_samples"`
		}
	}
	Thresholds []struct {
		Pairs []struct {
			Human  int
			Scores [2]*float64
		}
		Expect float64
	}
	Votes [][]struct {
		Vote    string `json:"vote_type"`
		Answer  string
		Correct bool
	}
	AIM []struct {
		Data   json.RawMessage
		Files  map[string]json.RawMessage
		Expect map[string]float64
	}
	KRIS []struct {
		Annotations, Results map[string]json.RawMessage
		Expect               map[string]float64
		Used, Of             int
	}
	MagicBrush [][]struct {
		Edit, Target []byte
		Expect       map[string]float64
	}
	EditScore [][]struct {
		Source []byte
		Edits  [2][]byte
		Expect [2][2]shownPicture
	}
	GEditMeans []struct {
		Data   []json.RawMessage
		Files  map[string]string
		Expect map[string]*float64
	} `json:"gedit_means"`
	GEdit [][]struct {
		Source, Edit []byte
		Expect       [2]shownPicture
	}
}

// shownPicture is a picture that a program shows to its judge.
type shownPicture struct {
	Size   [2]int
	SHA256 string
}

func readAuthors(t *testing.T) (a authors) {
	t.Helper()
	testfile.ReadJSON(t, "testdata/authors.json", &a)
	return a
}

// numbersOf are the numbers of a result by the names that reports have, with what they stand on.
func numbersOf(j Predictions) map[string]float64 {
	r := j.Result()
	out := map[string]float64{}
	for _, n := range r.Numbers {
		c := coverageOf(r)
		if n.Coverage != nil {
			c = *n.Coverage
		}
		if !n.Counted {
			out[Basis{Rule: n.Name, Coverage: c}.Name()] = n.Value
		}
	}
	return out
}

// byRule are numbers without what they stand on.
func byRule(named map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, v := range named {
		rule, _, _ := strings.Cut(name, " (")
		out[rule] = v
	}
	return out
}

func equalNumbers(t *testing.T, what string, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		if g, ok := got[name]; !ok || !(math.Abs(g-w) <= 1e-9) {
			t.Errorf("%s: %s = %v, want %v", what, name, g, w)
		}
	}
}

// putFile writes a file of JSON, or of bytes.
func putFile(t *testing.T, dir, name string, what any) string {
	t.Helper()
	raw, ok := what.([]byte)
	if !ok {
		raw = must[[]byte](t)(json.Marshal(what))
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTigerAsAuthors: the numbers as run are what eval_bench.py prints, and k2 is its pairwise accuracy of two.
func TestTigerAsAuthors(t *testing.T) {
	for n, f := range readAuthors(t).Tiger {
		var data, predictions strings.Builder
		for i, s := range f.Samples {
			group := fmt.Sprintf("%dpair%d", s.K, i)
			for a := range s.K {
				for b := a + 1; b < s.K; b++ {
					one, two := "ABCD"[a:a+1], "ABCD"[b:b+1]
					ranking := s.Ranking
					if s.K > 2 {
						ranking = one + ">" + two
						if strings.Index(s.Ranking, two) < strings.Index(s.Ranking, one) {
							ranking = two + ">" + one
						}
					}
					id := fmt.Sprintf("%s_%svs%s", group, one, two)
					fmt.Fprintf(&data, `{"id": %q, "dataset": "%dpair", "ranking": %q, "comparison_type": "%svs%s", `+
						`"instruction": "x"}`+"\n", id, s.K, ranking, one, two)
					if s.Scores != nil {
						fmt.Fprintf(&predictions, `{"id": %q, "left": %v, "right": %v}`+"\n", id, s.Scores[a], s.Scores[b])
					}
				}
			}
		}
		s := loadSet(t, editRewardBench, Options{Data: write(t, "d.jsonl", data.String())})
		p := must[Predictions](t)(s.Read(write(t, "p.jsonl", predictions.String())))
		want := map[string]float64{"overall as run": f.Expect["overall"].Strict,
			pairwiseAsRun: f.Expect["overall"].Pairwise, "k2": f.Expect["2-Pair"].Pairwise}
		for k := 2; k <= 4; k++ {
			want[fmt.Sprintf("k%d as run", k)] = f.Expect[fmt.Sprintf("%d-Pair", k)].Strict
		}
		what := fmt.Sprintf("file %d", n)
		equalNumbers(t, what, byRule(numbersOf(p)), want)
		rules := at(resultOf(t, p), "rules")
		for k := 2; k <= 4; k++ {
			e := f.Expect[fmt.Sprintf("%d-Pair", k)]
			near(t, fmt.Sprintf("%s: k%d: samples", what, k), at(rules, fmt.Sprintf("k%d as run", k), "n"), e.Samples, 0)
			near(t, fmt.Sprintf("%s: k%d: pairs", what, k), at(rules, fmt.Sprintf("k%d as run", k), "pairwise_accuracy"),
				e.Pairwise, 1e-9)
		}
		near(t, what+": all pairs", at(rules, "overall as run", "pairwise_accuracy"), f.Expect["overall"].Pairwise, 1e-9)
	}
}

// TestTigerWithoutScores: answers, and candidates with several scores, have no numbers as run.
func TestTigerWithoutScores(t *testing.T) {
	s := loadSet(t, editRewardBench, Options{Data: "testdata/tiger.parquet"})
	answer := write(t, "p.jsonl", `{"id": "2pair000_AvsB", "answer": "A>B"}`)
	if numbers := must[Predictions](t)(s.Read(answer)).Result().Numbers; len(numbers) != 4 {
		t.Errorf("answers have the numbers %+v, want k2, k3, k4 and overall", numbers)
	}
	var lines strings.Builder // A has another score in every comparison
	for i, pair := range []string{"AvsB", "AvsC", "BvsC"} {
		fmt.Fprintf(&lines, `{"id": "3pair000_%s", "left": %d, "right": 0}`+"\n", pair, i+1)
	}
	numbers := numbersOf(must[Predictions](t)(s.Read(write(t, "p.jsonl", lines.String()))))
	if v, ok := numbers["k3 as run (0% of 12)"]; !ok || !math.IsNaN(v) {
		t.Errorf("%v: k3 as run should stand on nothing", numbers)
	}
}

// TestThresholdAsAuthors: the rule as run is calc_accuracy_with_ties of EditReward's program.
func TestThresholdAsAuthors(t *testing.T) {
	votes := map[int]string{1: "leftvote", -1: "rightvote", 0: "tievote"}
	winners := map[int]string{1: "x", -1: "y", 0: "tie"}
	for n, f := range readAuthors(t).Thresholds {
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
		path := write(t, "p.jsonl", predictions.String())
		for _, s := range []Set{loadSet(t, genAIBench, Options{Votes: write(t, "v.jsonl", data.String())}),
			loadSet(t, auroraPair, Options{Data: putFile(t, t.TempDir(), "human_ratings_pairwise.json", pairs)})} {
			p := must[Predictions](t)(s.Read(path))
			equalNumbers(t, fmt.Sprintf("file %d of %T", n, s), byRule(numbersOf(p)),
				map[string]float64{"threshold as run": f.Expect})
			near(t, "rules", at(resultOf(t, p), "rules", "threshold as run", "accuracy"), f.Expect, 1e-9)
		}
	}
	s := loadSet(t, genAIBench, Options{Data: "testdata", Epsilon: 0.5})
	if _, ok := numbersOf(must[Predictions](t)(s.Read("testdata/genaibench_scores.jsonl")))["threshold as run"]; ok {
		t.Error("a margin that was chosen elsewhere has a number as run, too")
	}
}

// TestAIMAsAuthors: the columns and Overall of an editor's result files are those of overall_auto.py.
func TestAIMAsAuthors(t *testing.T) {
	for n, f := range readAuthors(t).AIM {
		dir := t.TempDir()
		putFile(t, dir, "Instructions.json", []byte(f.Data))
		for name, rows := range f.Files {
			putFile(t, dir, "M/eval/"+name+".json", []byte(rows))
		}
		s := loadSet(t, aimBench, Options{Data: dir})
		p := must[[]Editor](t)(s.(Mixed).ReadAll([]string{filepath.Join(dir, "M")}))[0].Predictions
		numbers := numbersOf(p)
		equalNumbers(t, fmt.Sprintf("file %d", n), byRule(numbers), f.Expect)
		if _, whole := numbers["overall"]; whole {
			t.Errorf("file %d: what is missing of overall is not told: %v", n, numbers)
		}
		again := t.TempDir()
		if err := p.(Writer).WriteAuthors(again); err != nil {
			t.Fatal(err)
		}
		p = must[[]Editor](t)(s.(Mixed).ReadAll([]string{filepath.Join(again, "M")}))[0].Predictions
		equalNumbers(t, fmt.Sprintf("file %d, written and read", n), byRule(numbersOf(p)), f.Expect)
	}
}

// TestAIMOverallStandsOn: the name of Overall counts the values that its columns are made of.
func TestAIMOverallStandsOn(t *testing.T) {
	s := loadSet(t, aimBench, Options{Data: "testdata"})
	rows := strings.Split(strings.TrimSpace(string(must[[]byte](t)(os.ReadFile("testdata/aim.jsonl")))), "\n")
	if n := numbersOf(must[Predictions](t)(s.Read("testdata/aim.jsonl"))); math.IsNaN(n["overall"]) || n["overall"] == 0 {
		t.Errorf("overall of everything is %v", n["overall"])
	}
	less := write(t, "aim.jsonl", strings.Join(rows[:len(rows)-1], "\n")) // one sample of 80 has nothing
	if n := numbersOf(must[Predictions](t)(s.Read(less))); math.IsNaN(n["overall (99% of 560 values)"]) ||
		n["overall (99% of 560 values)"] == 0 {
		t.Errorf("overall without a sample: %v", n)
	}
}

// TestKRISAsAuthors: the means are those of Bagel's summarize.py, and the pooled ones say of how many values.
func TestKRISAsAuthors(t *testing.T) {
	for n, f := range readAuthors(t).KRIS {
		dir := t.TempDir()
		for category, entries := range f.Annotations {
			putFile(t, dir, "KRIS_Bench/"+category+"/annotation.json", []byte(entries))
		}
		for category, entries := range f.Results {
			putFile(t, dir, "M/"+category+"/metrics.json", []byte(entries))
		}
		s := loadSet(t, krisBench, Options{Data: filepath.Join(dir, "KRIS_Bench")})
		p := must[[]Editor](t)(s.(Mixed).ReadAll([]string{filepath.Join(dir, "M")}))[0].Predictions
		numbers := numbersOf(p)
		equalNumbers(t, fmt.Sprintf("file %d", n), byRule(numbers), f.Expect)
		name := fmt.Sprintf("kris: overall (%.0f%% of %d values)", 100*float64(f.Used)/float64(f.Of), f.Of)
		if _, ok := numbers[name]; !ok {
			t.Errorf("file %d: there is no number %q: %v", n, name, numbers)
		}
	}
}

// TestMagicBrushAsAuthors: distances of pictures with every kind of transparency are those of image_eval.py.
func TestMagicBrushAsAuthors(t *testing.T) {
	for n, pairs := range readAuthors(t).MagicBrush {
		dir, want := t.TempDir(), map[string]float64{}
		for i, p := range pairs {
			id := fmt.Sprint(i)
			putFile(t, dir, "images/"+id+"/"+id+"-output1.png", p.Target)
			putFile(t, dir, "M/"+id+"/"+id+"_1.png", p.Edit)
			for metric, v := range p.Expect {
				want[metric+": single turn"] += v / float64(len(pairs))
			}
		}
		s := loadSet(t, magicBrush, Options{Data: dir, Editors: []string{filepath.Join(dir, "M")}})
		items := must[[]Item](t)(s.(Measurable).Outputs())
		var files []string
		for _, name := range []string{"l1", "l2"} {
			m := must[metrics.Measurer](t)(metrics.OpenMeasurer(name, metrics.Options{}))
			c := Component{Metric: m, Dir: dir}
			files = append(files, must[string](t)(c.Measure(t.Context(), s.(Measurable), items)))
			if len(c.Failed) > 0 {
				t.Errorf("%+v", c.Failed)
			}
		}
		p := must[[]Editor](t)(s.(Mixed).ReadAll(files))[0].Predictions
		for name, v := range want { // torch adds in single precision
			near(t, fmt.Sprintf("file %d: %s", n, name), numbersOf(p)[name], v, 1e-6)
		}
	}
}

// shows compares decoded pictures with those that a program shows.
func shows(t *testing.T, what string, want shownPicture, got *data.Picture) {
	t.Helper()
	if sum := fmt.Sprintf("%x", sha256.Sum256(got.Pix)); [2]int{got.Width, got.Height} != want.Size || sum != want.SHA256 {
		t.Errorf("%s: %d x %d pixels, digest %s, want %v, %s", what, got.Width, got.Height, sum, want.Size, want.SHA256)
	}
}

// TestEditScoreAsAuthors: scorers and judges are shown what evaluation.py shows: edits of the source's size, without
// transparency.
func TestEditScoreAsAuthors(t *testing.T) {
	for n, rows := range readAuthors(t).EditScore {
		dir, lines := t.TempDir(), ""
		for i, r := range rows {
			putFile(t, dir, fmt.Sprint(i, "s"), r.Source)
			for side, name := range []string{"a", "b"} {
				putFile(t, dir, fmt.Sprint(i, name), r.Edits[side])
			}
			lines += fmt.Sprintf(`{"key": ["%[1]da", "%[1]db"], "task_type": "compose", "dimension": "overall", `+
				`"instruction": "do", "input_image": "%[1]ds", "output_images": ["%[1]da", "%[1]db"]}`+"\n", i)
		}
		s := loadSet(t, editRewardBench, Options{Data: putFile(t, dir, "d.jsonl", []byte(lines))})
		for k, it := range must[[]Item](t)(s.(Scorable).Items()) {
			want := rows[k/2].Expect[k%2]
			e := must[Edit](t)(decode(it))
			shows(t, fmt.Sprintf("file %d: source of %v", n, it.Key), want[0], e.Source)
			shows(t, fmt.Sprintf("file %d: edit %v", n, it.Key), want[1], e.Edit)
			asked := must[textjudge.Item](t)(askedItem(it))
			shows(t, fmt.Sprintf("file %d: edit %v of a judge", n, it.Key), want[1], asked.Pictures["edit"])
		}
	}
}

// TestGEditAsAuthors: judges are shown what run_gedit_score.py shows.
func TestGEditAsAuthors(t *testing.T) {
	for n, rows := range readAuthors(t).GEdit {
		dir, lines := t.TempDir(), ""
		for i, r := range rows {
			putFile(t, dir, fmt.Sprint(i, ".source"), r.Source)
			putFile(t, dir, fmt.Sprintf("M/fullset/ps_human/en/%d.png", i), r.Edit)
			lines += fmt.Sprintf(`{"task_type": "ps_human", "key": "%[1]d", "instruction": "do", "instruction_language": "en", `+
				`"input_image_raw": "%[1]d.source"}`+"\n", i)
		}
		s := loadSet(t, gEditBench, Options{Data: putFile(t, dir, "d.jsonl", []byte(lines)),
			Editors: []string{filepath.Join(dir, "M")}})
		for k, it := range must[[]Item](t)(s.(Scorable).Items()) {
			e := must[Edit](t)(decode(it))
			shows(t, fmt.Sprintf("file %d: source of %v", n, it.Key), rows[k].Expect[0], e.Source)
			shows(t, fmt.Sprintf("file %d: edit %v", n, it.Key), rows[k].Expect[1], e.Edit)
		}
	}
}

// TestRISEPicturesAreBare: the authors' program shows pictures without their transparency.
func TestRISEPicturesAreBare(t *testing.T) {
	e := riseEntry{Index: "1", Category: logical, Image: "a.png", ReferenceImage: "b.png"}
	if it := e.item("", false); !it.Source.Bare || !it.Edit.Bare || !it.Shown["reference"].Bare {
		t.Errorf("%+v", it)
	}
}

// TestOfficialAsAuthors: answers as models give them are right and wrong as GenAI-Bench's inference.py has it.
func TestOfficialAsAuthors(t *testing.T) {
	right := 0
	for n, list := range readAuthors(t).Votes {
		for _, v := range list {
			s := loadSet(t, genAIBench, Options{Votes: write(t, "v.jsonl", fmt.Sprintf(`{"id": 0, "vote_type": %q}`, v.Vote))})
			line := string(must[[]byte](t)(json.Marshal(map[string]any{"id": 0, "answer": v.Answer})))
			p := must[Predictions](t)(s.Read(write(t, "p.jsonl", line)))
			if got := p.Result().Numbers[0].Value == 1; got != v.Correct {
				t.Errorf("file %d: %q for a %s is right: %t, want %t", n, v.Answer, v.Vote, got, v.Correct)
			} else if got {
				right++
			}
		}
	}
	if right == 0 {
		t.Error("no answer is right")
	}
}

// TestGEditMeansAsAuthors: result files in the form of the older program give the means of its calculate_statistics.py.
func TestGEditMeansAsAuthors(t *testing.T) {
	for n, f := range readAuthors(t).GEditMeans {
		dir, lines := t.TempDir(), ""
		for _, sample := range f.Data {
			lines += string(sample) + "\n"
		}
		var files []string
		for name, text := range f.Files {
			files = append(files, putFile(t, dir, name, []byte(text)))
		}
		s := loadSet(t, gEditBench, Options{Data: putFile(t, dir, "d.jsonl", []byte(lines))})
		numbers := byRule(numbersOf(must[[]Editor](t)(s.(Mixed).ReadAll(files))[0].Predictions))
		for name, want := range f.Expect {
			if got, ok := numbers[name]; want == nil && ok && !math.IsNaN(got) ||
				want != nil && !(math.Abs(got-*want) <= 1e-9) {
				t.Errorf("file %d: %s is %v, want %v (null: undefined)", n, name, got, want)
			}
		}
	}
}
