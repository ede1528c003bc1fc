// Package strictjson reads JSON configuration files of other programs, mainly Hugging Face's. Every key of an object
// must be read or declared harmless; any other key is an error that names it, so that a setting that changes the
// numbers is never silently ignored. Keys count as read when the code gets them, and [Object.Close] takes the tables
// of harmless ones. Errors are collected, and [Object.Err] returns all of them.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Object is a JSON object. Its errors and its members' are collected: see Err.
type Object struct {
	path     string // for errors: the file, then the keys
	fields   map[string]json.RawMessage
	read     map[string]bool
	problems *[]error
}

// Harmless lists keys that are ignored: with any value, or only with the values listed.
type Harmless map[string][]any

// AnyValue returns h with more keys, which are ignored with any value.
func (h Harmless) AnyValue(keys ...string) Harmless {
	h = maps.Clone(h)
	for _, key := range keys {
		h[key] = nil
	}
	return h
}

// Parse reads a file's content.
func Parse(file string, raw []byte) (*Object, error) {
	o := &Object{path: file, read: map[string]bool{}, problems: new([]error)}
	if err := json.Unmarshal(raw, &o.fields); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if o.fields == nil {
		return nil, fmt.Errorf("%s: want a JSON object, not null", file)
	}
	return o, nil
}

// Failf adds an error about a key; "": about the object.
func (o *Object) Failf(key, format string, args ...any) {
	where := o.path
	if key != "" {
		where = o.childPath(key)
	}
	*o.problems = append(*o.problems, fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...)))
}

// Err returns all errors so far, including those of nested objects, sorted.
func (o *Object) Err() error {
	return errors.Join(
		slices.SortedFunc(
			slices.Values(*o.problems),
			func(a, b error) int { return strings.Compare(a.Error(), b.Error()) },
		)...)
}

// Has reports whether the key is present with a value other than null.
func (o *Object) Has(key string) bool {
	raw, ok := o.fields[key]
	return ok && string(raw) != "null"
}

// Raw returns the raw value of a key, nil if absent. The key counts as read.
func (o *Object) Raw(key string) json.RawMessage {
	o.read[key] = true
	return o.fields[key]
}

// Get stores the value of a key in *into. An absent key leaves it unchanged; null is an error, and so is a value of
// another type.
func (o *Object) Get(key string, into any) {
	raw := o.Raw(key)
	if raw == nil {
		return
	}
	if string(raw) == "null" {
		o.Failf(key, "null is not allowed: leave the key out for the default")
		return
	}
	fresh := reflect.New(reflect.TypeOf(into).Elem()) // the slice of a default may be shared
	if err := json.Unmarshal(raw, fresh.Interface()); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			err = fmt.Errorf("want %s", wrong.Type)
		}
		o.Failf(key, "%s: %w", clip(raw), err)
		return
	}
	reflect.ValueOf(into).Elem().Set(fresh.Elem())
}

// Opt is Get for a key for which null means absent.
func (o *Object) Opt(key string, into any) {
	if o.read[key] = true; o.Has(key) {
		o.Get(key, into)
	}
}

// Sub returns the object at a key, nil if absent or null.
func (o *Object) Sub(key string) *Object {
	o.read[key] = true
	if !o.Has(key) {
		return nil
	}
	s := o.None(key)
	if err := json.Unmarshal(o.fields[key], &s.fields); err != nil {
		o.Failf(key, "%s: want an object", clip(o.fields[key]))
		return nil
	}
	return s
}

// Rest returns an object with the keys that are neither read yet nor in the table; they count as read in o.
func (o *Object) Rest(but Harmless) *Object {
	p := &Object{path: o.path, fields: map[string]json.RawMessage{}, read: map[string]bool{}, problems: o.problems}
	for key, raw := range o.fields {
		if _, mine := but[key]; !mine && !o.read[key] {
			p.fields[key], o.read[key] = raw, true
		}
	}
	return p
}

// Same marks keys as read that another object has with the same value.
func (o *Object) Same(other *Object) {
	for key, raw := range o.fields {
		if twin, ok := other.fields[key]; ok && canonical(raw) == canonical(twin) {
			o.read[key] = true
		}
	}
}

// Close ends reading: keys that are neither read nor in a table are errors, and so are values that the table of their
// key does not list.
func (o *Object) Close(tables ...Harmless) {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(o.fields)) {
		if o.read[key] {
			continue
		}
		values, known := lookup(tables, key)
		switch {
		case !known:
			unknown = append(unknown, fmt.Sprintf("%q (%s)", key, clip(o.fields[key])))
		case len(values) > 0 && !slices.Contains(values, canonical(o.fields[key])):
			o.Failf(key, "%s is not supported; %s is", clip(o.fields[key]), strings.Join(values, " or "))
		}
	}
	if len(unknown) > 0 {
		o.Failf(
			"",
			"unknown key(s) %s: they may change the results, so they are not ignored; remove those that surely do not",
			strings.Join(unknown, ", "),
		)
	}
}

func lookup(tables []Harmless, key string) (values []string, known bool) {
	for _, t := range tables {
		if list, ok := t[key]; ok {
			for _, v := range list {
				text, err := json.Marshal(v)
				if err != nil {
					panic(err) // the tables are our own
				}
				values = append(values, string(text))
			}
			return values, true
		}
	}
	return nil, false
}

// canonical formats a value as encoding/json would: 0.0 becomes 0.
func canonical(raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

// clip shortens a value for an error.
func clip(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	if s := []rune(b.String()); len(s) > 60 {
		return string(s[:57]) + "..."
	}
	return b.String()
}

// Keys returns the object's keys, sorted.
func (o *Object) Keys() []string { return slices.Sorted(maps.Keys(o.fields)) }

// Empty reports whether the object has no keys.
func (o *Object) Empty() bool { return len(o.fields) == 0 }

// None returns the object that Sub would return for an empty object at key.
func (o *Object) None(key string) *Object {
	return &Object{
		path:     o.childPath(key),
		fields:   map[string]json.RawMessage{},
		read:     map[string]bool{},
		problems: o.problems,
	}
}

// childPath is the path of a key.
func (o *Object) childPath(key string) string {
	if strings.HasSuffix(o.path, ".json") {
		return o.path + ": " + key
	}
	return o.path + "." + key
}
