package grammar

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSchemas: a grammar contains exactly the texts that encoding/json reads as values of the schema. The texts are
// random values, written with random whitespace; some have a byte damaged.
func TestSchemas(t *testing.T) {
	for _, c := range schemaCases {
		t.Run(c.schema, func(t *testing.T) {
			g := schema(t, c.schema, true)
			r := rand.New(rand.NewPCG(1, uint64(len(c.schema))))
			has, short := 0, 1<<30
			for range 2000 {
				text := write(r, c.draw(r))
				if r.IntN(2) == 0 {
					text = damage(r, text)
				}
				var v any
				want := json.Unmarshal([]byte(text), &v) == nil && utf8.ValidString(text) && c.valid(v) &&
					strings.TrimSpace(text) == text && !strings.Contains(text, `\ud`)
				if want {
					has, short = has+1, min(short, len(text))
				}
				if got := g.Has(text); got != want {
					t.Fatalf("Has(%q): got %t, want %t", text, got, want)
				}
			}
			if has < 150 || g.Least() > short {
				t.Errorf("%d texts belong, want 150; Least got %d, and %d bytes are enough", has, g.Least(), short)
			}
		})
	}
}

type schemaCase struct {
	schema string
	draw   func(r *rand.Rand) any
	valid  func(v any) bool
}

var schemaCases = []schemaCase{
	{`{"type": "string"}`, func(r *rand.Rand) any { return word(r, 4) }, isText(0, 99)},
	{`{"type": "string", "minLength": 1, "maxLength": 3}`, func(r *rand.Rand) any { return word(r, 4) }, isText(1, 3)},
	{`{"type": "string", "minLength": 3}`, func(r *rand.Rand) any { return word(r, 5) }, isText(3, 99)},
	{`{"type": "string", "maxLength": 1}`, func(r *rand.Rand) any { return word(r, 2) }, isText(0, 1)},
	{`{"type": "array", "items": {"type": "boolean"}}`, list(4), isList(0, 99)},
	{`{"type": "array", "items": {"type": "boolean"}, "minItems": 2}`, list(4), isList(2, 99)},
	{`{"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}`, list(3), isList(2, 2)},
	{`{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}`, list(4), isList(0, 3)},
	{`{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}`, list(4), isList(1, 3)},
	{`{"enum": ["a", "ab", null, true]}`, func(r *rand.Rand) any {
		return []any{"a", "ab", "b", nil, true, false}[r.IntN(6)]
	}, func(v any) bool { return v == "a" || v == "ab" || v == nil || v == true }},
	{
		`{"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"enum": ["x"]}},
		  "required": ["a", "c"], "additionalProperties": false}`,
		func(r *rand.Rand) any {
			return fields{{"a", r.IntN(4) > 0}, {"b", nil}, {"c", "x"}}.draw(r)
		},
		func(v any) bool {
			o, ok := v.(map[string]any)
			_, a := o["a"].(bool)
			b, hasB := o["b"]
			return ok && a && o["c"] == "x" && b == nil && len(o) == 2+map[bool]int{true: 1}[hasB]
		},
	},
}

// fields are the fields of an object, in order.
type fields []struct {
	name  string
	value any
}

// draw draws an object, sometimes without one of its fields.
func (f fields) draw(r *rand.Rand) any {
	if out := r.IntN(2 * len(f)); out < len(f) {
		f = slices.Delete(slices.Clone(f), out, out+1)
	}
	return f
}

func word(r *rand.Rand, most int) any {
	var s strings.Builder
	for range r.IntN(most + 1) {
		s.WriteString([]string{"a", "é", "日", "𝄞", `"`, `\`, "/", "\n", "\u0001", " "}[r.IntN(10)])
	}
	return s.String()
}

func list(most int) func(r *rand.Rand) any {
	return func(r *rand.Rand) any {
		all := make([]any, r.IntN(most+1))
		for i := range all {
			all[i] = r.IntN(2) == 0
		}
		return all
	}
}

func isText(from, to int) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		n := utf8.RuneCountInString(s)
		return ok && n >= from && n <= to
	}
}

func isList(from, to int) func(any) bool {
	return func(v any) bool {
		all, ok := v.([]any)
		return ok && len(all) >= from && len(all) <= to &&
			!slices.ContainsFunc(all, func(v any) bool { _, ok := v.(bool); return !ok })
	}
}

// write writes a value as JSON, with up to two whitespace characters between its parts.
func write(r *rand.Rand, v any) string {
	blank := func() string { return []string{"", "", " ", "\n", " \t"}[r.IntN(5)] }
	switch v := v.(type) {
	case []any:
		s := "[" + blank()
		for i, x := range v {
			if i > 0 {
				s += "," + blank()
			}
			s += write(r, x) + blank()
		}
		return s + "]"
	case fields:
		s := "{" + blank()
		for i, f := range v {
			if i > 0 {
				s += "," + blank()
			}
			s += `"` + f.name + `"` + blank() + ":" + blank() + write(r, f.value) + blank()
		}
		return s + "}"
	}
	out, err := spelled(v)
	if err != nil {
		panic(err)
	}
	return out
}

// damage changes, adds or removes a byte.
func damage(r *rand.Rand, s string) string {
	at := r.IntN(len(s))
	b := "\"[]{},:\\ atrue\x00\x1f\x7f\xc3\x80\xed\xf4"[r.IntN(20)]
	switch r.IntN(3) {
	case 0:
		return s[:at] + string([]byte{b}) + s[at:]
	case 1:
		return s[:at] + string([]byte{b}) + s[at+1:]
	}
	return s[:at] + s[at+1:]
}

// TestSurrogates: an escape is a full character or a surrogate pair.
func TestSurrogates(t *testing.T) {
	g := schema(t, `{"type": "string", "minLength": 1, "maxLength": 1}`, true)
	for text, want := range map[string]bool{
		`"\u0000"`: true, `"\ud7ff"`: true, `"\uE000"`: true, `"\ufFfF"`: true, `"\u00"`: false, `"\u00g0"`: false,
		`"\ud834\udd1e"`: true, `"\uDBFF\uDFFF"`: true, `"\ud800"`: false, `"\udc00"`: false, `"\udc00\ud800"`: false,
		`"\ud834\u0041"`: false, `"\ud834x"`: false, `"\x41"`: false, `"\n"`: true, `"\a"`: false,
	} {
		t.Run(text, func(t *testing.T) {
			if got := g.Has(text); got != want {
				t.Errorf("Has(%s): got %t, want %t", text, got, want)
			}
		})
	}
}
