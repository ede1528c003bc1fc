package rewardbench

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/benchmarks/adiee"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
)

// TestTigerAsAuthors: the numbers as run are what eval_bench.py prints, and k2 is its pairwise accuracy of two.
func TestTigerAsAuthors(t *testing.T) {
	for n, f := range benchtest.Authors[authorsTiger](t, "tiger") {
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
						fmt.Fprintf(&predictions, `{"id": %q, "left": %v, "right": %v}`+"\n", id, s.Scores[a],
							s.Scores[b])
					}
				}
			}
		}
		s := benchtest.LoadSet(t, EditRewardBench, protocol.Options{Data: benchtest.Write(t, "d.jsonl", data.String())})
		p := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", predictions.String())))
		want := map[string]float64{"overall as run": f.Expect["overall"].Strict,
			pairwiseAsRun: f.Expect["overall"].Pairwise, "k2": f.Expect["2-Pair"].Pairwise}
		for k := 2; k <= 4; k++ {
			want[fmt.Sprintf("k%d as run", k)] = f.Expect[fmt.Sprintf("%d-Pair", k)].Strict
		}
		what := fmt.Sprintf("file %d", n)
		benchtest.EqualNumbers(t, what, benchtest.ByRule(benchtest.NumbersOf(p)), want)
		rules := benchtest.At(benchtest.ResultOf(t, p), "rules")
		for k := 2; k <= 4; k++ {
			e := f.Expect[fmt.Sprintf("%d-Pair", k)]
			benchtest.Near(t, fmt.Sprintf("%s: k%d: samples", what, k),
				benchtest.At(rules, fmt.Sprintf("k%d as run", k), "n"), e.Samples, 0)
			benchtest.Near(t, fmt.Sprintf("%s: k%d: pairs", what, k), benchtest.At(rules, fmt.Sprintf("k%d as run", k),
				"pairwise_accuracy"),
				e.Pairwise, 1e-9)
		}
		benchtest.Near(t, what+": all pairs", benchtest.At(rules, "overall as run", "pairwise_accuracy"),
			f.Expect["overall"].Pairwise, 1e-9)
	}
}

// TestTigerWithoutScores: answers, and candidates with several scores, have no numbers as run.
func TestTigerWithoutScores(t *testing.T) {
	s := benchtest.LoadSet(t, EditRewardBench, protocol.Options{Data: "../testdata/tiger.parquet"})
	answer := benchtest.Write(t, "p.jsonl", `{"id": "2pair000_AvsB", "answer": "A>B"}`)
	if numbers := benchtest.Must[protocol.Predictions](t)(s.Read(answer)).Result().Numbers; len(numbers) != 4 {
		t.Errorf("answers have the numbers %+v, want k2, k3, k4 and overall", numbers)
	}
	var lines strings.Builder // A has another score in every comparison
	for i, pair := range []string{"AvsB", "AvsC", "BvsC"} {
		fmt.Fprintf(&lines, `{"id": "3pair000_%s", "left": %d, "right": 0}`+"\n", pair, i+1)
	}
	numbers := benchtest.NumbersOf(benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl",
		lines.String()))))
	if v, ok := numbers["k3 as run (0% of 12)"]; !ok || !math.IsNaN(v) {
		t.Errorf("%v: k3 as run should cover nothing", numbers)
	}
}

// TestEditScoreAsAuthors: scorers and judges are shown what evaluation.py shows: edits of the source's size, without
// transparency.
func TestEditScoreAsAuthors(t *testing.T) {
	for n, rows := range benchtest.Authors[authorsEditScore](t, "editscore") {
		dir, lines := t.TempDir(), ""
		for i, r := range rows {
			benchtest.PutFile(t, dir, fmt.Sprint(i, "s"), r.Source)
			for side, name := range []string{"a", "b"} {
				benchtest.PutFile(t, dir, fmt.Sprint(i, name), r.Edits[side])
			}
			lines += fmt.Sprintf(`{"key": ["%[1]da", "%[1]db"], "task_type": "compose", "dimension": "overall", `+
				`"instruction": "do", "input_image": "%[1]ds", "output_images": ["%[1]da", "%[1]db"]}`+"\n", i)
		}
		s := benchtest.LoadSet(t, EditRewardBench, protocol.Options{Data: benchtest.PutFile(t, dir, "d.jsonl",
			[]byte(lines))})
		for k, it := range benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items()) {
			for i, role := range []string{"source", "edit"} {
				shown := benchtest.Must[*data.Picture](t)(it.Picture(role).Decode())
				benchtest.Shows(t, fmt.Sprintf("file %d: %s of %s", n, role, it.ID), rows[k/2].Expect[k%2][i], shown)
			}
		}
	}
}

func TestEditReward(t *testing.T) {
	want := benchtest.Expected(t, "tiger")
	s := benchtest.LoadSet(t, EditRewardBench, protocol.Options{Data: "../testdata/tiger.parquet"})
	for _, file := range []string{"../testdata/tiger_rows.jsonl", "../testdata/tiger_candidates.jsonl"} {
		got := benchtest.ReadSet(t, s, file)
		benchtest.Same(t, got, want, [2]string{"rules.k2.accuracy", "k2.accuracy"}, [2]string{"rules.k2.epsilon",
			"k2.epsilon"},
			[2]string{"rules.k3.accuracy", "k3"},
			[2]string{"rules.k4.accuracy", "k4"}, [2]string{"rules.overall.accuracy", "overall"})
		if got["variant"] != "TIGER-Lab" || len(got["missing"].([]any)) != 0 {
			t.Errorf("variant %v, missing %v", got["variant"], got["missing"])
		}
	}
	if items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items()); len(items) != 2*20+3*12+4*10 {
		t.Errorf("%d items", len(items))
	}
	got := benchtest.ReadSet(t, s, benchtest.Write(t, "p.jsonl", `{"id": "3pair000_AvsB", "answer": "A>B"}`))
	benchtest.Near(t, "incomplete groups do not count", benchtest.At(got, "rules", "k3", "n"), 0, 0)

	want = benchtest.Expected(t, "editscore")
	s = benchtest.LoadSet(t, EditRewardBench, protocol.Options{Data: "../testdata/editscore.parquet"})
	for _, file := range []string{"../testdata/editscore.jsonl", "../testdata/editscore_pairs.jsonl"} {
		got := benchtest.ReadSet(t, s, file)
		for d := range want {
			benchtest.Same(t, got, want, [2]string{"rules." + d + ".accuracy", d})
		}
		if got["variant"] != "EditScore" {
			t.Errorf("variant %v", got["variant"])
		}
	}
	if items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items()); len(items) != 40 {
		t.Errorf("%d items", len(items))
	}
	if _, err := EditRewardBench.Load(protocol.Options{Data: "../testdata/aim.jsonl"}); err == nil ||
		!strings.Contains(err.Error(), "is neither EditReward-Bench") {
		t.Error(err)
	}
	partial := `{"id": "g_AvsB", "dataset": "3pair", "ranking": "A>B", "comparison_type": "AvsB", "instruction": "x"}`
	if _, err := EditRewardBench.Load(protocol.Options{Data: benchtest.Write(t, "d.jsonl", partial)}); err == nil ||
		!strings.Contains(err.Error(), `the group "g" of 3pair has 1 comparisons`) {
		t.Error(err)
	}
}

// An absent answer is missing, an unknown one is reported; the official rule counts both as wrong.
func TestAnswersThatAreNone(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Data: "../testdata"})
	var lines strings.Builder
	for i := range 40 {
		answer := []string{"null", `"perhaps"`, `"A>B"`, `"B>A"`}[min(i, 2+i%2)]
		fmt.Fprintf(&lines, `{"id": %d, "answer": %s}`+"\n", i, answer)
	}
	r := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "a.jsonl", lines.String()))).Result()
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"official: 1 of 40 pairs have no answer, which counts as wrong",
		`official: 1 answers are unreadable and count as wrong: "perhaps"`} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q, want %s", notes, want)
		}
	}
	lab := benchtest.LoadSet(t, EditRewardBench, protocol.Options{Data: "../testdata/tiger.parquet"})
	id := lab.(*tiger).IDs[0]
	r = benchtest.Must[protocol.Predictions](t)(lab.Read(benchtest.Write(t, "t.jsonl",
		fmt.Sprintf(`{"id": %q, "answer": null}`, id)))).Result()
	if r.N != 0 {
		t.Errorf("a comparison without an answer is counted: %d", r.N)
	}
	r = benchtest.Must[protocol.Predictions](t)(lab.Read(benchtest.Write(t, "t.jsonl",
		fmt.Sprintf(`{"id": %q, "answer": "no idea"}`, id)))).Result()
	notes = strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, `1 answers are unreadable and count as wrong: "noidea"`) {
		t.Errorf("notes %q", notes)
	}
}

// authorsTiger is a part of authors.json.
type authorsTiger []struct {
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

// authorsEditScore is a part of authors.json.
type authorsEditScore [][]struct {
	Source []byte
	Edits  [2][]byte
	Expect [2][2]benchtest.ShownPicture
}
