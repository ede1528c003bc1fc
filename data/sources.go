package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sourcesColumn is the column with a list of pictures, instead of the column source, for edits of several pictures.
const sourcesColumn = "sources"

// Sources are all pictures that the edit was made from: Source, then References.
func (r *Row) Sources() []Image {
	if r.Source.IsZero() {
		return nil
	}
	return append([]Image{r.Source}, r.References...)
}

// SourcesKey distinguishes the sources of rows of one table without reading their files.
func (r *Row) SourcesKey() string {
	var b strings.Builder
	for _, m := range r.Sources() {
		fmt.Fprintf(&b, "%q %q ", m.Path, m.key())
	}
	return b.String()
}

// ToImages returns a value as pictures: a list of values that [ToImage] accepts, or its JSON text, as in CSV. It
// returns nil for null; an empty list, or a list with a null, is an error.
func ToImages(v any) ([]Image, error) {
	if list, ok := v.([]Image); ok {
		return list, nil
	}
	list, _, err := listOf(v, "pictures (paths, or {path, bytes})")
	if err != nil || list == nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("the list of pictures is empty")
	}
	out := make([]Image, len(list))
	for i, v := range list {
		if out[i], err = ToImage(v); err == nil && out[i].IsZero() {
			err = errors.New("no picture")
		}
		if err != nil {
			return nil, fmt.Errorf("picture %d of the list: %w", i+1, err)
		}
	}
	return out, nil
}

// listOf returns the elements of a list in a table cell; nil for null. text: the list was JSON text. want names the
// elements in errors.
func listOf(v any, want string) (list []any, text bool, err error) {
	raw, isRaw := v.(json.RawMessage)
	if !isRaw || len(raw) > 0 && raw[0] == '"' {
		if v, err = unwrap(v); err != nil {
			return nil, false, err
		}
		raw = nil
	}
	switch v := v.(type) {
	case nil:
		return nil, false, nil
	case []any:
		return v, false, nil
	case string:
		if strings.TrimSpace(v) == "" {
			return nil, false, nil
		}
		raw, text = json.RawMessage(strings.TrimSpace(v)), true
		if raw[0] != '[' {
			return nil, false, fmt.Errorf("want a list of %s, have %s", want, kindOf(v))
		}
	}
	if string(raw) == "null" {
		return nil, false, nil
	}
	var each []json.RawMessage
	if raw == nil {
		return nil, false, fmt.Errorf("want a list of %s, have %s", want, kindOf(v))
	}
	if json.Unmarshal(raw, &each) != nil {
		return nil, text, fmt.Errorf("want a list of %s, have %.40s", want, raw)
	}
	list = make([]any, len(each))
	for i, e := range each {
		list[i] = e
	}
	return list, text, nil
}

// sourcesName is the table's name of the column sources; "" if the column map has source instead, so that a column
// called sources is not ours.
func sourcesName(names map[string]string) string {
	if own, ok := names[sourcesColumn]; ok {
		return own
	}
	if _, ok := names["source"]; ok {
		return ""
	}
	return sourcesColumn
}

// readSources reads the column sources, if it holds a list.
func (r *Row) readSources(rec *Record, names map[string]string) error {
	name := sourcesName(names)
	v, ok := rec.Get(name)
	if !ok || name == "" {
		return nil
	}
	_, _, err := listOf(v, "pictures (paths, or {path, bytes})")
	if err != nil && !r.Source.IsZero() && names[sourcesColumn] == "" {
		return nil // a column of that name with other content
	}
	list, err := ToImages(v)
	switch {
	case err != nil:
		return fmt.Errorf("column %q: %w", name, err)
	case len(list) == 0:
		return nil
	case !r.Source.IsZero():
		return fmt.Errorf("the row has both a source and a list %q: keep one of them", name)
	}
	r.Source, r.References = list[0], list[1:]
	return nil
}

// hasSource reports whether the columns include sources.
func hasSource(have []string, names map[string]string) bool {
	name := sourcesName(names)
	return name != "" && slices.Contains(have, name)
}
