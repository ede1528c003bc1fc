package data

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
)

// Row is one row of a label table: an edit of a picture, how well it was done, and other annotations.
type Row struct {
	ID          string
	Group       string // the same for all edits of one source picture by one instruction
	Source      Image
	References  []Image // further sources, in order, of a table with a column sources
	Edit        Image
	Target      Image // the wanted result, if known
	Instruction string
	Label       *float64 // 0 (failed) to 1 (done); nil: not labelled
	Why         string   // the rule that assigned the label, or the reason that a judge gave for it
	Method      string   // the editor that made Edit
	ClipD       *float64 // similarities; nil: unknown or undefined. NaN is written as undefined
	ClipI       *float64
	DinoI       *float64
	Split       string // train, validation, ...
	Dataset     string
	Profile     string // definitions, encoders and rules behind label and similarities: name/version

	Annotations // only of tables that are read as [Edits]
}

// Image is a picture in a table: a path, relative to the table's folder, or the bytes of a picture file, or both (the
// path is then only a name).
type Image struct {
	Path  string
	Bytes []byte
}

// IsZero reports whether there is no picture.
func (m Image) IsZero() bool { return m.Path == "" && len(m.Bytes) == 0 }

// Open reads and decodes the picture. Relative paths start at folder (Table.Folder).
func (m Image) Open(folder string, l Limits) (*Picture, error) {
	raw, err := m.Read(folder, l)
	if err != nil {
		return nil, err
	}
	return m.Decode(folder, raw, l)
}

func (m Image) name() string {
	if m.Path == "" {
		return "embedded picture"
	}
	return "embedded picture " + m.Path
}

// MarshalJSON writes only the path if there are no bytes, null if there is no picture.
func (m Image) MarshalJSON() ([]byte, error) {
	switch {
	case m.IsZero():
		return []byte("null"), nil
	case len(m.Bytes) == 0:
		return json.Marshal(m.Path)
	}
	return json.Marshal(struct {
		Bytes string  `json:"bytes"`
		Path  *string `json:"path"`
	}{base64.StdEncoding.EncodeToString(m.Bytes), nonEmpty(m.Path)})
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// LabelColumns are the columns of a label table.
var LabelColumns = []Column{
	{"id", KindText}, {"group", KindText}, {"source", KindImage}, {"edit", KindImage}, {"target", KindImage},
	{"instruction", KindText}, {"label", KindNumber}, {"why", KindText}, {"method", KindText}, {"clip_d", KindNumber},
	{"clip_i", KindNumber}, {"dino_i", KindNumber}, {"split", KindText}, {"dataset", KindText},
	{"profile", KindText},
}

// pointers are the row's fields in the order of LabelColumns.
func (r *Row) pointers() []any {
	return []any{&r.ID, &r.Group, &r.Source, &r.Edit, &r.Target, &r.Instruction, &r.Label, &r.Why, &r.Method, &r.ClipD,
		&r.ClipI, &r.DinoI, &r.Split, &r.Dataset, &r.Profile}
}

// Record returns the row with all columns of the label table.
func (r Row) Record() Record {
	var out Record
	for i, p := range r.pointers() {
		var v any
		switch p := p.(type) {
		case *string:
			v = *p
		case *Image:
			v = *p
		case **float64:
			if *p != nil {
				v = **p
			}
		}
		out.Fields = append(out.Fields, Field{LabelColumns[i].Name, v})
	}
	if len(r.References) > 0 {
		out.Set("source", nil)
		out.Set(sourcesColumn, r.Sources())
	}
	return out
}

// rowOf reads a label row from a record. names: column of the label table -> its name in the record. Missing columns
// leave their field empty, unless required. only: the columns that are read, nil for all.
func rowOf(rec *Record, names map[string]string, required, only []string) (Row, error) {
	var r Row
	for i, p := range r.pointers() {
		name := LabelColumns[i].Name
		if only != nil && !slices.Contains(only, name) {
			continue
		}
		if own, ok := names[name]; ok {
			name = own
		}
		v, ok := rec.Get(name)
		if !ok {
			continue
		}
		var err error
		switch p := p.(type) {
		case *string:
			*p, err = Prose(v)
		case *Image:
			*p, err = ToImage(v)
		case **float64:
			if *p, err = Number(v); err == nil && LabelColumns[i].Name == "label" {
				*p, err = Finite(v)
			}
		}
		if err != nil {
			return r, fmt.Errorf("column %q: %w", name, err)
		}
	}
	if only == nil || slices.Contains(only, "source") {
		if err := r.readSources(rec, names); err != nil {
			return r, err
		}
	}
	if err := r.checkRequired(rec, names, required); err != nil {
		return r, err
	}
	if r.Label != nil && !(0 <= *r.Label && *r.Label <= 1) {
		return r, &LabelRangeError{*r.Label}
	}
	return r, nil
}

// checkRequired refuses a row whose record lacks a required column or has null in it.
func (r *Row) checkRequired(rec *Record, names map[string]string, required []string) error {
	for _, name := range required {
		if name == "source" && !r.Source.IsZero() {
			continue
		}
		own := name
		if n, ok := names[name]; ok {
			own = n
		}
		v, ok := rec.Get(own)
		if !ok {
			return &MissingColumnError{Column: name, Name: own, Have: rec.names()}
		}
		if m, err := unwrap(v); err != nil || m == nil {
			return fmt.Errorf("column %q is null", own)
		}
	}
	return nil
}

// LabelRangeError reports a label outside 0..1.
type LabelRangeError struct{ Label float64 }

func (e *LabelRangeError) Error() string {
	return fmt.Sprintf("label %v is outside 0..1: divide the labels by their largest value", e.Label)
}

// MissingColumnError reports that a table, or a row of it, lacks a column.
type MissingColumnError struct {
	Column string   // of the label table
	Name   string   // its name in the file
	Have   []string // the columns that are there
}

func (e *MissingColumnError) Error() string {
	return fmt.Sprintf("no column %q, only %s%s", e.Name, list(e.Have), delimiterHint(e.Have))
}

func (r *Record) names() []string {
	out := make([]string, len(r.Fields))
	for i, f := range r.Fields {
		out[i] = f.Name
	}
	return out
}
