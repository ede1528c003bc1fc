package benchmarks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
