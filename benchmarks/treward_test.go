package benchmarks

import (
	"assay/textjudge"
	"fmt"
	"math"
	"strings"
	"testing"
)

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

// No answer is missing, an unknown one is told; the official rule counts both as wrong.
func TestAnswersThatAreNone(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	var lines strings.Builder
	for i := range 40 {
		answer := []string{"null", `"perhaps"`, `"A>B"`, `"B>A"`}[min(i, 2+i%2)]
		fmt.Fprintf(&lines, `{"id": %d, "answer": %s}`+"\n", i, answer)
	}
	r := must[Predictions](t)(s.Read(write(t, "a.jsonl", lines.String()))).Result()
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"official: 1 of 40 pairs have no answer, which counts as wrong",
		`official: 1 answers are unreadable and count as wrong: "perhaps"`} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q, want %s", notes, want)
		}
	}
	lab := loadSet(t, editRewardBench, Options{Data: "testdata/tiger.parquet"})
	id := lab.(*tiger).ids[0]
	r = must[Predictions](t)(lab.Read(write(t, "t.jsonl", fmt.Sprintf(`{"id": %q, "answer": null}`, id)))).Result()
	if r.N != 0 {
		t.Errorf("a comparison without an answer is counted: %d", r.N)
	}
	r = must[Predictions](t)(lab.Read(write(t, "t.jsonl", fmt.Sprintf(`{"id": %q, "answer": "no idea"}`, id)))).Result()
	notes = strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, `1 answers are unreadable and count as wrong: "noidea"`) {
		t.Errorf("notes %q", notes)
	}
}
