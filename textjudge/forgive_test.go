package textjudge

import "testing"

// TestForgiveAmbiguous: what looks like the value's key within the text leaves two readings, in quotes of whichever
// kinds.
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
