package mvei

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
	"assay/internal/stats"
)

func TestMVEI(t *testing.T) {
	const meta = `[{"image_id": "a.jpg", "ov_emotion": ["joy"], "statement_list": [
		{"statement": "s0", "label": "correct", "class": "scene context", "subclass": "none", "predict": "Correct."},
		{"statement": "s1", "label": "incorrect", "class": "scene context", "subclass": "none",
		 "predict": "This is INCORRECT, not correct"},
		{"statement": "s2", "label": "incorrect", "class": "sentiment polarity", "subclass": "none",
			"predict": "maybe"},
		{"statement": "s3", "label": "correct", "class": "sentiment polarity", "subclass": "none",
		 "predict": "<think>it could be incorrect</think><answer>Correct</answer>"}]}]`
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: benchtest.Write(t, "MVEI_metadata.json", meta)})
	own, ok := s.(protocol.WithPredictions).Predictions()
	if !ok {
		t.Fatal("the answers of the data were not found")
	}
	got := benchtest.ResultOf(t, own)
	for what, want := range map[string]float64{"n": 4, "accuracy": 0.5, "positive_ratio": 0.25, "give_up_ratio": 0.25} {
		benchtest.Near(t, what, got[what], want, 0)
	}
	benchtest.Near(t, "class", benchtest.At(got, "per_class", "scene context", "accuracy"), 1, 0)
	benchtest.Near(t, "answer_tag", benchtest.At(got, "rules", "answer_tag", "accuracy"), 0.75, 0)
	answers := `{"id": "a.jpg#0", "answer": "correct"}` + "\n" + `{"image_id": "a.jpg", "statement": "s1", "answer": ` +
		`"correct"}` + "\n" + `{"id": 2, "answer": ""}`
	got = benchtest.ReadSet(t, s, benchtest.Write(t, "p.jsonl", answers))
	benchtest.Near(t, "accuracy: no answer is wrong", got["accuracy"], 1.0/4, 1e-12)
	benchtest.Near(t, "give-up ratio", got["give_up_ratio"], 2.0/4, 1e-12)
	if m := fmt.Sprint(got["missing"]); m != "[map[id:a.jpg#3]]" {
		t.Errorf("missing %s", m)
	}
	// the authors' own file, written and read back
	dir := t.TempDir()
	if err := own.(protocol.Writer).WriteAuthors(dir); err != nil {
		t.Fatal(err)
	}
	again, ok := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: dir}).(protocol.WithPredictions).Predictions()
	if !ok || cmp.Diff(own.Result().Numbers, again.Result().Numbers) != "" {
		t.Error("MVEI_predict.json reads back to other numbers")
	}
	for answer, want := range map[string]string{"B": negative, "answer: a": positive,
		"<answer> incorrect </answer> correct": negative, "x</think> A": positive, "": abstain, "none": abstain} {
		if read := parseTagged(answer); read != want {
			t.Errorf("%q is read as %s, want %s", answer, read, want)
		}
	}
	if _, err := s.Read(benchtest.Write(t, "p.jsonl", `{"id": "b.jpg#0", "answer": "x"}`)); err == nil ||
		!strings.Contains(err.Error(), `p.jsonl:1: "b.jpg#0" is not a statement`) {
		t.Error(err)
	}
}

// A line may name its item in several ways. A contradiction is refused: it would score another item.
func TestContradictingNames(t *testing.T) {
	meta := `[{"image_id": "p.png", "statement_list": [{"statement": "a", "label": "correct", "class": "c"},
		{"statement": "b", "label": "incorrect", "class": "c"}]},
		{"image_id": "q.png", "statement_list": [{"statement": "a", "label": "correct", "class": "c"},
		{"statement": "a", "label": "correct", "class": "c"}]}]`
	set := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: benchtest.Write(t, "MVEI_metadata.json",
		meta)})
	for _, tt := range []struct{ row, want string }{ // the item that has a prediction, or what the error says
		// The user's own row numbers do not matter next to the names.
		{`{"id": 0, "image_id": "p.png", "statement": "b", "answer": "Correct"}`, "p.png#1"},
		{`{"id": 3, "answer": "Correct"}`, "q.png#1"},
		{`{"id": "p.png#1", "statement": "b", "answer": "Correct"}`, "p.png#1"},
		{`{"image_id": "p.png", "index": 1, "answer": "Correct"}`, "p.png#1"},
		{`{"id": "p.png#0", "statement": "b", "answer": "Correct"}`, "p.png#0 is not the statement"},
		{`{"id": "p.png#0", "image_id": "q.png", "answer": "Correct"}`, "p.png#0 is not the statement"},
		{`{"id": 3, "answer": "Correct", "predict": "Incorrect"}`, "answer and predict mean the same here"},
		{`{"id": 9, "answer": "Correct"}`, `"9" is not a statement`},
		{`{"statement": "b", "answer": "Correct"}`, `no "id"`},
		{`{"image_id": "q.png", "statement_list": [{"statement": "a", "predict": "x"}, ` +
			`{"statement": "a", "predict": "y"}]}`, "q.png#0 q.png#1"},
	} {
		t.Run(tt.row, func(t *testing.T) {
			read, err := set.Read(benchtest.Write(t, "p.jsonl", tt.row))
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Read(%s): %v, want %q", tt.row, err, tt.want)
				}
				return
			}
			var has []string
			p := read.(*statementsPredictions)
			for i, k := range p.keys {
				if p.answered(i) {
					has = append(has, k.ID)
				}
			}
			if got := strings.Join(has, " "); got != tt.want {
				t.Errorf("Read(%s) has %q, want %q", tt.row, got, tt.want)
			}
		})
	}
}

// TestIntervals: four statements about one picture with the same answer add nothing to what is known of a judge, so its
// accuracy and its interval stay. Resampled one by one, four times as many would make it half as wide.
func TestIntervals(t *testing.T) {
	measured := func(copies int) (value float64, bounds stats.Interval) {
		var entries, lines []string
		for picture := range 40 {
			var list []string
			for k := range copies {
				list = append(list, fmt.Sprintf(`{"statement": "s%d", "label": "correct", "class": "c"}`, k))
				lines = append(lines, fmt.Sprintf(`{"id": "%d.png#%d", "answer": "%s"}`, picture, k,
					[]string{"Incorrect", "Correct", "Correct"}[picture%3]))
			}
			entries = append(entries, fmt.Sprintf(`{"image_id": "%d.png", "statement_list": [%s]}`, picture,
				strings.Join(list, ", ")))
		}
		s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: benchtest.Write(t, "MVEI_metadata.json",
			"["+strings.Join(entries, ",")+"]")})
		r := &report.Report{Benchmark: Benchmark}
		file := benchtest.Write(t, "p.jsonl", strings.Join(lines, "\n"))
		r.Add("judge", benchtest.Must[protocol.Predictions](t)(s.Read(file)))
		r.Measure(s, 200, 1)
		summary := r.Summary()
		cell := summary.Rows[0].Cells[slices.Index(summary.Columns, "keyword")]
		return cell.Value, *cell.Bounds
	}
	one, want := measured(1)
	four, got := measured(4)
	if math.Abs(four-one) > 1e-9 || math.Abs(got.Low-want.Low) > 1e-9 || math.Abs(got.High-want.High) > 1e-9 {
		t.Errorf("four times the same answers: got %v [%v, %v], want %v [%v, %v] as once", four, got.Low, got.High, one,
			want.Low, want.High)
	}
}
