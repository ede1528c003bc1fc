package lora

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNamesInJSON: a string, a list of strings, or null, as PEFT writes target_modules.
func TestNamesInJSON(t *testing.T) {
	for text, want := range map[string]Names{
		`"a.*<b>&"`:      {Regex: "a.*<b>&"},
		`["q_proj","v"]`: {List: []string{"q_proj", "v"}},
		`["one"]`:        {List: []string{"one"}},
		`null`:           {},
	} {
		t.Run(text, func(t *testing.T) {
			var got Names
			if err := got.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if back, err := want.MarshalJSON(); err != nil || string(back) != text {
				t.Errorf("written: got %s, %v, want %s", back, err, text)
			}
			if got, want := want.empty(), text == "null"; got != want {
				t.Errorf("empty: got %t, want %t", got, want)
			}
		})
	}
	for _, text := range []string{`3`, `["a", null]`, `["a", 3]`, `{"a": 1}`} {
		t.Run(text, func(t *testing.T) {
			var got Names
			if err := got.UnmarshalJSON([]byte(text)); err == nil {
				t.Errorf("got %v and no error, want one", got)
			}
		})
	}
	if got := (Names{List: []string{"a", "b"}}).String(); got != `["a" "b"]` {
		t.Errorf("String of a list: got %s, want [\"a\" \"b\"]", got)
	}
	if got := (Names{Regex: `a\.b`}).String(); got != `"a\\.b"` {
		t.Errorf("String of an expression: got %s, want \"a\\\\.b\"", got)
	}
}

// TestOverridesInJSON: the object keeps its order; a key that occurs twice has its last value at its first position.
func TestOverridesInJSON(t *testing.T) {
	for text, want := range map[string]struct {
		list Overrides
		back string
		err  string
	}{
		`{"b": 4, "a": 2.5}`:         {Overrides{{"b", 4}, {"a", 2.5}}, `{"b":4,"a":2.5}`, ""},
		`{"b": 1, "a": 2, "b": 3}`:   {Overrides{{"b", 3}, {"a", 2}}, `{"b":3,"a":2}`, ""},
		`{"<&>": 1}`:                 {Overrides{{"<&>", 1}}, `{"<&>":1}`, ""},
		`{"a": 1, "b": 2, "c": 3}`:   {Overrides{{"a", 1}, {"b", 2}, {"c", 3}}, `{"a":1,"b":2,"c":3}`, ""},
		`{}`:                         {nil, `{}`, ""},
		`null`:                       {nil, `{}`, ""},
		`{"a": null}`:                {nil, "", "null is not a number"},
		`{"a": "1"}`:                 {nil, "", "cannot unmarshal"},
		`["a"]`:                      {nil, "", "cannot unmarshal"},
		`{"a": 1, "b": 2, "a": "x"}`: {nil, "", "cannot unmarshal"},
	} {
		t.Run(text, func(t *testing.T) {
			var got Overrides
			err := got.UnmarshalJSON([]byte(text))
			holdsError(t, "read", err, want.err)
			if err != nil {
				return
			}
			if diff := cmp.Diff(want.list, got); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if back, err := got.MarshalJSON(); err != nil || string(back) != want.back {
				t.Errorf("written: got %s, %v, want %s", back, err, want.back)
			}
		})
	}
}

// TestOneOrMore: a list, or a single element; null keeps the previous value.
func TestOneOrMore(t *testing.T) {
	for text, test := range map[string]struct {
		want oneOrMore[int]
		ok   bool
	}{
		`3`: {oneOrMore[int]{3}, true}, `[3, 4]`: {oneOrMore[int]{3, 4}, true}, `[]`: {oneOrMore[int]{}, true},
		`null`: {oneOrMore[int]{9}, true}, `[3, null]`: {nil, false}, `["a"]`: {nil, false},
		`"a"`: {oneOrMore[int]{9}, false}, `2.5`: {oneOrMore[int]{9}, false},
	} {
		t.Run(text, func(t *testing.T) {
			got := oneOrMore[int]{9}
			err := got.UnmarshalJSON([]byte(text))
			if (err == nil) != test.ok {
				t.Errorf("got error %v, want none: %t", err, test.ok)
			}
			if test.ok && !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestReadMembers: absent fields and nulls leave a member unchanged, and every problem is reported with the expected
// type.
func TestReadMembers(t *testing.T) {
	c := &Config{Rank: 8, Alpha: 9, Bias: BiasAll, fields: map[string]any{}}
	if p := c.readMembers([]byte(`{"lora_alpha": null, "r": 4, "unheard": 1, "": 2, "fields": {"a": 1}}`)); p != nil {
		t.Errorf("got problems %v, want none", p)
	}
	if c.Rank != 4 || c.Alpha != 9 || c.Bias != BiasAll || len(c.fields) != 0 {
		t.Errorf("got %+v, want rank 4 and the rest as it was", c)
	}
	for member, want := range map[string]string{
		`"r": "x"`:                   "r is x; it must be a whole number",
		`"use_dora": 1`:              "use_dora is 1; it must be true or false",
		`"bias": false`:              "bias is false; it must be a string",
		`"lora_alpha": []`:           "lora_alpha is []; it must be a number",
		`"target_modules": 1`:        "target_modules is 1; it must be a string or a list of strings",
		`"rank_pattern": 1`:          "rank_pattern is 1; it must be an object of numbers",
		`"init_lora_weights": 1`:     "init_lora_weights is 1; it must be true, false or the name of an initialization",
		`"layers_to_transform": "a"`: "layers_to_transform is a; it must be a whole number or a list of whole numbers",
		`"modules_to_save": 1`:       "modules_to_save is 1; it must be a string or a list of strings",
	} {
		t.Run(member, func(t *testing.T) {
			text := []byte("{" + member + "}")
			c := &Config{}
			if err := json.Unmarshal(text, &c.fields); err != nil {
				t.Fatal(err)
			}
			p := c.readMembers(text)
			if len(p) != 1 || p[0].Error() != want {
				t.Errorf("got problems %v, want %q", p, want)
			}
		})
	}
	if p := c.readMembers([]byte(`{"r": 4`)); len(p) != 1 {
		t.Errorf("half an object: got problems %v, want one", p)
	}
	c = &Config{fields: map[string]any{"r": "x", "lora_dropout": "y"}}
	p := c.readMembers([]byte(`{"r": "x", "lora_dropout": "y", "lora_alpha": 7}`))
	if len(p) != 2 || c.Alpha != 7 {
		t.Errorf("got problems %v and alpha %v, want two, and 7", p, c.Alpha)
	}
}

// TestEncode: JSON without a trailing newline and without escapes for <, > and &; a value that has no JSON is an
// error.
func TestEncode(t *testing.T) {
	for name, test := range map[string]struct {
		v            any
		indent, want string
	}{
		"text":   {"(?P<a>b)&", "", `"(?P<a>b)&"`},
		"object": {map[string]int{"a": 1}, "  ", "{\n  \"a\": 1\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := encode(test.v, test.indent); err != nil || string(got) != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
	if _, err := encode(func() {}, ""); err == nil {
		t.Error("a function: got no error, want one")
	}
}

// TestWhatHasNoJSON: numbers that JSON cannot represent are errors.
func TestWhatHasNoJSON(t *testing.T) {
	c := NewConfig(1, 1, Names{List: []string{"q"}})
	c.Alphas = Overrides{{"q", math.Inf(1)}}
	_, errMembers := c.members()
	_, errEncode := c.Encode()
	for _, err := range []error{errMembers, errEncode, c.Save(t.TempDir())} {
		if err == nil || !strings.Contains(err.Error(), "unsupported value") {
			t.Errorf("got error %v, want one with %q", err, "unsupported value")
		}
	}
	if _, err := c.Alphas.MarshalJSON(); err == nil {
		t.Error("MarshalJSON: got no error, want one")
	}
}
