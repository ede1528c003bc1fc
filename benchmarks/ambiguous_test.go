package benchmarks

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A null in the first line does not make another number of the file.
func TestNumberOfAllLines(t *testing.T) {
	const golden = "../testdata/golden/imagenhub/human_ratings"
	set := loadSet(t, imagenHub, Options{Data: golden, Target: "SC"})
	keys := set.(*hub).keys
	line := func(i int, sc string) string {
		return fmt.Sprintf(`{"id": %q, "model": %q, "sc": %s, "score": 5}`+"\n", keys[i].ID, keys[i].Model, sc)
	}
	p := must[Predictions](t)(set.Read(write(t, "p.jsonl", line(0, "null")+line(1, "2")+line(2, "3"))))
	scores := p.(*hubPredictions).scores
	if !math.IsNaN(scores[0]) || scores[1] != 2 || scores[2] != 3 {
		t.Errorf("%v: the column sc was expected", scores[:3])
	}
}

// A line of a pair says one thing: what would be passed over is refused, and an answer beside two scores is kept.
func TestOneKindOfPrediction(t *testing.T) {
	set := loadSet(t, genAIBench, Options{Votes: write(t, "v.jsonl", `{"id": 0, "vote_type": "leftvote"}`)})
	for row, want := range map[string]string{
		`{"id": 0, "left": 7, "right": 3, "score": [1, 9]}`:                "left and right, and score",
		`{"id": 0, "model": "left", "score": 1, "answer": "A>B"}`:          `this line is of "left" alone`,
		`{"id": 0, "model": "left", "score": 1, "left": 7, "right": 3}`:    "left and right, and score",
		`{"id": 0, "model": "left", "left": 7, "right": 3}`:                `this line is of "left" alone`,
		`{"id": 0, "answer": "A>B", "right": 3}`:                           `there is no "left"`,
		`{"id": 0, "answer": "A>B", "score": [7, 3]}`:                      "official adiee threshold threshold as run",
		`{"id": 0, "answer": "A>B", "left": 7, "right": 3}`:                "official adiee threshold threshold as run",
		`{"id": 0, "score": [7, 3]}` + "\n" + `{"id": 0, "score": [7, 3]}`: "a second prediction",
	} {
		p, err := set.Read(write(t, "p.jsonl", row))
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

// Votes stand in place of the data: what both say would be passed over.
func TestVotesAlone(t *testing.T) {
	votes := write(t, "v.jsonl", `{"id": 0, "vote_type": "leftvote"}`)
	for want, o := range map[string]Options{
		"votes without pictures, in place of --ratings": {Votes: votes, Data: "testdata"},
		"leave out that, --images and --targets":        {Votes: votes, Targets: "testdata"},
		`subset "tset": test_v1 or test`:                {Votes: votes, Subset: "tset"},
	} {
		if _, err := loadGenAIBench(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

// A rating that is null is not 0, and a method is rated in one column.
func TestRatersCells(t *testing.T) {
	for want, text := range map[string]string{
		`r2.tsv:2: a has "[null, 1]": [SC, PQ], two numbers`: "uid\ta\nx\t[null, 1]\n",
		`r2.tsv:2: a has "null": [SC, PQ], two numbers`:      "uid\ta\nx\tnull\n",
		`r2.tsv:1: a second column "a"`:                      "uid\ta\ta\nx\t[1, 1]\t[0, 0]\n",
	} {
		dir := t.TempDir()
		for name, body := range map[string]string{"1": "uid\ta\nx\t[1, 1]\n", "2": text} {
			path := filepath.Join(dir, "Text-Guided_IE_rater"+name+".tsv")
			if err := os.WriteFile(path, []byte(body), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want = "Text-Guided_IE_rate" + want
		if _, err := loadImagenHub(Options{Data: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A component by two of its names is refused: one of both would be passed over.
func TestComponentByTwoNames(t *testing.T) {
	set := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5})
	line := strings.Replace(fedLines([]int{1}, 0), `"pq"`, `"PQ": 9, "pq"`, 1)
	if _, err := set.Read(write(t, "c.jsonl", line)); err == nil || !strings.Contains(err.Error(),
		"pq and PQ are both pq") {
		t.Error(err)
	}
	pair := `{"input": "i", "gens": ["a", "b"], "prompt": "p", "winner": "x", "models": ["x", null]}`
	if _, err := loadAuroraPair(Options{Data: write(t, "a.json", pair)}); err == nil || !strings.Contains(err.Error(),
		`models is ["x", null]: a list of strings`) {
		t.Error(err)
	}
}

// Editors with equal records have one rank, in whatever order their votes come.
func TestEqualStrengths(t *testing.T) {
	var votes []string
	won := func(a, b string, n int) {
		votes = append(votes, slices.Repeat([]string{fmt.Sprintf(`{"left": %q, "right": %q, "winner": "left"}`, a, b)},
			n)...)
	}
	for _, x := range []string{"A", "B"} { // A and B did the same
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
		c := must[*Contest](t)(ReadVotes(write(t, "v.jsonl", strings.Join(votes, "\n"))))
		return must[*Ranking](t)(c.Rank(given, 0, 1))
	}
	// scipy.stats.spearmanr and kendalltau of ranks 4.5, 4.5, 2, 1, 3 with 4, 1, 2, 1, 1
	const spearman, kendall = 0.2867696673382022, 0.2519763153394848
	for range 2 {
		r := rank()
		if math.Abs(float64(r.Human.Spearman)-spearman) > 1e-12 || math.Abs(float64(r.Human.Kendall)-kendall) > 1e-12 {
			t.Errorf("%+v, want %v and %v", r.Human, spearman, kendall)
		}
		if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, "1 of 6 editors of the given ranking") {
			t.Errorf("notes %q", notes)
		}
		slices.Reverse(votes)
	}
}

// Scores and ranks do not mix in a given ranking, and a null is a value of an editor.
func TestGivenRankings(t *testing.T) {
	for text, want := range map[string]string{
		`{"model": "A"}` + "\n" + `{"model": "B", "rank": 2}`:                           `there is no "rank"`,
		`{"model": "A", "score": 1200}` + "\n" + `{"model": "B", "rank": 2}`:            "has a score, and the file has",
		`{"model": "A", "rank": 1, "score": 1200}` + "\n" + `{"model": "B", "rank": 2}`: "has a score, and the file has",
	} {
		if _, err := ReadGiven(write(t, "h.jsonl", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	rows := `{"id": 4, "model": "A", "score": null}` + "\n" + `{"id": 4, "model": "A", "score": 7}`
	_, err := ReadScores([]string{write(t, "s.jsonl", rows)}, "score", false)
	if err == nil || !strings.Contains(err.Error(), "a second value of 4 for A") {
		t.Error(err)
	}
}
