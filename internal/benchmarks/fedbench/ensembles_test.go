package fedbench

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/internal/benchmarks/benchtest"
)

// TestEnsembles: the search over voting models finds what Python's statistics.multimode over all sets does
// (tools/oracle/ensembles.py).
func TestEnsembles(t *testing.T) {
	var f struct {
		Lines        []json.RawMessage
		Fine, Coarse map[string]ensembleSize
	}
	if err := json.Unmarshal(benchtest.Must[[]byte](t)(os.ReadFile("../testdata/ensembles.json")), &f); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, line := range f.Lines {
		text.Write(append(line, '\n'))
	}
	r := benchtest.Must[*recognition](t)(ReadRecognition(benchtest.Write(t, "answers.jsonl", text.String())))
	found := benchtest.Must[*ensembles](t)(r.Search([]int{1, 3, 4, 5}))
	for name, by := range map[string]struct {
		got  []ensembleSize
		want map[string]ensembleSize
	}{"fine": {found.Fine.Sizes, f.Fine}, "coarse": {found.Coarse.Sizes, f.Coarse}} {
		for _, got := range by.got {
			want := by.want[string(rune('0'+got.Size))]
			if got.Sets != want.Sets || got.Best != want.Best || !(math.Abs(got.Average-want.Average) <= 1e-12) ||
				!slices.Equal(got.Members, want.Members) || got.Equal != want.Equal {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
	if best := found.Fine.Models[0]; best.Accuracy != found.Fine.Sizes[0].Best || !(float64(best.Low) < best.Accuracy) {
		t.Errorf("the best model %+v, of sets of one %+v", best, found.Fine.Sizes[0])
	}
	if len(found.Tables()) != 4 {
		t.Errorf("%d tables", len(found.Tables()))
	}
	if _, err := r.Search([]int{8}); err == nil {
		t.Error("eight of seven models voted")
	}
	if _, err := r.Search([]int{3, 1, 3}); err == nil || !strings.Contains(err.Error(), "of 3 are requested twice") {
		t.Errorf("a duplicate size: %v", err)
	}
	const line = `{"id": 1, "truth": "happy", "model": "a", "answer": "Happy "}`
	for want, text := range map[string]string{
		"a second answer of a for 1": line + "\n" + line,
		"the truth of 1 is sad here": line + "\n" +
			strings.NewReplacer("happy", "sad", `"a"`, `"b"`).Replace(line),
		"one of the seven expressions": strings.Replace(line, "happy", "glad", 1),
		"b: there is no answer for 1": line + "\n" +
			`{"id": 2, "truth": "sad", "model": "b", "answer": "sad"}`,
		`model is empty`:           strings.Replace(line, `"a"`, `" "`, 1),
		"a: none of its 1 answers": strings.Replace(line, "Happy ", "happiness", 1),
		`there is no "answer"`:     `{"id": 1, "truth": "happy", "model": "a"}`,
		"a: there is no answer for 2: want one for": line + "\n" +
			`{"id": 2, "truth": "sad", "model": "b", "answer": "sad"}`,
	} {
		if _, err := ReadRecognition(benchtest.Write(t, "answers.jsonl", text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestUnreadable: an answer outside of the expressions is counted, is wrong, and is not a vote, however many models
// give it.
func TestUnreadable(t *testing.T) {
	var text strings.Builder
	for id, said := range []string{
		"happy,happiness,happiness", "happy,joy,glad", "happy,sad,glad", "glad,glad,glad", "happy,happy,happy",
	} {
		for m, answer := range strings.Split(said, ",") {
			text.WriteString(string(benchtest.Must[[]byte](t)(json.Marshal(map[string]any{
				"id": id, "truth": "happy", "model": "abc"[m : m+1], "answer": answer,
			}))) + "\n")
		}
	}
	r := benchtest.Must[*recognition](t)(ReadRecognition(benchtest.Write(t, "answers.jsonl", text.String())))
	found := benchtest.Must[*ensembles](t)(r.Search([]int{3}))
	for name, by := range map[string]*ensemblesByLabels{"fine": found.Fine, "coarse": found.Coarse} {
		if got := by.Sizes[0].Best; got != 3./5 { // a tie on the third picture, no vote on the fourth
			t.Errorf("%s: %v, want 0.6", name, got)
		}
		unreadable := map[string]int{}
		for _, m := range by.Models {
			unreadable[m.Name] = m.Unreadable
		}
		if unreadable["a"] != 1 || unreadable["b"] != 3 || unreadable["c"] != 4 {
			t.Errorf("%s: unreadable: %v", name, unreadable)
		}
	}
	notes := strings.Join(found.Tables()[0].Notes, "; ")
	if want := `b: 3 of 5 answers are none of the seven expressions, such as "happiness"`; !strings.Contains(notes,
		want) {
		t.Errorf("notes: %s, want %s", notes, want)
	}
}
