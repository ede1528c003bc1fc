package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Names selects modules: List holds names or ends of names ("q_proj", "self_attn.q_proj"); Regex, in Python's syntax,
// must match a whole name. As target modules, Regex "all-linear" means every linear layer except the output layer. In
// JSON it is a list of strings, or a string.
type Names struct {
	List  []string
	Regex string
}

func (n Names) empty() bool { return len(n.List) == 0 && n.Regex == "" }

// MarshalJSON writes a string, a list of strings, or null.
func (n Names) MarshalJSON() ([]byte, error) {
	if n.Regex != "" {
		return encode(n.Regex, "")
	}
	return encode(n.List, "")
}

// UnmarshalJSON reads a string, a list of strings, or null.
func (n *Names) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &n.Regex)
	}
	list, err := elements[string](text)
	n.List = list
	return err
}

// Override sets a different rank or alpha for modules: Key is a regular expression for a name, or for the end of a
// name after a dot.
type Override struct {
	Key   string
	Value float64
}

// Overrides are a JSON object of numbers; if several keys match, the first one counts.
type Overrides []Override

// MarshalJSON writes the object in the order of the list.
func (o Overrides) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, x := range o {
		if i > 0 {
			b = append(b, ',')
		}
		key, errKey := encode(x.Key, "")
		value, err := json.Marshal(x.Value)
		if err := errors.Join(errKey, err); err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads the object. If a key occurs twice, the last value counts, as in Python.
func (o *Overrides) UnmarshalJSON(text []byte) error {
	var values map[string]*float64
	if err := json.Unmarshal(text, &values); err != nil || values == nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.Token() // the opening brace; cannot fail, the text was decoded before
	for d.More() {
		token, _ := d.Token()
		var skipped any
		d.Decode(&skipped)
		key := token.(string)
		v := values[key]
		if v == nil {
			return errors.New("null is not a number")
		}
		if !slices.ContainsFunc(*o, func(x Override) bool { return x.Key == key }) {
			*o = append(*o, Override{key, *v})
		}
	}
	return nil
}

// oneOrMore is a list that may also be written as a single element. PEFT treats an empty list as none.
type oneOrMore[T any] []T

// UnmarshalJSON reads an element or a list of elements.
func (l *oneOrMore[T]) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		list, err := elements[T](text)
		*l = list
		return err
	}
	var one *T
	err := json.Unmarshal(text, &one)
	if one != nil {
		*l = oneOrMore[T]{*one}
	}
	return err
}

// elements reads a list in which no element is null.
func elements[T any](text []byte) ([]T, error) {
	var list []*T
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return nil, err
	}
	out := make([]T, len(list))
	for i, x := range list {
		if x == nil {
			return nil, errors.New("an element is null")
		}
		out[i] = *x
	}
	return out, nil
}

// wanted describes the expected JSON type of a member of Config.
var wanted = map[reflect.Type]string{
	reflect.TypeFor[string]():            "a string",
	reflect.TypeFor[bool]():              "true or false",
	reflect.TypeFor[int]():               "a whole number",
	reflect.TypeFor[float64]():           "a number",
	reflect.TypeFor[Names]():             "a string or a list of strings",
	reflect.TypeFor[Overrides]():         "an object of numbers",
	reflect.TypeFor[Start]():             "true, false or the name of an initialization",
	reflect.TypeFor[oneOrMore[int]]():    "a whole number or a list of whole numbers",
	reflect.TypeFor[oneOrMore[string]](): "a string or a list of strings",
}

// readMembers sets the tagged members of a configuration from a JSON object, and returns the problems. Absent fields
// and nulls leave a member unchanged.
func (c *Config) readMembers(text []byte) (problems []error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return []error{err}
	}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		tag, tagged := v.Type().Field(i).Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		raw, ok := fields[name]
		if !tagged || !ok || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, v.Field(i).Addr().Interface()); err != nil {
			problems = append(problems, fmt.Errorf("%s is %v; it must be %s", name, c.fields[name], wanted[v.Field(i).Type()]))
		}
	}
	return problems
}

// members returns the tagged members of a configuration as JSON, by name.
func (c *Config) members() (map[string]json.RawMessage, error) {
	text, err := encode(c, "")
	if err != nil {
		return nil, err
	}
	var out map[string]json.RawMessage
	return out, json.Unmarshal(text, &out)
}

// encode returns v as JSON. Unlike json.Marshal, it does not escape <, > and &, which occur in regular expressions.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
