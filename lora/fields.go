package lora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// reader takes typed values out of a JSON object and collects what is wrong with them. Absent fields and nulls leave the
// destination as it is.
type reader struct {
	fields   map[string]any
	problems []error
}

func (r *reader) wrong(name, want string) {
	r.problems = append(r.problems, fmt.Errorf("%s is %v; it must be %s", name, r.fields[name], want))
}

func (r *reader) str(name string, to *string) {
	if v, ok := r.fields[name].(string); ok {
		*to = v
	} else if r.fields[name] != nil {
		r.wrong(name, "a string")
	}
}

func (r *reader) boolean(name string, to *bool) {
	if v, ok := r.fields[name].(bool); ok {
		*to = v
	} else if r.fields[name] != nil {
		r.wrong(name, "true or false")
	}
}

func (r *reader) number(name string, to *float64) {
	if v, ok := r.fields[name].(json.Number); ok {
		f, err := v.Float64()
		if err == nil {
			*to = f
			return
		}
	} else if r.fields[name] == nil {
		return
	}
	r.wrong(name, "a number")
}

func whole(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return 0, false
	}
	return int(f), true
}

func (r *reader) integer(name string, to *int) {
	if n, ok := whole(r.fields[name]); ok {
		*to = n
	} else if r.fields[name] != nil {
		r.wrong(name, "a whole number")
	}
}

// integers reads a number or a list of numbers. PEFT takes an empty list for none given.
func (r *reader) integers(name string, to *[]int) {
	v := r.fields[name]
	if n, ok := whole(v); ok {
		*to = []int{n}
		return
	}
	list, ok := v.([]any)
	for _, x := range list {
		n, isInt := whole(x)
		if !isInt {
			ok = false
		}
		*to = append(*to, n)
	}
	if !ok && v != nil {
		r.wrong(name, "a whole number or a list of them")
	}
}

// names reads a string or a list of strings.
func (r *reader) names(name string, to *Names) {
	switch v := r.fields[name].(type) {
	case nil:
	case string:
		to.Regex = v
	case []any:
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				r.wrong(name, "a string or a list of strings")
				return
			}
			to.List = append(to.List, s)
		}
	default:
		r.wrong(name, "a string or a list of strings")
	}
}

// overrides reads an object of numbers in the order of the text, which decides between keys that both match.
func (r *reader) overrides(name string, text []byte) []Override {
	v := r.fields[name]
	if v == nil {
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		r.wrong(name, "an object of numbers")
		return nil
	}
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(text, &outer); err != nil {
		r.wrong(name, "an object of numbers")
		return nil
	}
	var out []Override
	d := json.NewDecoder(bytes.NewReader(outer[name]))
	d.Token() // the opening brace; the text was decoded once already
	for d.More() {
		key, _ := d.Token()
		var skipped any
		d.Decode(&skipped)
		n, ok := object[key.(string)].(json.Number)
		f, err := n.Float64()
		if !ok || err != nil {
			r.wrong(name, "an object of numbers")
			return nil
		}
		out = append(out, Override{key.(string), f})
	}
	return out
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// wholeOrFloat writes 16 and not 16.0, as a user of PEFT would have given it.
func wholeOrFloat(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return int(f)
	}
	return f
}

func (n Names) field() any {
	if n.Regex != "" {
		return n.Regex
	}
	return fieldList(n.List)
}

func fieldList[T any](list []T) any {
	if list == nil {
		return nil
	}
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

func overridesField(list []Override) any {
	out := map[string]any{}
	for _, o := range list {
		out[o.Key] = wholeOrFloat(o.Value)
	}
	return out
}
