package textjudge

import "testing"

// TestForgiveAmbiguous: text that looks like the value's key is ambiguous, whatever kinds of quotes it is in.
func TestForgiveAmbiguous(t *testing.T) {
	g := Grammar{Object: map[string]Value{"reasoning": {Text: true}, "score": {List: []string{"a", "b"},
		Range: []float64{0, 25}}}, Forgiving: true}
	for text, want := range map[string]bool{
		`{"reasoning": "a "red" cup", "score": [3, 4]}`:                      true,
		`{"reasoning": "a "red" cup, "score": [1, 2], so", "score": [3, 4]}`: false,
		`{"reasoning": "a "red" cup, 'score' : [1, 2]", "score": [3, 4]}`:    false,
		`{"reasoning": "a "red" cup, 'score": [1, 2]", "score": [3, 4]}`:     false,
		`{"reasoning": "a "red" cup, ‘score”: [1, 2]", "score": [3, 4]}`:     false,
	} {
		if _, err := g.Read(text); err == nil != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestForgiveLeadingZeros: a number with leading zeros is not JSON, and not a fault of quotes or line breaks.
func TestForgiveLeadingZeros(t *testing.T) {
	g := Grammar{Object: map[string]Value{"reasoning": {Text: true}, "score": {List: []string{"a", "b"},
		Range: []float64{-25, 25}}}, Forgiving: true}
	for text, want := range map[string]bool{
		`{"reasoning": "x", "score": [07, 8]}`:                 false,
		`{"reasoning": "x", "score": [007.5, 8]}`:              false,
		`{"reasoning": "x", "score": [8, 00]}`:                 false,
		`{"reasoning": "x", "score": [8, -07]}`:                false,
		`{"reasoning": "a "red" cup", "score": [07, 8]}`:       false,
		`{"score": [3, 08.0], "reasoning": "a "red" cup"}`:     false,
		`{"reasoning": "a "red" cup", "score": [0, 10]}`:       true,
		`{"reasoning": "a "red" cup", "score": [0.05, 0.0]}`:   true,
		`{"reasoning": "a "red" cup", "score": [-0.5, 20.07]}`: true,
	} {
		if numbers, err := g.Read(text); err == nil != want {
			t.Errorf("%s is read as %v (%v), want it read: %t", text, numbers, err, want)
		}
	}
}
