package benchmarks

import (
	"fmt"
	"strings"
	"testing"
)

// A file that answers some pairs and scores others is refused, since either rule would take half of it for missing.
func TestAnswersAndScoresMixed(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	line := func(i int, answer, scores bool) string {
		text := fmt.Sprintf(`{"id": %d`, i)
		if answer {
			text += `, "answer": "A>B"`
		}
		if scores {
			text += `, "left": 7, "right": 3`
		}
		return text + "}\n"
	}
	var mixed, both strings.Builder
	for i := range 40 {
		mixed.WriteString(line(i, i < 20, i >= 20))
		both.WriteString(line(i, true, true))
	}
	_, err := s.Read(write(t, "mixed.jsonl", mixed.String()))
	for _, want := range []string{"mixed.jsonl:1: the pair 0 has an answer and no scores", "and 20 more problems"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if r := must[Predictions](t)(s.Read(write(t, "both.jsonl", both.String()))).Result(); r.N != 40 || len(r.Numbers) != 3 {
		t.Errorf("%d pairs, numbers %v", r.N, r.Numbers)
	}
}

// No answer is missing, an unknown one is told; the official rule counts both as wrong.
func TestAnswersThatAreNone(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	var lines strings.Builder
	for i := range 40 {
		fmt.Fprintf(&lines, `{"id": %d, "answer": %s}`+"\n", i, []string{"null", `"perhaps"`, `"A>B"`, `"B>A"`}[min(i, 2+i%2)])
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
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, `1 answers are unreadable and count as wrong: "noidea"`) {
		t.Errorf("notes %q", notes)
	}
}
