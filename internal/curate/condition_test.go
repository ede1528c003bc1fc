package curate

import (
	"math"
	"strings"
	"testing"

	"assay/data"
)

func TestPresets(t *testing.T) {
	for _, c := range []struct {
		preset      string
		instruction string
		score       float64
		want        string
	}{
		{"adiee", "Make the sky red", 0, "Make the sky red. The image quality is one out of five."},
		{"adiee", "Make the sky red.", 2, "Make the sky red. The image quality is one out of five."},
		{"adiee", "Make the sky red. ", 2.01, "Make the sky red. The image quality is two out of five."},
		{"adiee", "What about a hat?", 6, "What about a hat?. The image quality is three out of five."},
		{"adiee", "x", 8, "x. The image quality is four out of five."},
		{"adiee", "x", 11, "x. The image quality is five out of five."},
		{"adiee", "x", -1, "x. The image quality is one out of five."},
		{"hive", "make it {word}", 8.5, "make it {word}, image quality is five out of five"},
		{"paper", "make it red.", 10, "make it red. The image quality is 5 out of five"},
		{"paper", "make it red.", 4, "make it red. The image quality is 3 out of five"},
	} {
		if got := Presets[c.preset].Text(c.instruction, c.score); got != c.want {
			t.Errorf("%s, %g: %q, want %q", c.preset, c.score, got, c.want)
		}
	}
	if got := Template("[{level}/5 {score}] {instruction}").Text("go", 3.14); got != "[2/5 3.1] go" {
		t.Error(got)
	}
	twice := Template("{instruction}. {word}: {instruction}. {score}").Text("go.", 13.3)
	if want := "go. five: go. 10.0"; twice != want {
		t.Errorf("%q, want %q", twice, want)
	}
	for _, bad := range []Template{"{word}", "{instruction}", "{instruction} {words} {word}", "{instruction} {word} {}"} {
		if bad.Check() == nil {
			t.Errorf("template %q was accepted", bad)
		}
	}
}

// Sampled by weight, all levels that occur are equally frequent.
func TestBalance(t *testing.T) {
	examples := []RewardLabel{{Level: 1}, {Level: 1}, {Level: 1}, {Level: 5}, {Level: 4}, {Level: 4}}
	balance(examples)
	of, sum := map[int]float64{}, 0.0
	for _, e := range examples {
		of[e.Level] += e.Weight
		sum += e.Weight
	}
	if !(math.Abs(sum-6) <= 1e-12) || of[1] != of[5] || of[1] != of[4] {
		t.Errorf("%v", of)
	}
}

func TestLooks(t *testing.T) {
	grey, board := data.NewPicture(20, 20), data.NewPicture(20, 20)
	for i := range grey.Pix {
		grey.Pix[i] = 51
		board.Pix[i] = byte(255 * ((i/3%20 + i/60) % 2))
	}
	for i, want := range []float64{0.5, 0.5, 0.5, 0, 0, 1, 1} {
		if got := measureEdit(grey, board)[i]; !(math.Abs(got.value-want) <= 1e-9) {
			t.Errorf("chessboard: got %s %g, want %g", got.name, got.value, want)
		}
	}
	for i, want := range []float64{0, 0.2, 0, 0, 0, 0, 0} {
		if got := measureEdit(grey, grey)[i]; !(math.Abs(got.value-want) <= 1e-7) {
			t.Errorf("grey: got %s %g, want %g", got.name, got.value, want)
		}
	}
	score := compare("score", []float64{1, 2, 3}, []float64{4, 5, 6}, []float64{4, 5, 6})
	facts := []FactDrift{
		compare("clip_i", []float64{0.9, 0.8, 0.85}, []float64{0.6, 0.5, 0.4}, []float64{4, 5, 6}),
		compare("grain", []float64{1, 2, 3}, []float64{1, 2, 3}, []float64{4, 5, 6}),
	}
	if w := warnings(score, facts); len(w) != 1 || !strings.Contains(w[0], "CLIP-I") ||
		!(math.Abs(*facts[0].Correlation+1) <= 1e-9) {
		t.Errorf("%v %+v", w, facts)
	}
	still := compare("grain", []float64{0.1, 0.1, 0.1}, []float64{0.3, 0.3, 0.3}, []float64{4, 5, 6})
	if w := warnings(score, []FactDrift{still}); still.Shift != nil || still.Correlation != nil || len(w) != 1 {
		t.Errorf("a statistic that was constant has no deviation, but moved: %+v, %v", still, w)
	}
	still = compare("grain", []float64{0.1, 0.1, 0.1}, []float64{0.1, 0.1}, []float64{4, 5})
	if w := warnings(score, []FactDrift{still}); len(w) != 0 {
		t.Errorf("a statistic that stays constant did not move: %+v, %v", still, w)
	}
}
