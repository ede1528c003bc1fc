package grammar

import (
	"math"
	"slices"
	"testing"
	"unicode/utf8"
)

// TestForbid: words of 64 tokens are passed over only if all of them may come.
func TestForbid(t *testing.T) {
	const all = ^uint64(0)
	mask := &Mask{bits: []uint64{all, all &^ 1, all &^ 2, 5}}
	scores := make([]float32, 64*3+10) // the last word is longer than the vocabulary
	for i := range scores {
		scores[i] = float32(i)
	}
	mask.Forbid(scores)
	for id, got := range scores {
		want := float32(id)
		if id == 64 || id == 129 || id > 192 && id != 194 {
			want = float32(math.Inf(-1))
		}
		if got != want || mask.Has(id) != (want == float32(id)) {
			t.Errorf("token %d: got %g, allowed %v, want %g", id, got, mask.Has(id), want)
		}
	}
}

// walk begins an answer that must be one text. The vocabulary is all single bytes that a text may contain, and tokens.
func walk(t *testing.T, text string, tokens ...string) (*Walk, *Vocabulary) {
	t.Helper()
	var all [][]byte
	for b := range 256 {
		if b == '\n' || b >= ' ' && b < 0xC0 || b >= 0xC2 && b <= 0xF4 {
			all = append(all, []byte{byte(b)})
		}
	}
	for _, token := range tokens {
		all = append(all, []byte(token))
	}
	v, err := NewVocabulary(all)
	if err != nil {
		t.Fatal(err)
	}
	g, err := grammarOf(literal(text))
	if err != nil {
		t.Fatal(err)
	}
	return NewMasks(g, v, false).Begin(), v
}

// TestFirstNode: the tokens that begin with the lowest byte of the vocabulary are in a mask, too.
func TestFirstNode(t *testing.T) {
	w, v := walk(t, "\nab", "\na", "\nb", "ab")
	mask, err := w.Mask(10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for id := range v.Size() {
		if mask.Has(id) {
			got = append(got, string(v.bytes[id]))
		}
	}
	if want := []string{"\n", "\na"}; !slices.Equal(got, want) {
		t.Errorf("tokens of %q: got %q, want %q", "\nab", got, want)
	}
}

// TestNoToken: a byte that only begins a token is no token, and no token fits into no room.
func TestNoToken(t *testing.T) {
	w, _ := walk(t, "\x01z", "\x01y")
	if _, err := w.Mask(10); err == nil {
		t.Error("no token begins the text: no error")
	}
	w, _ = walk(t, "ab")
	if _, err := w.Mask(0); err == nil {
		t.Error("no room: no error")
	}
	if _, err := w.Mask(3); err != nil { // a, b and the end
		t.Errorf("room for the text: got %v", err)
	}
}

// TestSingleBytes: a vocabulary needs every byte that occurs in the UTF-8 of a character that is no control character,
// and the line feed; it needs no other.
func TestSingleBytes(t *testing.T) {
	used := map[byte]bool{'\n': true}
	for r := ' '; r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) {
			for _, b := range utf8.AppendRune(nil, r) {
				used[b] = true
			}
		}
	}
	for missing := range 256 {
		var tokens [][]byte
		for b := range 256 {
			if b != missing {
				tokens = append(tokens, []byte{byte(b)})
			}
		}
		if _, err := NewVocabulary(tokens); (err != nil) != used[byte(missing)] {
			t.Errorf("without 0x%02X: got error %v, want one: %v", missing, err, used[byte(missing)])
		}
	}
}

// TestWellFormed: before the word that must occur, every well-formed text of up to four bytes may come, and no other.
func TestWellFormed(t *testing.T) {
	g, err := Within("y")
	if err != nil {
		t.Fatal(err)
	}
	bounds := []byte{0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
		0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF}
	var try func(text []byte)
	try = func(text []byte) {
		if got, want := g.Has(string(text)+"y"), utf8.Valid(text); got != want {
			t.Errorf("% X: got %v, want %v", text, got, want)
		}
		for _, b := range bounds {
			if len(text) < 4 {
				try(append(text, b))
			}
		}
	}
	try(nil)
}
