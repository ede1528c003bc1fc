package benchmarks

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEnsembles: the search over voting models finds what Python's statistics.multimode over all sets does
// (tools/oracle/ensembles.py).
func TestEnsembles(t *testing.T) {
	var f struct {
		Lines        []json.RawMessage
		Fine, Coarse map[string]EnsembleSize
	}
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile("testdata/ensembles.json")), &f); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, line := range f.Lines {
		text.Write(append(line, '\n'))
	}
	r := must[*Recognition](t)(ReadRecognition(write(t, "answers.jsonl", text.String())))
	found := must[*Ensembles](t)(r.Search([]int{1, 3, 4, 5}))
	for name, by := range map[string]struct {
		got  []EnsembleSize
		want map[string]EnsembleSize
	}{"fine": {found.Fine.Sizes, f.Fine}, "coarse": {found.Coarse.Sizes, f.Coarse}} {
		for _, got := range by.got {
			want := by.want[string(rune('0'+got.Size))]
			if got.Sets != want.Sets || got.Best != want.Best || math.Abs(got.Average-want.Average) > 1e-12 ||
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
	const line = `{"id": 1, "truth": "happy", "model": "a", "answer": "Happy "}`
	for want, text := range map[string]string{
		"a second answer of a for 1":           line + "\n" + line,
		"the truth of 1 is sad here":           line + "\n" + strings.NewReplacer("happy", "sad", `"a"`, `"b"`).Replace(line),
		"one of the seven expressions":         strings.Replace(line, "happy", "glad", 1),
		"b: there is no answer for 1":          line + "\n" + `{"id": 2, "truth": "sad", "model": "b", "answer": "sad"}`,
		`there is no "answer"`:                 `{"id": 1, "truth": "happy", "model": "a"}`,
		"a: there is no answer for 2: one for": line + "\n" + `{"id": 2, "truth": "sad", "model": "b", "answer": "sad"}`,
	} {
		if _, err := ReadRecognition(write(t, "answers.jsonl", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
