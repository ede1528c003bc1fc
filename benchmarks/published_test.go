package benchmarks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/internal/long"
)

// expected is testdata/expected.json, the numbers of numpy, scipy and scikit-learn (tools/oracle/benchmarks.py).
func expected(t *testing.T, name string) map[string]any {
	t.Helper()
	b := must[[]byte](t)(os.ReadFile("testdata/expected.json"))
	var all map[string]map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all[name]
}

// at walks down nested JSON objects.
func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// same compares numbers of a result with expected ones: each pair is a path in the result and one in expected.
func same(t *testing.T, got, want map[string]any, paths ...[2]string) {
	t.Helper()
	for _, p := range paths {
		w, ok := at(want, strings.Split(p[1], ".")...).(float64)
		if !ok {
			t.Errorf("nothing is expected at %s", p[1])
		}
		near(t, p[0], at(got, strings.Split(p[0], ".")...), w, 1e-9)
	}
}

func readSet(t *testing.T, s Set, path string) map[string]any {
	t.Helper()
	return resultOf(t, must[Predictions](t)(s.Read(path)))
}

// The benchmark's own count of right answers: 492 of 919, printed as 53.54.
func TestGenAIBenchGolden(t *testing.T) {
	path := golden + "genaibench/gpt4o.jsonl"
	s := loadSet(t, genAIBench, Options{Votes: path})
	got := readSet(t, s, path)
	near(t, "n", got["n"], 919, 0)
	near(t, "official", at(got, "rules", "official", "accuracy"), 0.5353645266594124, 1e-12)
	near(t, "leftvotes", at(got, "votes", "leftvote"), 240, 0)
	if at(got, "rules", "adiee") != nil || at(got, "rules", "threshold") != nil {
		t.Error("rules for scores apply to answers")
	}
	answers := map[string]float64{}
	for _, row := range at(got, "rules", "official", "confusion").(map[string]any) {
		for a, n := range row.(map[string]any) {
			answers[a] += n.(float64)
		}
	}
	if d := cmp.Diff(map[string]float64{"A>B": 301, "B>A": 416, "A=B=Bad": 182, "A=B=Good": 20}, answers); d != "" {
		t.Error(d)
	}
}

func TestGenAIBenchParquet(t *testing.T) {
	want := expected(t, "genaibench")
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	for _, file := range []string{"testdata/genaibench_scores.jsonl", "testdata/genaibench_sides.jsonl"} {
		got := readSet(t, s, file)
		same(t, got, want, [2]string{"rules.adiee.accuracy", "adiee"},
			[2]string{"rules.threshold.accuracy", "threshold.accuracy"}, [2]string{"rules.threshold.epsilon",
				"threshold.epsilon"})
		if at(got, "rules", "threshold", "epsilon_from") != "test set" ||
			!strings.Contains(fmt.Sprint(got["notes"]), "chosen on the test set itself") {
			t.Error("it is not said that the margin was chosen on the test set")
		}
		for i, truth := range genAIVotes {
			for k, predicted := range genAIVotes {
				near(t, truth+" as "+predicted, at(got, "rules", "adiee", "confusion", truth, predicted),
					want["adiee_confusion"].([]any)[i].([]any)[k].(float64), 0)
			}
		}
	}
	fixed := loadSet(t, genAIBench, Options{Data: "testdata", Epsilon: 0.5})
	got := readSet(t, fixed, "testdata/genaibench_scores.jsonl")
	if near(t, "epsilon", at(got, "rules", "threshold", "epsilon"), 0.5, 0); at(got, "rules", "threshold",
		"epsilon_from") != "option" {
		t.Error("a given margin is not told from one chosen here")
	}
	items := must[[]Item](t)(s.(Scorable).Items())
	if len(items) != 80 || items[79].Key != (Key{"39", "right"}) || items[79].Instruction != "edit 39" {
		t.Fatalf("%d items, the last is %v", len(items), items[len(items)-1])
	}
	pic := must[*data.Picture](t)(data.Decode(must[[]byte](t)(items[79].Edit.Bytes()), data.Limits{}))
	if want := byte(37 * 41 % 256); pic.Width != 6 || pic.Height != 4 || pic.Pix[0] != want {
		t.Errorf("the picture is %dx%d of %d, want 6x4 of %d", pic.Width, pic.Height, pic.Pix[0], want)
	}
}

func TestPairErrors(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	tests := []struct{ file, want string }{
		{`{"id": 40, "left": 1, "right": 2}`, `p.jsonl:1: the id "40" is not one of the 40 pairs`},
		{`{"id": 1, "left": 1}`, `there is no "right"`},
		{`{"id": 1, "left": 1, "right": "x"}`, `right is "x": a finite number`},
		{`{"id": 1}`, "no prediction: \"answer\", \"left\" and \"right\""},
		{"{\"id\": 1, \"left\": 1, \"right\": 2}\n{\"id\": 1, \"model\": \"left\", \"score\": 2}",
			"p.jsonl:2: a second prediction for 1 of left (the first is in p.jsonl:1)"},
		{"{\"id\": 1, \"answer\": \"A>B\"}\n{\"id\": 1, \"answer\": \"A>B\"}", "a second answer for 1"},
		{`{"id": 1, "model": "top", "score": 2}`, `the model "top" is no side`},
		{`{"left": 1, "right": 2}`, `there is no "id"`},
	}
	for _, tt := range tests {
		if _, err := s.Read(write(t, "p.jsonl", tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.file, err, tt.want)
		}
	}
	got := readSet(t, s, write(t, "p.jsonl", "{\"id\": 0, \"answer\": null}\n{\"id\": 1, \"answer\": \"[[A > B]]\"}"))
	near(t, "official counts every pair", at(got, "rules", "official", "n"), 40, 0)
	near(t, "n", got["n"], 2, 0)
	if n := len(got["missing"].([]any)); n != 38 {
		t.Errorf("%d missing, want 38", n)
	}
	if _, err := genAIBench.Load(Options{Votes: write(t, "v.jsonl", `{"id": 1, "vote_type": "up"}`)}); err == nil ||
		!strings.Contains(err.Error(), "v.jsonl:1: vote_type is \"up\"") {
		t.Error(err)
	}
	if _, err := genAIBench.Load(Options{Data: "testdata/tiger.parquet"}); err == nil ||
		!strings.Contains(err.Error(), `there is no column "vote_type"`) {
		t.Error(err)
	}
}

func TestAurora(t *testing.T) {
	want := expected(t, "aurora_point")
	point := loadSet(t, auroraPoint, Options{Data: "testdata"})
	got := readSet(t, point, "testdata/aurora_point.jsonl")
	same(t, got, want, [2]string{"global", "global"}, [2]string{"per_model_mean", "per_model_mean"},
		[2]string{"per_model.aurora", "per_model.aurora"})
	byPath := readSet(t, point, write(t, "p.jsonl", `{"id": "out/3.png", "score": 4}`))
	if m := fmt.Sprint(byPath["missing"]); strings.Contains(m, "id:3]") || !strings.Contains(m, "id:4]") {
		t.Error("a prediction by path was not found")
	}
	want = expected(t, "aurora_pair")
	pair := loadSet(t, auroraPair, Options{Data: "testdata/human_ratings_pairwise.json"})
	got = readSet(t, pair, "testdata/aurora_pair.jsonl")
	same(t, got, want, [2]string{"rules.adiee.accuracy", "adiee"},
		[2]string{"rules.threshold.accuracy", "threshold.accuracy"}, [2]string{"rules.threshold.epsilon",
			"threshold.epsilon"})
	for _, tt := range []struct {
		b          *Benchmark
		data, want string
	}{
		{auroraPair, `[{"input": "i", "prompt": "p", "gens": ["a", "b"], "models": ["x", "y"], "winner": "z"}]`,
			`d.json[0]: winner is "z": "tie", "x" or "y" was expected`},
		{auroraPair, `[{"input": "i", "prompt": "p", "gens": ["a"], "models": ["x", "y"], "winner": "x"}]`,
			"1 gens and 2 models"},
		{auroraPoint, `[{"input": "i", "prompt": "p", "gen": "g", "score": "2"}]`, `d.json[0]: score`},
		{auroraPoint, `[{"input": "i", "prompt": "p", "score": 2}]`, `d.json[0]: there is no "gen"`},
	} {
		if _, err := tt.b.Load(Options{Data: write(t, "d.json", tt.data), Epsilon: math.NaN()}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.data, err, tt.want)
		}
	}
	if _, err := point.(Scorable).Items(); err == nil ||
		!strings.Contains(err.Error(), "in/0.png: the picture is not there") {
		t.Error(err)
	}
}

func TestEditReward(t *testing.T) {
	want := expected(t, "tiger")
	s := loadSet(t, editRewardBench, Options{Data: "testdata/tiger.parquet"})
	for _, file := range []string{"testdata/tiger_rows.jsonl", "testdata/tiger_candidates.jsonl"} {
		got := readSet(t, s, file)
		same(t, got, want, [2]string{"rules.k2.accuracy", "k2.accuracy"}, [2]string{"rules.k2.epsilon", "k2.epsilon"},
			[2]string{"rules.k3.accuracy", "k3"},
			[2]string{"rules.k4.accuracy", "k4"}, [2]string{"rules.overall.accuracy", "overall"})
		if got["variant"] != "TIGER-Lab" || len(got["missing"].([]any)) != 0 {
			t.Errorf("variant %v, missing %v", got["variant"], got["missing"])
		}
	}
	if items := must[[]Item](t)(s.(Scorable).Items()); len(items) != 2*20+3*12+4*10 {
		t.Errorf("%d items", len(items))
	}
	got := readSet(t, s, write(t, "p.jsonl", `{"id": "3pair000_AvsB", "answer": "A>B"}`))
	near(t, "incomplete groups do not count", at(got, "rules", "k3", "n"), 0, 0)

	want = expected(t, "editscore")
	s = loadSet(t, editRewardBench, Options{Data: "testdata/editscore.parquet"})
	for _, file := range []string{"testdata/editscore.jsonl", "testdata/editscore_pairs.jsonl"} {
		got := readSet(t, s, file)
		for d := range want {
			same(t, got, want, [2]string{"rules." + d + ".accuracy", d})
		}
		if got["variant"] != "EditScore" {
			t.Errorf("variant %v", got["variant"])
		}
	}
	if items := must[[]Item](t)(s.(Scorable).Items()); len(items) != 40 {
		t.Errorf("%d items", len(items))
	}
	if _, err := editRewardBench.Load(Options{Data: "testdata/aim.jsonl"}); err == nil ||
		!strings.Contains(err.Error(), "is neither EditReward-Bench") {
		t.Error(err)
	}
	partial := `{"id": "g_AvsB", "dataset": "3pair", "ranking": "A>B", "comparison_type": "AvsB", "instruction": "x"}`
	if _, err := editRewardBench.Load(Options{Data: write(t, "d.jsonl", partial)}); err == nil ||
		!strings.Contains(err.Error(), `the group "g" of 3pair has 1 comparisons`) {
		t.Error(err)
	}
}

func TestAIMBench(t *testing.T) {
	want := expected(t, "aim")
	s := loadSet(t, aimBench, Options{Data: "testdata"})
	got := readSet(t, s, "testdata/aim.jsonl")
	for _, c := range aimColumns {
		same(t, got, want, [2]string{c.name, c.name})
	}
	same(t, got, want, [2]string{"positive.acc", "positive.acc"}, [2]string{"negative.d_vad", "negative.d_vad"})
	near(t, "bias", at(got, "positivity_bias", "acc"),
		at(want, "positive", "acc").(float64)-at(want, "negative", "acc").(float64), 1e-9)
	for i, truth := range emotions {
		for k, predicted := range emotions {
			near(t, truth, at(got, "confusion", truth, predicted), want["confusion"].([]any)[i].([]any)[k].(float64), 0)
		}
	}
	if _, err := s.Read(write(t, "c.jsonl", `{"id": "e3.jpg", "sc": "8"}`)); err == nil ||
		!strings.Contains(err.Error(), `c.jsonl:1: sc is "8"`) {
		t.Error(err)
	}
}

// Overall from the printed means of all 14 methods of the paper's Table 1, to the rounding of the means.
func TestAIMBenchMeans(t *testing.T) {
	r := must[*Result](t)(aimMeans(golden + "aimbench/table1.csv"))
	b := must[[]byte](t)(json.Marshal(r.JSON))
	var got map[string]any
	json.Unmarshal(b, &got)
	if methods := got["methods"].([]any); len(methods) != 14 {
		t.Errorf("%d methods", len(methods))
	}
	near(t, "largest difference", got["largest_difference"], 0, 0.09)
	if _, err := aimMeans(write(t, "m.csv", "method,clip_t\na,0.2\n")); err == nil ||
		!strings.Contains(err.Error(), `m.csv:1: there is no column "sc"`) {
		t.Error(err)
	}
}

func TestFEDBench(t *testing.T) {
	want := expected(t, "fed")
	options := Options{Votes: "testdata/fed_votes.jsonl", BGNorm: "linear:255", Sigma: 0.5}
	got := readSet(t, loadSet(t, fedBench, options), "testdata/fed.jsonl")
	for c := range want["means"].(map[string]any) {
		same(t, got, want, [2]string{"means." + c, "means." + c})
	}
	for m := range want["two_afc"].(map[string]any) {
		same(t, got, want, [2]string{"two_afc.all.accuracy." + m, "two_afc." + m})
	}
	same(t, got, want, [2]string{"per_expression.happy.fed_score", "happy"},
		[2]string{"per_instructions.dense.fed_score", "dense"})
	near(t, "first sample", at(got["samples"].([]any)[0], "values", "fed_score"), want["first"].(float64), 1e-12)
	options.BGNorm = "exp:20"
	same(t, readSet(t, loadSet(t, fedBench, options), "testdata/fed.jsonl"), want, [2]string{"fed_score", "exp20"})

	zero := `{"id": "s", "identity": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0}`
	r := must[Predictions](t)(loadSet(t, fedBench,
		Options{BGNorm: "linear:255", Sigma: 0.5}).Read(write(t, "c.jsonl", zero))).Result()
	if len(r.Failed) != 1 || !strings.Contains(r.Failed[0], "c.jsonl:1: sample s: the LPIPS distance of source and "+
		"ground truth is not positive") || r.N != 0 {
		t.Errorf("failed %q, n %d", r.Failed, r.N)
	}
	if _, err := fedBench.Load(Options{BGNorm: "cubic:1", Sigma: 0.5}); err == nil {
		t.Error("an unknown normalisation passed")
	}
}

func TestMVEI(t *testing.T) {
	const meta = `[{"image_id": "a.jpg", "ov_emotion": ["joy"], "statement_list": [
		{"statement": "s0", "label": "correct", "class": "scene context", "subclass": "none", "predict": "Correct."},
		{"statement": "s1", "label": "incorrect", "class": "scene context", "subclass": "none",
		 "predict": "This is INCORRECT, not correct"},
		{"statement": "s2", "label": "incorrect", "class": "sentiment polarity", "subclass": "none", "predict": "maybe"},
		{"statement": "s3", "label": "correct", "class": "sentiment polarity", "subclass": "none",
		 "predict": "<think>it could be incorrect</think><answer>Correct</answer>"}]}]`
	s := loadSet(t, mvei, Options{Data: write(t, "MVEI_metadata.json", meta)})
	own, ok := s.(WithPredictions).Predictions()
	if !ok {
		t.Fatal("the answers of the data were not found")
	}
	got := resultOf(t, own)
	for what, want := range map[string]float64{"n": 4, "accuracy": 0.5, "positive_ratio": 0.25, "give_up_ratio": 0.25} {
		near(t, what, got[what], want, 0)
	}
	near(t, "class", at(got, "per_class", "scene context", "accuracy"), 1, 0)
	near(t, "answer_tag", at(got, "rules", "answer_tag", "accuracy"), 0.75, 0)
	answers := `{"id": "a.jpg#0", "answer": "correct"}` + "\n" + `{"image_id": "a.jpg", "statement": "s1", "answer": ` +
		`"correct"}` + "\n" + `{"id": 2, "answer": ""}`
	got = readSet(t, s, write(t, "p.jsonl", answers))
	near(t, "accuracy: no answer is wrong", got["accuracy"], 1.0/4, 1e-12)
	near(t, "give-up ratio", got["give_up_ratio"], 2.0/4, 1e-12)
	if m := fmt.Sprint(got["missing"]); m != "[map[id:a.jpg#3]]" {
		t.Errorf("missing %s", m)
	}
	// the authors' own file, written and read back
	dir := t.TempDir()
	if err := own.(Writer).WriteAuthors(dir); err != nil {
		t.Fatal(err)
	}
	again, ok := loadSet(t, mvei, Options{Data: dir}).(WithPredictions).Predictions()
	if !ok || cmp.Diff(own.Result().Numbers, again.Result().Numbers) != "" {
		t.Error("MVEI_predict.json reads back to other numbers")
	}
	for answer, want := range map[string]string{"B": negative, "answer: a": positive,
		"<answer> incorrect </answer> correct": negative, "x</think> A": positive, "": abstain, "none": abstain} {
		if read := parseTagged(answer); read != want {
			t.Errorf("%q is read as %s, want %s", answer, read, want)
		}
	}
	if _, err := s.Read(write(t, "p.jsonl", `{"id": "b.jpg#0", "answer": "x"}`)); err == nil ||
		!strings.Contains(err.Error(), `p.jsonl:1: "b.jpg#0" is no statement`) {
		t.Error(err)
	}
}

// fake scores by a function and remembers the groups it was given.
type fake struct {
	score  func(it Item) float64
	groups []int
	stop   int
	cancel context.CancelFunc
}

func (f *fake) Prepare(it Item) (Item, error) { return it, nil }

func (f *fake) Score(_ context.Context, group []Item) ([]float64, error) {
	f.groups = append(f.groups, len(group))
	if len(f.groups) == f.stop {
		f.cancel()
	}
	var out []float64
	for k, it := range group {
		out = append(out, f.score(it)+0.01*float64(k))
	}
	return out, nil
}

// scorer runs f on items whose pictures are not there.
func (f *fake) scorer(fingerprint string) *Scorer {
	s := newScorer(f, f.Prepare, nil)
	s.Fingerprint = fingerprint
	return s
}

func TestScoreResumes(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	items := must[[]Item](t)(s.(Scorable).Items())
	ctx, cancel := context.WithCancel(context.Background())
	f := &fake{score: func(it Item) float64 { return float64(len(it.ID)) }, stop: 3, cancel: cancel}
	run := Run{Benchmark: "genaibench", Items: items, Dir: t.TempDir()}
	path, err := run.Score(ctx, f.scorer("fake"))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// an interrupted write leaves half a line
	file := must[*os.File](t)(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	file.WriteString(`{"id":"3","mod`)
	file.Close()
	last := 0
	run.Progress = func(n, _ int) { last = n }
	if _, err := run.Score(context.Background(), f.scorer("fake")); err != nil {
		t.Fatal(err)
	}
	if len(f.groups) != 40 || f.groups[0] != 2 || last != 80 {
		t.Errorf("%d groups were scored, the first of %d, progress ends at %d", len(f.groups), f.groups[0], last)
	}
	got := readSet(t, s, path)
	near(t, "n", got["n"], 40, 0)
	if _, err := run.Score(context.Background(), f.scorer("another")); err == nil ||
		!strings.Contains(err.Error(), "predictions of another run") {
		t.Error(err)
	}
	bad := &fake{score: func(Item) float64 { return math.NaN() }}
	run.Dir = t.TempDir()
	if _, err := run.Score(context.Background(), bad.scorer("fake")); err == nil ||
		!strings.Contains(err.Error(), "scoring 0 of left: the score is NaN") {
		t.Error(err)
	}
	// equal scores plus 0.01 for the second one: the winner is always the second, so it always flips
	o := must[*Order](t)(CheckOrder(context.Background(), f.scorer("fake"), items, nil))
	if o.Pairs != 40 || o.Flips != 40 || o.Rate != 1 || math.Abs(o.Largest-0.01) > 1e-12 {
		t.Errorf("order %+v", o)
	}
}

func TestCompareAndBaselines(t *testing.T) {
	long.Test(t)
	s := loadSet(t, imagenHub, Options{Data: golden + "imagenhub"})
	gpt := must[Predictions](t)(s.Read(golden + "imagenhub/judges/gpt4o_0shot.jsonl"))
	gemini := must[Predictions](t)(s.Read(golden + "imagenhub/judges/gemini_0shot.jsonl"))
	compare := func() *Comparison {
		return must[*Comparison](t)(Compare([]string{"gpt", "gemini", "gpt again"}, []Predictions{gpt, gemini, gpt}, 300, 7))
	}
	c := compare()
	if d := cmp.Diff(c, compare()); d != "" {
		t.Errorf("one seed gave two results: %s", d)
	}
	near(t, "difference", float64(c.Differences[0].Difference), 0.2728093758207022-0.38205639488565435, 1e-9)
	if d := c.Differences[0]; d.Number != "published" || !(d.Low < d.Difference && d.Difference < d.High && d.High < 0) {
		t.Errorf("%+v: the interval of GPT-4o's lead does not lie below 0", d)
	}
	if d := c.Differences[2]; d.Difference != 0 || d.Low != 0 || d.High != 0 {
		t.Errorf("a judge differs from itself: %+v", d)
	}
	random := must[*Baseline](t)(NewBaseline(s, "random", 1))
	near(t, "expected correlation", float64(random.Expectation["published"]), 0, 0.005)
	r := must[*Baseline](t)(NewBaseline(s, "constant", 1)).Result()
	if !math.IsNaN(r.number("published")) || !strings.Contains(strings.Join(r.Notes, " "), "8 of 8 methods is undefined") {
		t.Errorf("a constant judge: %v %q", r.Numbers, r.Notes)
	}
	votes := loadSet(t, genAIBench, Options{Votes: golden + "genaibench/gpt4o.jsonl"})
	random = must[*Baseline](t)(NewBaseline(votes, "random", 1))
	near(t, "expected accuracy", float64(random.Expectation["official"]), 0.25, 0.003)
	// P(t1 > t2) = 5/16, P(both >= 9) = 1/100, so by the shares of votes (240 + 263, 24, 392 of 919):
	near(t, "expected accuracy", float64(random.Expectation["adiee"]), (503*5.0/16+24*0.01+392*(3.0/8-0.01))/919, 0.003)
	again := must[*Baseline](t)(NewBaseline(votes, "random", 1))
	if d := cmp.Diff(random.Result().Numbers, again.Result().Numbers); d != "" {
		t.Error(d)
	}
	if _, err := NewBaseline(loadSet(t, aimBench, Options{Data: "testdata"}), "random", 1); err == nil {
		t.Error("random components were made up")
	}
}
