package miniature

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestEvaluateAgainstScipy(t *testing.T) {
	raw, err := os.ReadFile("testdata/evaluate.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Rows []Scored
		Want Result
	}
	if err := json.Unmarshal(raw, &reference); err != nil {
		t.Fatal(err)
	}
	near := cmp.Comparer(func(a, b Measure) bool { return math.Abs(float64(a-b)) <= 1e-12 })
	if d := cmp.Diff(reference.Want, Evaluate(reference.Rows), near, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Errorf("(-scipy +got):\n%s", d)
	}
}

// Two tasks small enough to work out by hand.
func TestEvaluateByHand(t *testing.T) {
	r := Evaluate([]Scored{
		{"a", Grey, Perfect, 1, 1, 0.9},
		{"a", Grey, Half, 1, 0.5, 0.9}, // as high as the perfect one: wrong
		{"a", Grey, Noop, 1, 0, 0.1},
		{"b", Flip, Perfect, 2, 1, 0.8},
		{"b", Flip, Over, 2, 0.6, 0.3},
		{"b", Flip, Damaged, 2, 0.6, 0.2}, // no better and no worse than the one before
		{"b", Flip, Foreign, 2, 0, 0.5},   // better than two it should lose against
	})
	if r.Pairs != 8 || !(math.Abs(float64(r.PairAccuracy)-5./8) <= 1e-12) {
		t.Errorf("pair accuracy %v of %d, want 5 of 8", r.PairAccuracy, r.Pairs)
	}
	if d := cmp.Diff(map[Kind]float64{Half: 0, Noop: 1, Over: 1, Damaged: 1, Foreign: 1}, r.PerfectOver); d != "" {
		t.Error(d)
	}
	// Ranks of a: truth 3 2 1, scores 2.5 2.5 1: 1.5 / sqrt(2 * 1.5).
	if want := math.Sqrt(0.75); !(math.Abs(float64(r.Families[Grey])-want) <= 1e-12) {
		t.Errorf("grey: %v, want %v", r.Families[Grey], want)
	}
	if !math.IsNaN(float64(r.AliveFamilies[Grey])) { // two equal scores
		t.Errorf("alive grey: %v, want undefined", r.AliveFamilies[Grey])
	}
	if raw, err := json.Marshal(r); err != nil || !json.Valid(raw) {
		t.Errorf("as JSON: %s %v", raw, err)
	}
	if r := Evaluate(nil); !math.IsNaN(float64(r.Spearman)) || !math.IsNaN(float64(r.PairAccuracy)) || r.Outputs != 0 {
		t.Errorf("nothing: %+v", r)
	}
}

// A scorer that ignores the instruction and only recognises dead outputs has a high rank correlation; pair accuracy
// and the alive correlation expose it.
func TestMetricsSeeThroughBlindScorers(t *testing.T) {
	w := testWorld(t, true)
	var rows []Scored
	for i := range 84 {
		task, err := w.Task(generator(1, EditsTable, i), Families[i%len(Families)])
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range task.examined(generator(2, EditsTable, i)) {
			s := Scored{Group: string(rune('a' + i)), Family: task.Family, Kind: o.Kind, Truth: o.Degree}
			if o.Kind.Alive() {
				s.Score = 1
			}
			rows = append(rows, s)
		}
	}
	r := Evaluate(rows)
	if !(r.Spearman >= 0.5) || !(r.PairAccuracy <= 0.65) || !math.IsNaN(float64(r.Alive)) {
		t.Errorf("a blind scorer: %+v", r)
	}
}
