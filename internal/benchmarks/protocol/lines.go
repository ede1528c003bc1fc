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

// shownProblems is how many problems of one file are told; the rest is counted.
const shownProblems = 20

// Problems gathers what is wrong in a file, so that it can be mended in one go.
type Problems struct {
	List []error
	more int
}

// Add adds a problem at a place.
func (p *Problems) Add(where, format string, args ...any) {
	if len(p.List) == shownProblems {
		p.more++
		return
	}
	p.List = append(p.List, fmt.Errorf(where+": "+format, args...))
}

// Err returns all problems as one error, nil if there are none.
func (p *Problems) Err() error {
	if p.more > 0 {
		return errors.Join(append(p.List, fmt.Errorf("and %d more problems", p.more))...)
	}
	return errors.Join(p.List...)
}

// Line is one JSON object of a file and its place: "file.jsonl:12", or "file.json[11]" in a JSON array.
type Line struct {
	Where  string
	Fields map[string]json.RawMessage
}

// ReadLines reads a file of JSON objects: one a line (JSONL), or one array of them.
func ReadLines(path string) ([]Line, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	var p Problems
	var rows []Line
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if text := bytes.TrimSpace(b); len(text) > 0 && text[0] == '[' {
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil {
			return nil, fmt.Errorf("%s: %w: a JSON array of objects was expected", name, err)
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
		return nil, fmt.Errorf("%s is empty: JSON objects, one a line, were expected", name)
	}
	return rows, p.Err()
}

func appendRow(rows []Line, where string, text []byte, p *Problems) []Line {
	fields, err := readObject(text)
	if err != nil {
		if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Infinity")) {
			p.Add(where, "NaN or Infinity: finite numbers were expected (leave the line out if there is no prediction)")
		} else {
			p.Add(where, "%v: a JSON object was expected", err)
		}
		return rows
	}
	return append(rows, Line{Where: where, Fields: fields})
}

// readObject reads a JSON object, in which no name is there twice.
func readObject(text []byte) (fields map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("it is null")
	}
	return fields, namesOnce(text)
}

// ReadJSON reads a file of one JSON value, in which no name is there twice in an object. want says what was expected.
func ReadJSON(path string, v any, want string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(raw, v); err == nil {
		err = namesOnce(raw)
	}
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) { // in the file's words, not in Go's
		err = fmt.Errorf("%s is of type %s", cmp.Or(other.Field, "it"), other.Value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s was expected", path, err, want)
	}
	return nil
}

// namesOnce refuses a JSON value with an object that has two fields of one name: the second would hide the first.
func namesOnce(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return namesOnceIn(d)
}

// namesOnceIn does it for the next value.
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
	_, err = d.Token() // the bracket at its end
	return err
}

// Has reports whether a field is there and not null.
func (r Line) Has(field string) bool {
	v, ok := r.Fields[field]
	return ok && string(v) != "null"
}

// First returns the first of several names that the row has, or the first name.
func (r Line) First(fields ...string) string {
	for _, f := range fields {
		if r.Has(f) {
			return f
		}
	}
	return fields[0]
}

// OneOf refuses a row that has several of the names of one thing.
func (r Line) OneOf(fields ...string) error {
	has := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return !r.Has(f) })
	if len(has) > 1 {
		return fmt.Errorf("%s are one thing here: one of them was expected", strings.Join(has, " and "))
	}
	return nil
}

// ID returns a field that is a string or a number, as text.
func (r Line) ID(field string) (string, error) {
	v, ok := r.Fields[field]
	if !ok {
		return "", fmt.Errorf("there is no %q", field)
	}
	var n json.Number
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s, nil
	}
	if json.Unmarshal(v, &n) == nil && n != "" {
		return n.String(), nil
	}
	return "", fmt.Errorf("%s is %s: a string or a number was expected", field, Brief(v))
}

// Text returns a string field.
func (r Line) Text(field string) (string, error) {
	var s string
	v, ok := r.Fields[field]
	if !ok {
		return "", fmt.Errorf("there is no %q", field)
	}
	if err := json.Unmarshal(v, &s); err != nil || string(v) == "null" {
		return "", fmt.Errorf("%s is %s: a string was expected", field, Brief(v))
	}
	return s, nil
}

// Filled returns a string field that is not empty.
func (r Line) Filled(field string) (string, error) {
	s, err := r.Text(field)
	if err == nil && strings.TrimSpace(s) == "" {
		err = fmt.Errorf("%s is empty", field)
	}
	return s, err
}

// Number returns a number field; NaN and no error when it is null.
func (r Line) Number(field string) (float64, error) {
	v, ok := r.Fields[field]
	if !ok {
		return 0, fmt.Errorf("there is no %q", field)
	}
	return ParseNumber(field, v)
}

// ParseNumber reads a number; null is NaN.
func ParseNumber(field string, v json.RawMessage) (float64, error) {
	if string(v) == "null" {
		return math.NaN(), nil
	}
	var f float64
	if err := json.Unmarshal(v, &f); err != nil {
		return 0, fmt.Errorf("%s is %s: a finite number was expected", field, Brief(v))
	}
	return f, nil
}

// Numbers returns a field that is a list of numbers, or a single number.
func (r Line) Numbers(field string) ([]float64, error) {
	v, ok := r.Fields[field]
	if !ok {
		return nil, fmt.Errorf("there is no %q", field)
	}
	return ParseNumbers(field, v)
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
		return nil, fmt.Errorf("%s is empty: at least one number was expected", field)
	}
	out := make([]float64, len(list))
	for i, e := range list {
		f, err := ParseNumber(field, e)
		if err != nil {
			return nil, err
		}
		if math.IsNaN(f) {
			return nil, fmt.Errorf("%s holds null: finite numbers were expected", field)
		}
		out[i] = f
	}
	return out, nil
}

// Texts returns a list of strings.
func (r Line) Texts(field string) ([]string, error) {
	v, ok := r.Fields[field]
	if !ok {
		return nil, fmt.Errorf("there is no %q", field)
	}
	var list []*string
	if err := json.Unmarshal(v, &list); err != nil || list == nil || slices.Contains(list, nil) {
		return nil, fmt.Errorf("%s is %s: a list of strings was expected", field, Brief(v))
	}
	s := make([]string, len(list))
	for i, text := range list {
		s[i] = *text
	}
	return s, nil
}

// Object returns an object of strings.
func (r Line) Object(field string) (map[string]string, error) {
	var m map[string]string
	if err := json.Unmarshal(r.Fields[field], &m); err != nil || m == nil {
		return nil, fmt.Errorf("%s is %s: an object of strings was expected", field, Brief(r.Fields[field]))
	}
	return m, nil
}

// Repeats says how many rows say just what an earlier one says; nothing if none does.
func Repeats(rows []Line) []string {
	seen, n := map[string]bool{}, 0
	for _, r := range rows {
		text, err := json.Marshal(r.Fields) // keys come sorted
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
	return []string{fmt.Sprintf("%d of %d rows of the data say just what an earlier row says, and count again", n,
		len(rows))}
}

// Brief shortens a JSON value for a message.
func Brief(v json.RawMessage) string {
	if s := string(v); len(s) <= 60 {
		return s
	}
	return string(v[:57]) + "..."
}

// Lines reads the data file that patterns name, and returns the folder of its pictures, too.
func (o Options) Lines(patterns ...string) (rows []Line, root string, err error) {
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
		err = fmt.Errorf("%s holds several (%s): name one of them", path, strings.Join(found, ", "))
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// LocateAll returns the files below a folder whose names match the first of patterns that matches any, sorted; a file
// stands for itself.
func LocateAll(path string, patterns ...string) ([]string, error) {
	if path == "" {
		return nil, fmt.Errorf("the published data are not named: give --ratings (a folder or file with %s)",
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
	return nil, fmt.Errorf("%s holds no %s", path, strings.Join(patterns, ", no "))
}
