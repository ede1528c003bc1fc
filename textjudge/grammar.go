package textjudge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/pystring"
)

// Grammar describes what an answer must look like: an object with given keys, a bare value, or lines.
//
// An object is the text from the first { to the last }: JSON without duplicate keys. Other keys are allowed. A bare
// value is the full answer, except for whitespace around it, unless After or Tag locates it.
type Grammar struct {
	Object map[string]Value `yaml:"object"`

	// Forgiving reads an object that is not valid JSON because of quotes or line breaks in its one text, if the rest
	// is unambiguous: see forgive.
	Forgiving bool `yaml:"forgiving"`
	// TrailingComma allows a comma before the last }, as some prompts show one.
	TrailingComma bool `yaml:"trailing_comma"`

	Value *Value `yaml:"value"`
	// After are the words before a bare value, with any text before and after: see behind.
	After string `yaml:"after"`
	// Tag is the name of a tag, such as answer, that encloses a bare value and occurs once: the model may reason
	// before it.
	Tag string `yaml:"tag" json:",omitempty"`
	// Lines is a list of numbers, one per line, each after words and a colon: see lines.
	Lines *Value `yaml:"lines"`
}

// Value is one of: a list of numbers, a number, a choice, a class, a text. Numbers have names, which rules refer to.
type Value struct {
	List   []string           `yaml:"list"`   // names of its numbers, which set its length
	Number string             `yaml:"number"` // the name
	Range  []float64          `yaml:"range"`  // minimum and maximum, of lists and numbers
	Choice map[string]float64 `yaml:"choice"` // answers and their numbers
	As     string             `yaml:"as"`     // the name of the choice's number
	Within bool               `yaml:"within"` // exactly one choice must occur in the text, instead of being it
	// Classes are words, one of which is the answer: the judge's class instead of a number.
	Classes []string `yaml:"classes" json:",omitempty"`
	Text    bool     `yaml:"text"` // any text, may be absent; not read
}

// names returns the names of a value's numbers.
func (v *Value) names() []string {
	switch {
	case len(v.List) > 0:
		return v.List
	case v.Number != "":
		return []string{v.Number}
	case len(v.Choice) > 0:
		return []string{v.As}
	}
	return nil
}

// values returns the values of the grammar by key; a bare value and lines have the key "".
func (g *Grammar) values() map[string]Value {
	switch {
	case g.Value != nil:
		return map[string]Value{"": *g.Value}
	case g.Lines != nil:
		return map[string]Value{"": *g.Lines}
	}
	return g.Object
}

// UnreadableError is the reason why an answer does not follow the grammar.
type UnreadableError struct {
	Code string // no_json, truncated, bad_json, duplicate_key, ambiguous, wrong_count, out_of_range, ...
	Text string
}

func (e *UnreadableError) Error() string { return e.Text }

func unreadable(code, format string, args ...any) error {
	return &UnreadableError{code, fmt.Sprintf(format, args...)}
}

// Read reads an answer: numbers by name, on the grammar's own ranges, or an UnreadableError. Nothing is guessed. A
// class is a number without a name: its index among the classes.
func (g *Grammar) Read(text string) (map[string]float64, error) {
	numbers := map[string]float64{}
	switch {
	case g.Lines != nil:
		return numbers, g.Lines.lines(text, numbers)
	case g.Value != nil:
		text, err := g.inTag(text)
		if err == nil {
			text, err = g.behind(text)
		}
		if err != nil {
			return nil, err
		}
		return numbers, g.Value.bare(pystring.Strip(text), numbers)
	}
	start, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	switch {
	case start < 0:
		return nil, unreadable("no_json", "no JSON object found")
	case end < start:
		return nil, unreadable("truncated", "the JSON object is not closed")
	}
	fields, err := g.fields(text[start : end+1])
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(g.Object)) {
		v := g.Object[key]
		raw, ok := fields[key]
		switch {
		case v.Text:
			continue
		case !ok:
			return nil, unreadable("no_"+key, "no key %q", key)
		}
		if err := v.read(raw, numbers); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return numbers, nil
}

// fields returns the raw values of an object by key.
func (g *Grammar) fields(span string) (map[string]json.RawMessage, error) {
	if g.TrailingComma {
		span = lastComma.ReplaceAllString(span, "}")
	}
	if !json.Valid([]byte(span)) {
		if g.Forgiving {
			return g.forgive(span)
		}
		return nil, unreadable("bad_json", "the text in braces is not JSON")
	}
	if key, twice := doubled(span); twice {
		return nil, unreadable("duplicate_key", "duplicate key %q", key)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(span), &fields); err != nil {
		return nil, unreadable("bad_json", "%v", err)
	}
	return fields, nil
}

var lastComma = regexp.MustCompile(`,\s*\}$`)

// doubled finds a key that occurs twice in an object or in a nested one. The text must be valid JSON.
func doubled(text string) (string, bool) {
	type level struct {
		keys map[string]bool // nil: a list
		want bool            // the next token is a key
	}
	var stack []level
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return "", false
		}
		top := len(stack) - 1
		switch token {
		case json.Delim('{'), json.Delim('['):
			if top >= 0 {
				stack[top].want = stack[top].keys != nil
			}
			next := level{}
			if token == json.Delim('{') {
				next = level{map[string]bool{}, true}
			}
			stack = append(stack, next)
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
			continue
		}
		if top < 0 || stack[top].keys == nil {
			continue
		}
		if key, ok := token.(string); ok && stack[top].want {
			if stack[top].keys[key] {
				return key, true
			}
			stack[top].keys[key] = true
		}
		stack[top].want = !stack[top].want
	}
}

// read reads a value of a JSON object.
func (v *Value) read(raw json.RawMessage, numbers map[string]float64) error {
	switch {
	case len(v.List) > 0:
		var items []json.RawMessage
		if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
			return unreadable("not_a_list", "%.40s is not a list", raw)
		}
		found := make([]float64, len(items))
		for i, item := range items {
			var err error
			if found[i], err = number(item); err != nil {
				return err
			}
		}
		return v.list(found, numbers)
	case v.Number != "":
		x, err := number(raw)
		if err != nil {
			return err
		}
		return v.set(v.Number, x, numbers)
	}
	var word string
	if json.Unmarshal(raw, &word) != nil {
		word = string(bytes.TrimSpace(raw)) // a number: 1 for the choice '1'
	}
	return v.choose(word, numbers)
}

// list stores the numbers of a list by name.
func (v *Value) list(found []float64, numbers map[string]float64) error {
	if len(found) != len(v.List) {
		return unreadable("wrong_count", "got %d numbers, want %d", len(found), len(v.List))
	}
	for i, name := range v.List {
		if err := v.set(name, found[i], numbers); err != nil {
			return err
		}
	}
	return nil
}

// number reads a JSON number.
func number(raw []byte) (float64, error) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, unreadable("not_a_number", "%.40s is not a number", raw)
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, unreadable("not_a_number", "%.40s is not a number", raw)
	}
	return x, nil
}

func (v *Value) set(name string, x float64, numbers map[string]float64) error {
	if math.IsInf(x, 0) || len(v.Range) == 2 && !(v.Range[0] <= x && x <= v.Range[1]) {
		return unreadable("out_of_range", "%v is outside %v", x, v.Range)
	}
	numbers[name] = x
	return nil
}

func (v *Value) choose(word string, numbers map[string]float64) error {
	x, ok := v.Choice[word]
	if i := slices.Index(v.Classes, word); i >= 0 {
		x, ok = float64(i), true
	}
	if !ok {
		return unreadable("no_choice", "%.40q is not one of %s", word, v.choices())
	}
	numbers[v.As] = x
	return nil
}

func (v *Value) choices() string { return strings.Join(v.words(), ", ") }

// words returns the choices or classes, sorted.
func (v *Value) words() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(v.Classes), maps.Keys(v.Choice))))
}

// class returns the class that an answer names; "" if none.
func (g *Grammar) class(numbers map[string]float64) string {
	i, ok := numbers[""]
	for _, v := range g.values() {
		if ok && len(v.Classes) > 0 {
			return v.Classes[int(i)]
		}
	}
	return ""
}

var plainNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// bare reads a bare value.
func (v *Value) bare(text string, numbers map[string]float64) error {
	switch {
	case len(v.List) > 0 && json.Valid([]byte(text)):
		return v.read(json.RawMessage(text), numbers)
	case len(v.List) > 0:
		return unreadable("not_a_list", "%.40q is not a list", text)
	case v.Number != "" && plainNumber.MatchString(text):
		return v.read(json.RawMessage(text), numbers)
	case v.Number != "":
		return unreadable("not_a_number", "%.40q is not a number", text)
	case !v.Within:
		return v.choose(strings.TrimSuffix(text, "."), numbers)
	}
	var found []string
	for choice := range v.Choice {
		if strings.Contains(text, choice) {
			found = append(found, choice)
		}
	}
	switch len(found) {
	case 0:
		return unreadable("no_choice", "none of %s occurs", v.choices())
	case 1:
		return v.choose(found[0], numbers)
	}
	slices.Sort(found)
	return unreadable("ambiguous", "more than one choice occurs: %s", strings.Join(found, ", "))
}
