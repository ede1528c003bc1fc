// Package strictyaml decodes YAML files into Go structs and reports all problems at once, each with file, line and
// column. A decoder that stops at the first mistake makes the user rerun a command once per mistake. [Decode]
// collects unknown keys and wrong types; callers add their own problems to the [Document] and get all of them from
// [Document.Err].
//
// Struct fields are named by their `yaml` tags, as in goccy/go-yaml. Keys that are absent or null leave the field
// unchanged, so set defaults before decoding.
package strictyaml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Problem is one mistake in a file.
type Problem struct {
	File         string
	Line, Column int    // from 1
	Key          string // path of the key, such as "lora.rank"; empty for the file as a whole
	Text         string
}

// String returns "file:line:column: key: text".
func (p Problem) String() string {
	if p.File == "" && p.Key != "" { // not in a file, but for example in flags
		return p.Key + ": " + p.Text
	}
	if p.Key == "" {
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Key, p.Text)
}

// Problems are all mistakes in a file, in line order. It implements error.
type Problems []Problem

// Error lists the problems, one per line.
func (p Problems) Error() string {
	return strings.Join(p.Problems(), "\n")
}

// Unmarshaler is implemented by fields that accept more than one form (a number or a word, a string or a list). The
// value is nil, bool, int64, uint64, float64, string, []any or map[string]any.
type Unmarshaler interface {
	UnmarshalValue(value any) error
}

// EntryUnmarshaler is implemented by mappings whose order counts. It gets the keys with their values, as in
// Unmarshaler, in the order of the file.
type EntryUnmarshaler interface {
	UnmarshalEntry(key string, value any) error
}

// Defaulter is implemented by structs that are held by pointer and have defaults, which are set before decoding.
type Defaulter interface {
	SetDefaults()
}

// Absolute resolves a path in a file relative to the folder of the file; an empty path stays empty.
func Absolute(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// position is the location of a key.
type position struct {
	line, column int
	null         bool // its value is null
}

// Document is a decoded file. It keeps the position of every key for the messages of later checks.
type Document struct {
	File     string
	at       map[string]position
	problems Problems

	// Unreadable: the file is not YAML, and nothing was decoded. Checks of values would only mislead.
	Unreadable bool
}

// ReadFile returns the text of a configuration, and the absolute folder that its relative paths start from.
func ReadFile(path string) (text []byte, folder string, err error) {
	text, err = os.ReadFile(path)
	if err == nil {
		folder, err = filepath.Abs(filepath.Dir(path))
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the configuration: %w", err)
	}
	return text, folder, nil
}

// Decode decodes text into v, a pointer to a struct. Mistakes are collected in the document: the caller adds its own
// and gets all of them from Err.
func Decode(file string, text []byte, v any) *Document {
	d := &Document{File: file, at: map[string]position{}}
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return d
	}
	bodies := make([]ast.Node, 0, 1)
	for _, doc := range tree.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.NullType && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	if len(bodies) == 0 {
		return d
	}
	if len(bodies) > 1 {
		d.add(bodies[1], "", "a second document: a file must contain only one")
	}
	w := walker{Document: d, anchors: map[string]ast.Node{}}
	w.root(bodies[0], v)
	return d
}

func (d *Document) syntax(err error) {
	p := Problem{File: d.File, Line: 1, Column: 1, Text: err.Error()}
	var e yaml.Error
	if errors.As(err, &e) {
		p.Text = e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	d.problems, d.Unreadable = append(d.problems, p), true
}

func (d *Document) add(n ast.Node, key, format string, args ...any) {
	p := Problem{File: d.File, Line: 1, Column: 1, Key: key, Text: fmt.Sprintf(format, args...)}
	if t := n.GetToken(); t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	d.problems = append(d.problems, p)
}

// Has reports whether the file sets the key ("lora.r"). A null value counts as absent.
func (d *Document) Has(key string) bool {
	at, ok := d.at[key]
	return ok && !at.null
}

// Problem records a mistake at a key, or at its nearest parent if the file does not have the key.
func (d *Document) Problem(key, format string, args ...any) {
	p := Problem{File: d.File, Line: 1, Column: 1, Key: key, Text: fmt.Sprintf(format, args...)}
	for k := key; k != ""; {
		if at, ok := d.at[k]; ok {
			p.Line, p.Column = at.line, at.column
			break
		}
		i := strings.LastIndexByte(k, '.')
		k = k[:max(i, 0)]
	}
	d.problems = append(d.problems, p)
}

// Want records a problem at a key unless ok is set or the key already has a problem.
func (d *Document) Want(ok bool, key, format string, args ...any) {
	if !ok && !d.Bad(key) {
		d.Problem(key, format, args...)
	}
}

// Bad reports whether a problem was recorded at the key or below it, so that checks of its value can be skipped.
func (d *Document) Bad(key string) bool {
	for _, p := range d.problems {
		if p.Key == key || strings.HasPrefix(p.Key, key+".") || strings.HasPrefix(p.Key, key+"[") {
			return true
		}
	}
	return false
}

// Err returns all problems as a Problems, or nil.
func (d *Document) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	sort.SliceStable(d.problems, func(i, j int) bool {
		a, b := d.problems[i], d.problems[j]
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	return d.problems
}

// Problems lists the mistakes as strings.
func (p Problems) Problems() []string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = x.String()
	}
	return lines
}
