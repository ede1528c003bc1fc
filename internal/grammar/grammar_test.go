package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func schema(t *testing.T, text string, ordered bool) *Grammar {
	t.Helper()
	g, err := FromSchema(json.RawMessage(text), ordered)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestNumbers: of all short texts, exactly the JSON numbers in the range that are not too long belong to it.
func TestNumbers(t *testing.T) {
	const letters = "0123459-."
	for _, c := range []struct {
		low, high float64
		whole     bool
	}{
		{0, 10, false}, {0, 25, true}, {-1.5, 2.25, false}, {-30, -3, true}, {0.1, 0.15, false}, {3, 3, false},
		{10, 2e15, true},
	} {
		t.Run(fmt.Sprintf("%v to %v, whole %t", c.low, c.high, c.whole), func(t *testing.T) {
			kind := "number"
			if c.whole {
				kind = "integer"
			}
			g := schema(t, fmt.Sprintf(`{"type": %q, "minimum": %v, "maximum": %v}`, kind, c.low, c.high), true)
			var each func(text string, e expr)
			shortest := 99
			each = func(text string, e expr) {
				x, err := strconv.ParseFloat(text, 64)
				want := err == nil && json.Valid([]byte(text)) && c.low <= x && x <= c.high &&
					!(c.whole && strings.Contains(text, ".")) && !(x == 0 && text[0] == '-')
				if want {
					shortest = min(shortest, len(text))
				}
				if got := e != nil && e.done(); got != want {
					t.Fatalf("%+v: %q: %t, want %t", c, text, got, want)
				}
				if len(text) < 5 {
					for i := range letters {
						var next expr
						if e != nil {
							next = e.after(letters[i])
						}
						each(text+letters[i:i+1], next)
					}
				}
			}
			each("", g.start)
			if g.Least() != shortest {
				t.Errorf("%+v: got a shortest text of %d bytes, want %d", c, g.Least(), shortest)
			}
		})
	}
}

// TestWithin: a text belongs if it is well-formed and exactly one choice occurs in it.
func TestWithin(t *testing.T) {
	for _, choices := range [][]string{{"ab", "ba", "aab"}, {"a", "ab"}, {"é", "e"}, {"ac"}} {
		t.Run(fmt.Sprintf("%q", choices), func(t *testing.T) {
			g, err := Within(choices...)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			n := 0
			for range 20000 {
				var text string
				for range r.IntN(7) {
					text += []string{"a", "b", "e", "é", "c", "\xc3", "\xa9", "日"}[r.IntN(8)]
				}
				found := 0
				for _, c := range choices {
					if strings.Contains(text, c) {
						found++
					}
				}
				want := found == 1 && strings.ToValidUTF8(text, "") == text
				if want {
					n++
				}
				if got := g.Has(text); got != want {
					t.Fatalf("%q: %q: %t, want %t", choices, text, got, want)
				}
			}
			if n < 300 {
				t.Errorf("%q: got %d texts that belong, want at least 300", choices, n)
			}
		})
	}
	if _, err := Within("a", ""); err == nil {
		t.Errorf("Within with an empty choice: got error %v, want one, as it is in every text", err)
	}
}

// TestRefused: the unsupported part of a schema is named.
func TestRefused(t *testing.T) {
	for _, c := range [][2]string{
		{`{}`, "type"},
		{`{"type": "string", "pattern": "a"}`, "pattern"},
		{`{"type": "string", "format": "date"}`, "format"},
		{`{"type": "number", "multipleOf": 2}`, "multipleOf"},
		{`{"type": "array"}`, "items"},
		{`{"type": "object", "required": ["a"]}`, `"a"`},
		{`{"type": "date"}`, `"date"`},
		{`{"oneOf": []}`, "oneOf"},
		{`{"enum": [{"a": 1}]}`, "enum"},
		{`{"type": "string", "enum": ["a", 1]}`, "1 is not of the type"},
		{`{"type": "string", "enum": [1, 2]}`, "2 is not of the type"}, // all of them are named
		{`{"enum": [{"a": 1}, [3]]}`, "[3]: only"},
		{`{"type": "string", "minLength": 1, "maxLength": 0}`, "no text"},
		{`{"type": "array", "minItems": 1, "maxItems": 0}`, "no text"},
		{`{"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 0}`, "no text"},
		{`{"$ref": "#/$defs/a"}`, "not found"},
		{`{"anyOf": []}`, "no text"},
		{`{"type": "string", "type": "string"}`, "duplicate"},
		{`{"type": "number", "minimum": 1e13}`, "digits before"},
		{`{"type": "string", "minLength": 100000}`, "minLength"},
		{`{"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}`, "refers to itself"},
		{`{"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}`, "properties.a"},
		{`{"type": "object", "additionalProperties": true, "properties": {}}`, "additionalProperties"},
		{`{"type": "object", "additionalProperties": {"type": "string"}}`, "additionalProperties"},
		{
			`{"type": "object", "properties": {"a": {"type": "number", "minimum": 2, "maximum": 1}}, "required": ["a"]}`,
			"between 2 and 1",
		},
	} {
		t.Run(c[1], func(t *testing.T) {
			if _, err := FromSchema(json.RawMessage(c[0]), true); err == nil || !strings.Contains(err.Error(), c[1]) {
				t.Errorf("%s: %v, want %q", c[0], err, c[1])
			}
		})
	}
}

// large is a vocabulary as large as Qwen's: every byte, and pieces of words, numbers, JSON and characters.
func large(t testing.TB, n int) *Vocabulary {
	r := rand.New(rand.NewPCG(5, 6))
	seen := map[string]bool{}
	var tokens [][]byte
	add := func(s string) {
		if !seen[s] && len(tokens) < n {
			seen[s] = true
			tokens = append(tokens, []byte(s))
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	parts := strings.Split(
		`{"|"}|": |", "|[|]|,| |  |\n|\"|\\|0|1|25|.5|99|é|日本|\u00|true|null|e|th|ing|er|score|A|x`,
		"|",
	)
	for len(tokens) < n {
		var s string
		for range 1 + r.IntN(4) {
			if r.IntN(8) == 0 {
				s += parts[r.IntN(len(parts))]
			} else {
				s += string(rune('a'+r.IntN(26))) + string(rune('a'+r.IntN(26)))
			}
		}
		if r.IntN(3) == 0 {
			s = " " + s
		}
		if r.IntN(20) == 0 {
			s = s[:1+r.IntN(len(s))] // within a character
		}
		add(s)
	}
	v, err := NewVocabulary(append(tokens, nil, nil)) // special tokens
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const judged = `{"type": "object", "properties": {
	"score": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 25}, "minItems": 2, "maxItems": 2},
	"reasoning": {"type": "string"}}, "required": ["score", "reasoning"]}`

// TestLargeVocabulary: over 150,000 tokens the masks agree with the language about every token. An answer of any
// length can be completed, and a completed answer belongs to the language.
func TestLargeVocabulary(t *testing.T) {
	v := large(t, 150000)
	g := schema(t, judged, false)
	m := NewMasks(g, v, false)
	r := rand.New(rand.NewPCG(7, 8))
	for _, most := range []int{g.Least() + 1, g.Least() + 4, 50} {
		t.Run(fmt.Sprintf("%d tokens", most), func(t *testing.T) {
			w, text := m.Begin(), ""
			for n := 0; ; n++ {
				mask, err := w.Mask(most - n)
				if err != nil {
					t.Fatal(err)
				}
				if w.Ends(int64(v.Size()-1)) != g.Has(text) {
					t.Fatalf("%q: got complete %t, want %t", text, w.Ends(int64(v.Size()-1)), g.Has(text))
				}
				if n == most-1 {
					if !g.Has(text) {
						t.Fatalf("after %d tokens of %d: got %q, want a text of the language", n, most, text)
					}
					break
				}
				var ids []int
				for id := range v.Size() {
					if mask.Has(id) {
						ids = append(ids, id)
					}
				}
				if len(ids) == 0 {
					break
				}
				for range 100 {
					id := r.IntN(v.Size())
					e := w.at.expr
					for _, b := range v.bytes[id] {
						if e = e.after(b); e == nil {
							break
						}
					}
					if want := e != nil && len(v.bytes[id]) > 0 && e.least()+2 <= most-n; mask.Has(id) != want {
						t.Fatalf("behind %q with %d left: %q: got allowed %t, want %t", text, most-n, v.bytes[id], mask.Has(id), want)
					}
				}
				id := ids[r.IntN(len(ids))]
				if err := w.Take(int64(id)); err != nil {
					t.Fatal(err)
				}
				text += string(v.bytes[id])
			}
			if most < 100 && !g.Has(text) {
				t.Errorf("at most %d tokens: got %q, want a text of the language", most, text)
			}
		})
	}
	if _, err := NewVocabulary(
		[][]byte{[]byte("a"), []byte("b")},
	); err == nil ||
		!strings.Contains(err.Error(), "single byte") {
		t.Errorf("a vocabulary without all bytes: got error %v, want one with %q", err, "single byte")
	}
}

// BenchmarkFirstMask computes the mask of a state over 150,000 tokens: inside a string, where nearly all are allowed.
func BenchmarkFirstMask(b *testing.B) {
	v := large(b, 150000)
	g, err := FromSchema([]byte(`{"type": "string"}`), true)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w := NewMasks(g, v, false).Begin()
		w.Take('"')
		w.Mask(1000)
	}
}

// BenchmarkNextMask applies a cached mask.
func BenchmarkNextMask(b *testing.B) {
	v := large(b, 150000)
	g, err := FromSchema([]byte(judged), true)
	if err != nil {
		b.Fatal(err)
	}
	w, scores := NewMasks(g, v, false).Begin(), make([]float32, v.Size())
	for b.Loop() {
		m, _ := w.Mask(1000)
		m.Forbid(scores)
	}
}
