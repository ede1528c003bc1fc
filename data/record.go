package data

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/data/parquet"
)

// Record is one row of any table: named values in the table's order. Values are nil, string, bool, int64, float64,
// []byte, Image, []any, Record (nested), or json.RawMessage from a JSON file. Unchanged values are written back as
// they were read.
type Record struct {
	Fields []Field
	raw    parquet.Raw // the same as Parquet values, if read from a Parquet file
}

// Field is one named value of a Record.
type Field struct {
	Name  string
	Value any
}

// Get returns the value of the named field, and whether it exists.
func (r *Record) Get(name string) (any, bool) {
	for _, f := range r.Fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	return nil, false
}

// Set replaces the value of the named field, or appends a new field.
func (r *Record) Set(name string, value any) {
	for i := range r.Fields {
		if r.Fields[i].Name == name {
			r.Fields[i].Value = value
			return
		}
	}
	r.Fields = append(r.Fields, Field{name, value})
}

// MarshalJSON writes an object with the fields in order. NaN and infinities, which JSON does not allow, become null.
func (r Record) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, f := range r.Fields {
		if i > 0 {
			b.WriteByte(',')
		}
		value := finite(f.Value)
		if raw, ok := f.Value.([]byte); ok && f.Name == "bytes" { // of a picture: base64
			value = raw
		}
		for _, v := range []any{f.Name, value} {
			if err := e.Encode(v); err != nil {
				return nil, fmt.Errorf("column %q: %w", f.Name, err)
			}
			b.Truncate(b.Len() - 1) // the encoder's line feed
			b.WriteByte(':')
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// finite returns a value that JSON can represent.
func finite(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case []byte: // some writers do not mark text as such; JSON has no other binary data than that of pictures
		if v == nil {
			return nil
		}
		if _, err := detectFormat(v); err != nil && utf8.Valid(v) {
			return string(v)
		}
		return Image{Bytes: v}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = finite(v[i])
		}
		return out
	}
	return v
}

// UnmarshalJSON keeps the order of the fields and their values as raw JSON.
func (r *Record) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("want a JSON object, have %.20q", raw)
	}
	*r = Record{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		r.Fields = append(r.Fields, Field{name.(string), value})
	}
	if name, twice := firstDuplicate(r.names()); twice {
		return fmt.Errorf("two values of %q in one object", name)
	}
	return nil
}

// isInteger reports whether a JSON value is a number without fraction and exponent.
func isInteger(raw json.RawMessage) bool {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	return len(digits) > 0 && len(bytes.Trim(digits, "0123456789")) == 0
}

// unwrap turns raw JSON into Go values: objects into Records, integers into int64 if they fit.
func unwrap(v any) (any, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return v, nil
	}
	if len(raw) > 0 && raw[0] == '{' {
		var r Record
		err := json.Unmarshal(raw, &r)
		return r, err
	}
	if isInteger(raw) { // not through float64, which rounds above 2^53
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return n, nil
		}
	}
	err := json.Unmarshal(raw, &v)
	if s, ok := v.(string); ok && strings.ContainsRune(s, utf8.RuneError) && !bytes.ContainsRune(raw, utf8.RuneError) &&
		!bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return v, errors.New("half a surrogate pair: \\ud800 to \\udfff are only valid in pairs")
	}
	return v, err
}

// IsNull reports whether a value is null, empty text, or a picture without path and bytes.
func IsNull(v any) bool {
	v, err := unwrap(v)
	if err != nil {
		return false
	}
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []byte:
		return len(v) == 0
	case Image:
		return v.IsZero()
	case Record:
		m, err := ToImage(v)
		return err == nil && m.IsZero()
	}
	return false
}

// Text returns a value as text: "" for null, numbers as they are written.
func Text(v any) (string, error) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		return string(raw), nil
	}
	v, err := unwrap(v)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		if !utf8.ValidString(v) { // columns of text may hold anything
			return "", fmt.Errorf("want UTF-8, have %.20q", v)
		}
		return v, nil
	case []byte:
		if utf8.Valid(v) {
			return string(v), nil
		}
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case bool, int64:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("want text, have %s", kindOf(v))
}

// Prose is Text for a column of human-written text, where a boolean suggests that the wrong column is mapped.
func Prose(v any) (string, error) {
	if b, err := unwrap(v); err == nil {
		if b, ok := b.(bool); ok {
			return "", fmt.Errorf("want text, have %v", b)
		}
	}
	return Text(v)
}

// Number returns a value as a number: nil for null, NaN and empty text; text is parsed.
func Number(v any) (*float64, error) {
	x, err := AnyNumber(v)
	if x != nil && math.IsNaN(*x) {
		x = nil
	}
	return x, err
}

// Finite returns a value as a number: nil for null and empty text. NaN and infinities are errors.
func Finite(v any) (*float64, error) {
	x, err := AnyNumber(v)
	if err == nil && x != nil && (math.IsNaN(*x) || math.IsInf(*x, 0)) {
		return nil, fmt.Errorf("want a finite number, have %v", *x)
	}
	return x, err
}

// AnyNumber returns a value as a number, including NaN and infinities: nil for null and empty text.
func AnyNumber(v any) (*float64, error) {
	v, err := unwrap(v)
	if err != nil {
		return nil, err
	}
	var x float64
	switch v := v.(type) {
	case nil:
		return nil, nil
	case float64:
		x = v
	case int64:
		x = float64(v)
	case string:
		if v == "" {
			return nil, nil
		}
		if x, err = strconv.ParseFloat(v, 64); err != nil {
			return nil, fmt.Errorf("want a number, have %.40q", v)
		}
	default:
		return nil, fmt.Errorf("want a number, have %s", kindOf(v))
	}
	return &x, nil
}

// ToImage returns a value as a picture: text is a path, and binary data is an encoded picture. An object may have
// both ("path" and "bytes", base64 in JSON); null is the zero Image. Binary data that is short UTF-8 text and not a
// known picture format is a path, since some writers do not mark text as such.
func ToImage(v any) (Image, error) {
	v, err := unwrap(v)
	if err != nil {
		return Image{}, err
	}
	switch v := v.(type) {
	case nil:
		return Image{}, nil
	case Image:
		return v, nil
	case string:
		return Image{Path: v}, nil
	case []byte:
		if _, err := detectFormat(v); err != nil && len(v) < 4096 && utf8.Valid(v) {
			return Image{Path: string(v)}, nil
		}
		return Image{Bytes: v}, nil
	case Record:
		return imageOf(v)
	}
	return Image{}, fmt.Errorf("want a picture (a path, bytes, or {path, bytes}), have %s", kindOf(v))
}

func imageOf(r Record) (m Image, err error) {
	path, hasPath := r.Get("path")
	raw, hasBytes := r.Get("bytes")
	if !hasPath && !hasBytes {
		return m, fmt.Errorf("want a picture, have an object without path and bytes")
	}
	if m.Path, err = Text(path); err != nil {
		return m, fmt.Errorf("path: %w", err)
	}
	if raw, err = unwrap(raw); err != nil {
		return m, fmt.Errorf("bytes: %w", err)
	}
	switch raw := raw.(type) {
	case nil:
	case []byte:
		m.Bytes = raw
	case string:
		if m.Bytes, err = base64.StdEncoding.DecodeString(raw); err != nil {
			return m, fmt.Errorf("bytes: want base64: %w", err)
		}
	default:
		return m, fmt.Errorf("bytes: want base64, have %s", kindOf(raw))
	}
	return m, nil
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("text %.20q", v)
	case []byte:
		return fmt.Sprintf("%d bytes of binary data", len(v))
	case bool, int64, float64:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case Record:
		return "an object"
	}
	return fmt.Sprintf("%T", v)
}
