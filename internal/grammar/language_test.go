package grammar

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLeastIsTheShortest: the shortest completion of a text is one byte longer than the shortest completion after its
// next byte, and 0 exactly where the text is complete.
func TestLeastIsTheShortest(t *testing.T) {
	within := func(choices ...string) *Grammar {
		g, err := Within(choices...)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	grammars := map[string]*Grammar{
		"within": within("ab", "ba", "aab"), "within é": within("é", "日e"), "within one": within("aaa"),
	}
	for _, text := range []string{
		`{"type": "number", "minimum": -1.5, "maximum": 20.25}`,
		`{"type": "integer", "minimum": 95, "maximum": 1205}`,
		`{"type": "number", "minimum": 0.0125, "maximum": 0.0126}`,
		`{"type": "number", "minimum": 99.5, "maximum": 99.75}`,
		`{"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4}`,
		`{"type": "array", "items": {"type": "null"}}`,
		`{"type": "string", "minLength": 2, "maxLength": 3}`,
		`{"enum": ["a", "ab", 1.5, true, null]}`,
		`{"type": "object", "properties": {}}`,
		`{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 22}}}`,
		`{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 22}, "c": {"const": 3}}, "required": ["b"]}`,
		`{"type": "object", "properties": {"a": {"const": 1}, "b": {"type": "array", "items": {"const": 2}}},
			"required": ["a", "b"]}`,
	} {
		grammars[text] = schema(t, text, true)
		grammars["any order: "+text] = schema(t, text, false)
	}
	for name, g := range grammars {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			for range 15 {
				e, text := g.start, ""
				for range 40 {
					var next []byte
					least := 1 << 40
					for b := range 256 {
						if after := e.after(byte(b)); after != nil {
							next = append(next, byte(b))
							least = min(least, 1+after.least())
						}
					}
					if e.done() {
						least = 0
					}
					if got := e.least(); got != least {
						t.Fatalf("behind %q: least got %d, want %d", text, got, least)
					}
					if len(next) == 0 {
						break
					}
					b := next[r.IntN(len(next))]
					e, text = e.after(b), text+string([]byte{b})
				}
			}
		})
	}
}

// TestHas: texts at the edge of a schema's language.
func TestHas(t *testing.T) {
	for text, c := range map[string]struct{ yes, no []string }{
		`{"type": "number", "minimum": 0.0000014, "maximum": 0.0000026}`: {
			[]string{"0.000002"}, []string{"0.000001", "0.000003", "0.0000020", "0"},
		},
		`{"type": "number", "minimum": -0.0000026, "maximum": -0.0000014}`: {
			[]string{"-0.000002"}, []string{"-0.000001", "-0.000003", "0.000002"},
		},
		`{"type": "integer", "minimum": 0.5, "maximum": 2.5}`: {[]string{"1", "2"}, []string{"0", "3", "1.0", "01"}},
		`{"type": "integer", "minimum": -2.5, "maximum": -0.5}`: {
			[]string{"-1", "-2"}, []string{"-0", "-3", "0", "1"},
		},
		`{"type": "number"}`: {
			[]string{"0", "999999999999.999999", "-999999999999.999999", "0.000001", "100000000000", "0.10"},
			[]string{"1000000000000", "-1000000000000", "0.0000001", "1e3", "-0", "1.", ".5", "00", "+1", ""},
		},
		`{"type": "number", "minimum": -1e15, "maximum": 1e15}`: {
			[]string{"999999999999.999999", "-999999999999.999999"}, []string{"1000000000000"},
		},
		`{"type": "integer", "minimum": 999999999999}`: {[]string{"999999999999"}, []string{"999999999998"}},
		`{"const": "<a>&\u00e9\n"}`: {
			[]string{`"<a>&é\n"`}, []string{`"\u003ca>&é\n"`, `"<a>&\u00e9\n"`, `"<a>&é` + "\n" + `"`},
		},
		`{"const": null}`:                              {[]string{"null"}, []string{"", "nul", "0"}},
		`{"enum": [1, 1.0, "1", false]}`:               {[]string{"1", "1.0", `"1"`, "false"}, []string{"true", "1.00"}},
		`{"type": "integer", "enum": [1, 2]}`:          {[]string{"1", "2"}, []string{"3"}},
		`{"type": ["string", "null"], "maxLength": 0}`: {[]string{`""`, "null"}, []string{`"a"`, "0"}},
		`{"type": ["boolean", "integer"], "maximum": 1, "minimum": 0}`: {
			[]string{"true", "false", "0", "1"}, []string{"2", "null"},
		},
		`{"type": "array", "items": {"enum": []}}`: {[]string{"[]", "[ \n\t]"}, []string{"[1]", "[,]"}},
		`{"type": "array", "maxItems": 0}`:         {[]string{"[]"}, []string{"[1]"}},
		`{"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3}`: {
			[]string{"[1,1]", "[ 1 , 1 , 1 ]"}, []string{"[]", "[1]", "[1,1,1,1]", "[1,1,]", "[1 1]"},
		},
		`{"type": "array", "items": {"const": 1}, "maxItems": 1}`: {[]string{"[]", "[1]"}, []string{"[1,1]"}},
		`{"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 1}`: {
			[]string{"[1]"}, []string{"[]", "[1,1]"},
		},
		`{"type": "array", "items": {"const": 1}, "minItems": 1}`: {[]string{"[1]", "[1,1,1,1,1]"}, []string{"[]"}},
		`{"type": "string"}`: {
			[]string{`""`, "\"" + strings.Repeat("a", 300) + `"`, "\"\x7f\"", `"\ud83d\ude00"`, `"é日😀"`},
			[]string{"\"\x1f\"", `"\x"`, `"\ud83d"`, `"\ude00"`, `"\ud83da"`, "\"\xc3\"", "\"\xed\xa0\x80\"",
				"\"\xf5\x80\x80\x80\""},
		},
		`{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["b"]}`: {
			[]string{`{"b":2}`, `{"a":1,"b":2}`, "{" + strings.Repeat(" ", 12) + `"b":2}`},
			[]string{`{}`, `{"a":1}`, `{"b":2,"a":1}`, `{"b":2,"b":2}`, `{"b":2,}`, "{" + strings.Repeat(" ", 13) + `"b":2}`},
		},
		`{"type": "object", "properties": {"a": {"const": 1}, "b": {"enum": []}}}`: {
			[]string{`{}`, `{"a":1}`}, []string{`{"b":1}`},
		},
		`{"type": "object", "properties": {"a": {"enum": []}, "b": {"const": 1}}}`: {
			[]string{`{}`, `{"b":1}`}, []string{`{"a":1}`},
		},
		`{"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"const": 5}}}`: {
			[]string{"5"}, []string{"6"},
		},
		`{"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"const": 7}], "$defs": {"a": {"const": 6}}}`: {
			[]string{"6", "7"}, []string{"5"},
		},
	} {
		t.Run(text, func(t *testing.T) {
			g := schema(t, text, true)
			for _, s := range c.yes {
				if !g.Has(s) {
					t.Errorf("Has(%q): got false, want true", s)
				}
			}
			for _, s := range c.no {
				if g.Has(s) {
					t.Errorf("Has(%q): got true, want false", s)
				}
			}
		})
	}
	g := schema(t, `{"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
		"required": ["a"]}`, false)
	for text, want := range map[string]bool{`{"b":2,"a":1}`: true, `{"c":3,"b":2,"a":1}`: true, `{"a":1}`: true,
		`{"c":3,"b":2}`: false, `{"a":1,"a":1}`: false, `{"a":1 , "c" : 3}`: true} {
		if got := g.Has(text); got != want {
			t.Errorf("in any order: Has(%q): got %t, want %t", text, got, want)
		}
	}
}

// TestRefusedAtTheEdge: the largest schema that is accepted, and the smallest that is refused.
func TestRefusedAtTheEdge(t *testing.T) {
	options := func(n int) string { return `{"anyOf": [` + listed(n, func(int) string { return aText }) + `]}` }
	numbers := func(n int) string { return listed(n, func(i int) string { return fmt.Sprint(i) }) }
	for _, c := range []struct{ name, yes, no, want string }{
		{"depth", nested(63, aText, aList), nested(64, aText, aList), "more than 64 nested"},
		{"depth of references", `{"$ref": "#/$defs/a", "$defs": {"a": ` + nested(62, aText, aList) + `}}`,
			`{"$ref": "#/$defs/a", "$defs": {"a": ` + nested(63, aText, aList) + `}}`, "more than 64 nested"},
		{"depth of properties", nested(63, aText, `{"type": "object", "properties": {"a": %s}}`),
			nested(64, aText, `{"type": "object", "properties": {"a": %s}}`), "more than 64 nested"},
		{"depth of alternatives", nested(63, aText, `{"anyOf": [%s]}`), nested(64, aText, `{"anyOf": [%s]}`),
			"more than 64 nested"},
		{"values", `{"enum": [` + numbers(4999) + `]}`, `{"enum": [` + numbers(5000) + `]}`, "more than 5000"},
		{"types", `{"type": ["null"], "enum": [` + strings.Repeat("null,", 4997) + `null]}`,
			`{"type": ["null"], "enum": [` + strings.Repeat("null,", 4998) + `null]}`, "more than 5000"},
		{"alternatives", options(64), options(65), "65 alternatives"},
		{"alternatives of items", `{"type": "array", "items": ` + options(64) + `}`,
			`{"anyOf": [{"type": "array", "items": ` + options(64) + `}, ` + aText + `]}`, "65 alternatives"},
		{"alternatives of properties",
			`{"type": "object", "properties": {"a": ` + options(64) + `, "b": ` + options(64) + `}}`,
			`{"anyOf": [{"type": "object", "properties": {"a": ` + options(64) + `, "b": ` + aText + `}}, ` + aText + `]}`,
			"65 alternatives"},
		{"bytes", `{"const":"` + strings.Repeat("a", 128<<10-12) + `"}`,
			`{"const":"` + strings.Repeat("a", 128<<10-11) + `"}`,
			"at most 131072"},
		{"shortest text", `{"type": "array", "minItems": 65536, "items": {"const": "` + strings.Repeat("a", 254) + `"}}`,
			`{"type": "array", "minItems": 65536, "items": {"const": "` + strings.Repeat("a", 255) + `"}}`,
			"more than 16777216 bytes"},
		{"repeats", `{"type": "string", "minLength": 65536}`, `{"type": "string", "minLength": 65537}`,
			"65537: want 0 to 65536"},
		{"largest repeats", `{"type": "string", "maxLength": 65536}`, `{"type": "string", "maxLength": 65537}`,
			"65537: want"},
		{"negative repeats", `{"type": "string", "minLength": 0}`, `{"type": "string", "minLength": -1}`,
			"minLength: -1: want 0"},
		{"negative largest", `{"type": "string", "maxLength": 0}`, `{"type": "string", "maxLength": -1}`,
			"maxLength: -1: want 0"},
		{"least and largest length", `{"type": "string", "minLength": 2, "maxLength": 2}`,
			`{"type": "string", "minLength": 3, "maxLength": 2}`, "allows no text"},
		{"least and largest items", `{"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 2}`,
			`{"type": "array", "items": {"const": 1}, "minItems": 3, "maxItems": 2}`, "allows no text"},
		{"least and one item", `{"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 1}`,
			`{"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 1}`, "allows no text"},
		{"items that cannot be", `{"type": "array", "items": {"enum": []}, "minItems": 0}`,
			`{"type": "array", "items": {"enum": []}, "minItems": 1}`, "allows no text"},
		{"a property that cannot be", `{"type": "object", "properties": {"a": {"enum": []}}}`,
			`{"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}`,
			`"a": required, but its schema allows no value`},
		{"properties", objects(64), objects(65), "65 properties, at most 64"},
		{"additional properties", `{"type": "object", "additionalProperties": false}`,
			`{"type": "object", "additionalProperties": true}`, "true is not supported"},
		{"properties that are no object", `{"type": "object", "properties": {}}`, `{"type": "object", "properties": []}`,
			"schema.properties: want an object"},
		{"a type beside values", `{"type": "integer", "enum": [1]}`, `{"type": "integer", "enum": [1.0]}`,
			"1.0 is not of the type"},
		{"a value that is no text", `{"type": "boolean", "enum": [true, false]}`, `{"type": "null", "enum": [true]}`,
			"true is not of the type"},
		{"an array as a value", `{"const": 1}`, `{"const": [1]}`, "only texts, numbers"},
		{"no schema", `{"const": 1}`, `[]`, "schema"},
		{"more behind it", `{"const": 1}`, `{"const": 1`, "schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := FromSchema(json.RawMessage(c.yes), true); err != nil {
				t.Errorf("the last that is taken: got error %v, want none", err)
			}
			if _, err := FromSchema(json.RawMessage(c.no), true); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the first that is not: got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// objects is a schema with n properties.
func objects(n int) string {
	return `{"type": "object", "properties": {` + listed(n, func(i int) string {
		return fmt.Sprintf(`"p%d": {"const": 1}`, i)
	}) + `}}`
}

// TestChoice: only the full texts belong.
func TestChoice(t *testing.T) {
	g, err := Choice("a", "ab", "é")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"a": true, "ab": true, "é": true, "": false, "abc": false, "b": false,
		"\xc3": false} {
		if got := g.Has(text); got != want {
			t.Errorf("Has(%q): got %t, want %t", text, got, want)
		}
	}
	if g.Least() != 1 || g.Schema() != nil {
		t.Errorf("got a shortest text of %d bytes, schema %s, want 1, none", g.Least(), g.Schema())
	}
	for name, make := range map[string]func(...string) (*Grammar, error){"Choice": Choice, "Within": Within} {
		if g, err := make(); g != nil || err != errNothing {
			t.Errorf("%s of nothing: got %v, %v, want %v", name, g, err, errNothing)
		}
	}
	if g, err := Within("a", "a"); err != errNothing {
		t.Errorf("Within of one choice twice: got %v, %v, want %v", g, err, errNothing)
	}
}

// TestKeys: grammars have the same key if their languages are written alike, and different keys otherwise, however
// long they are; changing values that a grammar returned does not change the grammar.
func TestKeys(t *testing.T) {
	long := strings.Repeat("x", 70)
	keys := map[string]string{}
	for _, text := range []string{
		`{"const": "a"}`, `{"enum": ["a", "b"]}`, `{"const": "` + long + `"}`, `{"const": "` + long + `y"}`,
		`{"type": "string"}`, `{"type": "string", "minLength": 1}`, `{"type": "string", "maxLength": 1}`,
		`{"type": "number"}`, `{"type": "integer"}`, `{"type": "number", "maximum": 1}`, `{"type": "null"}`,
		`{"type": "array", "items": {"const": 1}}`, `{"type": "array", "items": {"const": 2}}`,
		`{"type": "object", "properties": {"a": {"const": 1}}}`,
		`{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}`,
		`{"type": "object", "properties": {"a": {"const": 2}}}`,
	} {
		g := schema(t, text, true)
		if other := keys[g.Key()]; other != "" {
			t.Errorf("%s and %s: got one key %s, want two", text, other, g.Key())
		}
		keys[g.Key()] = text
		if again := schema(t, text, true); again.Key() != g.Key() {
			t.Errorf("%s again: got key %s, want %s", text, again.Key(), g.Key())
		}
		g.Schema()[0] = 'x'
		if got := string(g.Schema()); got != text {
			t.Errorf("Schema: got %s, want %s", got, text)
		}
	}
	if a, b := schema(t, `{"enum": ["b", "a", "b"]}`, true), schema(t, `{"enum": ["a", "b"]}`, true); a.Key() != b.Key() {
		t.Errorf("in another order: got keys %s and %s, want one", a.Key(), b.Key())
	}
	a, b := schema(t, objects(2), true), schema(t, objects(2), false)
	if a.Key() == b.Key() {
		t.Errorf("in order and in any: got one key %s, want two", a.Key())
	}
}

// TestMasks: a leading space if the decoder strips one, tokens without text, and masked scores.
func TestMasks(t *testing.T) {
	var tokens [][]byte
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	tokens = append(tokens, []byte("yes"), []byte(" yes"), []byte("ye"), nil, []byte("yes"), []byte("no!"))
	v, err := NewVocabulary(tokens)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Choice("yes", "no")
	if err != nil {
		t.Fatal(err)
	}
	may := func(mask *Mask) (out []string) {
		for id := range v.Size() {
			if mask.Has(id) {
				out = append(out, fmt.Sprintf("%d %s", id, tokens[id]))
			}
		}
		return out
	}
	for trims, want := range map[bool][]string{
		false: {"110 n", "121 y", "256 yes", "258 ye", "260 yes"},
		true:  {"32  ", "110 n", "121 y", "256 yes", "257  yes", "258 ye", "260 yes"},
	} {
		w := NewMasks(g, v, trims).Begin()
		mask, err := w.Mask(100)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, may(mask)); d != "" {
			t.Errorf("trims %t: tokens (-want +got):\n%s", trims, d)
		}
		scores := make([]float32, v.Size())
		mask.Forbid(scores)
		for id, s := range scores {
			want := float32(math.Inf(-1))
			if mask.Has(id) {
				want = 0
			}
			if s != want {
				t.Errorf("trims %t: got score %v of token %d, want %v", trims, s, id, want)
			}
		}
	}
	w := NewMasks(g, v, false).Begin()
	for room, want := range map[int][]string{
		2: {"256 yes", "260 yes"}, 3: {"110 n", "256 yes", "258 ye", "260 yes"},
		4: {"110 n", "121 y", "256 yes", "258 ye", "260 yes"},
	} {
		mask, err := w.Mask(room)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, may(mask)); d != "" {
			t.Errorf("with room for %d tokens (-want +got):\n%s", room, d)
		}
	}
	if w.Ends(259) || !w.Ends(256) || w.Ends(258) || w.Ends(261) {
		t.Errorf("Ends: got %t, %t, %t, %t, want yes alone to end", w.Ends(259), w.Ends(256), w.Ends(258), w.Ends(261))
	}
	if err := w.Take(261); err == nil {
		t.Errorf("Take(no!): got error %v, want one", err)
	}
	for _, id := range []int64{258, 259, 's'} {
		if err := w.Take(id); err != nil {
			t.Errorf("Take(%d): got error %v, want none", id, err)
		}
	}
	if mask, err := w.Mask(5); err != nil || may(mask) != nil || !w.Ends(259) {
		t.Errorf("at the end: got %v, %v, ends %t, want no token but the end", mask, err, w.Ends(259))
	}
	if _, err := (&Walk{w.masks, w.masks.state(bytesOf(0xFF, 0xFF))}).Mask(5); err != nil {
		t.Errorf("a byte that is a token: got error %v, want none", err)
	}
	stuck := &Walk{&Masks{vocabulary: &Vocabulary{}, known: map[string]*state{}}, &state{expr: literal("a")}}
	if _, err := stuck.Mask(5); err == nil {
		t.Errorf("no token goes on: got error %v, want one", err)
	}
}

// TestMasksAreBounded: states and masks beyond the limits are evicted, and running answers continue.
func TestMasksAreBounded(t *testing.T) {
	v := large(t, 300)
	m := NewMasks(schema(t, aText, true), v, false)
	w := m.Begin()
	m.bytes = maxMaskBytes - 8*((v.Size()+63)/64)
	if _, err := w.Mask(9); err != nil || len(m.known) < 2 || m.bytes != maxMaskBytes {
		t.Errorf("masks at the limit: got %d states, %d bytes, %v, want them kept", len(m.known), m.bytes, err)
	}
	if err := w.Take('"'); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Mask(9); err != nil || len(m.known) != 0 || m.bytes != 0 {
		t.Errorf("masks beyond it: got %d states, %d bytes, %v, want none", len(m.known), m.bytes, err)
	}
	for i := range maxStates {
		m.known[fmt.Sprint(i)] = nowhere
	}
	m.bytes = 7
	m.state(literal("one more"))
	if len(m.known) != 1 || m.bytes != 0 {
		t.Errorf("states beyond the limit: got %d, %d bytes, want the new one", len(m.known), m.bytes)
	}
}
