package protocol

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shownProblems is how many problems of one file are reported; the rest are counted.
const shownProblems = 20

// Problems collects the problems of a file, so that all can be fixed at once.
type Problems struct {
	List []error
	more int
}

// Add adds a problem at a location.
func (p *Problems) Add(where, format string, args ...any) {
	if len(p.List) == shownProblems {
		p.more++
		return
	}
	p.List = append(p.List, fmt.Errorf(where+": "+format, args...))
}

// Keep adds an error that names its location, unless it is nil.
func (p *Problems) Keep(err error) {
	if err != nil {
		p.List = append(p.List, err)
	}
}

// Err returns all problems as one error, nil if there are none.
func (p *Problems) Err() error {
	if p.more > 0 {
		return errors.Join(append(p.List, fmt.Errorf("and %d more problems", p.more))...)
	}
	return errors.Join(p.List...)
}

// Line is one JSON object of a file and its location: "file.jsonl:12", or "file.json[11]" in a JSON array. Its
// methods read fields and keep the first error: a reader reads all fields it needs, then checks [Line.Err].
type Line struct {
	Where  string
	Index  int // among the lines of its file, from 0
	Fields map[string]json.RawMessage
	err    error
}

// Err returns the first error of reading a field.
func (r *Line) Err() error { return r.err }

// ReadLines reads a file of JSON objects: one per line (JSONL), or one array of them.
func ReadLines(path string) ([]*Line, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	var p Problems
	var rows []*Line
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if text := bytes.TrimSpace(b); len(text) > 0 && text[0] == '[' {
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil {
			return nil, fmt.Errorf("%s: %w: want a JSON array of objects", name, err)
		}
		for i, e := range elements {
			rows = appendRow(rows, fmt.Sprintf("%s[%d]", name, i), e, &p)
		}
	} else {
		lines := bufio.NewReader(bytes.NewReader(b))
		for n := 1; ; n++ {
			line, err := lines.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				rows = appendRow(rows, fmt.Sprintf("%s:%d", name, n), line, &p)
			}
			if err == io.EOF {
				break
			}
		}
	}
	if len(rows) == 0 && p.Err() == nil {
		return nil, fmt.Errorf("%s is empty: want JSON objects, one per line", name)
	}
	return rows, p.Err()
}

// EachLine reads a file of lines, calls do with each, and collects their problems.
func EachLine(path string, do func(r *Line) error) error {
	rows, err := ReadLines(path)
	if err != nil {
		return err
	}
	var p Problems
	p.Each(rows, do)
	return p.Err()
}

// Each calls do with each line, and adds its problem: the error of a field that could not be read takes precedence
// over the error of do.
func (p *Problems) Each(rows []*Line, do func(r *Line) error) {
	for _, r := range rows {
		err := do(r)
		if err = cmp.Or(r.err, err); err != nil {
			p.Add(r.Where, "%v", err)
		}
	}
}

func appendRow(rows []*Line, where string, text []byte, p *Problems) []*Line {
	fields, err := readObject(text)
	if err != nil {
		if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Infinity")) {
			p.Add(where, "NaN or Infinity: want finite numbers (leave the line out if there is no prediction)")
		} else {
			p.Add(where, "%v: want a JSON object", err)
		}
		return rows
	}
	return append(rows, &Line{Where: where, Index: len(rows), Fields: fields})
}

// readObject reads a JSON object without duplicate names.
func readObject(text []byte) (fields map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("it is null")
	}
	return fields, namesOnce(text)
}

// ReadJSON reads a file of one JSON value, whose objects have no duplicate names. want describes the value in errors.
func ReadJSON(path string, v any, want string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(raw, v); err == nil {
		err = namesOnce(raw)
	}
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) { // in terms of the file, not of Go
		err = fmt.Errorf("%s is of type %s", cmp.Or(other.Field, "it"), other.Value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: want %s", path, err, want)
	}
	return nil
}

// namesOnce refuses a JSON value in which an object has two fields of the same name: the second would hide the first.
func namesOnce(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return namesOnceIn(d)
}

// namesOnceIn does this for the next value of d.
func namesOnceIn(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	var names map[any]bool
	switch t {
	case json.Delim('{'):
		names = map[any]bool{}
	case json.Delim('['):
	default:
		return nil
	}
	for d.More() {
		if names != nil {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if names[name] {
				return fmt.Errorf("a second %q", name)
			}
			names[name] = true
		}
		if err := namesOnceIn(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the closing bracket
	return err
}

// Has reports whether a field is present and not null.
func (r *Line) Has(field string) bool {
	v, ok := r.Fields[field]
	return ok && string(v) != "null"
}

// First returns the first of several names that the row has, or the first name.
func (r *Line) First(fields ...string) string {
	if at := slices.IndexFunc(fields, r.Has); at >= 0 {
		return fields[at]
	}
	return fields[0]
}

// OneOf refuses a row that has several fields with the same meaning.
func (r *Line) OneOf(fields ...string) {
	has := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return !r.Has(f) })
	if len(has) > 1 {
		r.Fail("%s mean the same here: want only one of them", strings.Join(has, " and "))
	}
}

// Fail sets the error of the line, unless it has one.
func (r *Line) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// Decode reads a field that is not null into a value; want describes it in errors.
func (r *Line) Decode(field, want string, into any) {
	if raw, ok := r.Fields[field]; !ok {
		r.Fail("there is no %q", field)
	} else if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
		r.Fail("%s is %s: want %s", field, Brief(raw), want)
	}
}

// ID returns a field that is a string or a number, as text.
func (r *Line) ID(field string) string {
	var s string
	var n json.Number
	if json.Unmarshal(r.Fields[field], &n) == nil && n != "" && r.Fields[field][0] != '"' {
		return n.String()
	}
	r.Decode(field, "a string or a number", &s)
	return s
}

// Key returns "id" and, if present, "model".
func (r *Line) Key() Key {
	k := Key{ID: r.ID("id")}
	if r.Has("model") {
		k.Model = r.Text("model")
	}
	return k
}

// Editor returns the editor that a line names; "" if it names none.
func (r *Line) Editor() string {
	if field := r.First("method", "model", "editor"); r.Has(field) {
		return r.Text(field)
	}
	return ""
}

// Text returns a string field.
func (r *Line) Text(field string) (s string) {
	r.Decode(field, "a string", &s)
	return s
}

// Filled returns a string field that is not empty.
func (r *Line) Filled(field string) string {
	s := r.Text(field)
	if strings.TrimSpace(s) == "" {
		r.Fail("%s is empty", field)
	}
	return s
}

// Number returns a number field; NaN if it is null.
func (r *Line) Number(field string) float64 {
	v, ok := r.Fields[field]
	if !ok {
		r.Fail("there is no %q", field)
		return math.NaN()
	}
	f, err := ParseNumber(field, v)
	if err != nil {
		r.Fail("%w", err)
	}
	return f
}

// ParseNumber reads a number; null is NaN.
func ParseNumber(field string, v json.RawMessage) (float64, error) {
	if string(v) == "null" {
		return math.NaN(), nil
	}
	var f float64
	if err := json.Unmarshal(v, &f); err != nil {
		return 0, fmt.Errorf("%s is %s: want a finite number", field, Brief(v))
	}
	return f, nil
}

// Numbers returns a field that is a list of numbers, or a single number.
func (r *Line) Numbers(field string) []float64 {
	v, ok := r.Fields[field]
	if !ok {
		r.Fail("there is no %q", field)
		return nil
	}
	list, err := ParseNumbers(field, v)
	if err != nil {
		r.Fail("%w", err)
	}
	return list
}

// ParseNumbers reads a list of numbers; a single number is a list of one.
func ParseNumbers(field string, v json.RawMessage) ([]float64, error) {
	var list []json.RawMessage
	if len(v) == 0 || v[0] != '[' {
		list = []json.RawMessage{v}
	} else if err := json.Unmarshal(v, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s is empty: want at least one number", field)
	}
	out := make([]float64, len(list))
	for i, e := range list {
		f, err := ParseNumber(field, e)
		if err == nil && math.IsNaN(f) {
			err = fmt.Errorf("%s contains null: want finite numbers", field)
		}
		if err != nil {
			return nil, err
		}
		out[i] = f
	}
	return out, nil
}

// Texts returns a list of strings.
func (r *Line) Texts(field string) []string {
	const want = "a list of strings"
	var list []*string
	r.Decode(field, want, &list)
	s := make([]string, len(list))
	for i, text := range list {
		if text == nil {
			r.Fail("%s is %s: want %s", field, Brief(r.Fields[field]), want)
			break
		}
		s[i] = *text
	}
	return s
}

// Object returns an object of strings.
func (r *Line) Object(field string) (m map[string]string) {
	r.Decode(field, "an object of strings", &m)
	return m
}

// Repeats returns a note on how many rows duplicate an earlier row; nil if none does.
func Repeats(rows []*Line) []string {
	seen, n := map[string]bool{}, 0
	for _, r := range rows {
		text, err := json.Marshal(r.Fields) // with sorted keys
		if err != nil {
			continue
		}
		if seen[string(text)] {
			n++
		}
		seen[string(text)] = true
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d rows of the data are duplicates of an earlier row, and count again", n,
		len(rows))}
}

// Brief shortens a JSON value for a message.
func Brief(v json.RawMessage) string {
	if s := string(v); len(s) <= 60 {
		return s
	}
	return string(v[:57]) + "..."
}

// Lines reads the data file that matches patterns, and also returns the folder of its pictures.
func (o Options) Lines(patterns ...string) (rows []*Line, root string, err error) {
	path, err := Locate(o.Data, patterns...)
	if err != nil {
		return nil, "", err
	}
	o.NoteFiles(path)
	if root = o.Images; root == "" {
		root = filepath.Dir(path)
	}
	rows, err = ReadLines(path)
	return rows, root, err
}

// Locate returns the data file: path itself, or the one file of that name in or below the folder path.
func Locate(path string, patterns ...string) (string, error) {
	found, err := LocateAll(path, patterns...)
	if err == nil && len(found) > 1 {
		err = fmt.Errorf("%s contains several (%s): name one of them", path, strings.Join(found, ", "))
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// LocateAll returns the files below a folder whose names match the first of patterns that matches any, sorted; a path
// to a file is returned as it is.
func LocateAll(path string, patterns ...string) ([]string, error) {
	if path == "" {
		return nil, fmt.Errorf("there are no published data: give --ratings (a folder or file with %s)",
			strings.Join(patterns, " or "))
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	for _, pattern := range patterns {
		var found []string
		err := filepath.WalkDir(path, func(file string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if ok, _ := filepath.Match(pattern, d.Name()); ok {
					found = append(found, file)
				}
			}
			return err
		})
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, fmt.Errorf("%s contains no %s", path, strings.Join(patterns, ", no "))
}
