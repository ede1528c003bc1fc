package data

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// orderedGroup is the root of a schema whose fields have a given order. (parquet.Group sorts them by name.)
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (o orderedGroup) Fields() []parquet.Field { return o.fields }

// GoType is needed by the interface alone: rows are not read by reflection here.
func (o orderedGroup) GoType() reflect.Type { return reflect.TypeFor[map[string]any]() }

// binary returns the paths of the leaves that hold binary data.
func (o orderedGroup) binary() (paths [][]string) {
	var walk func(path []string, n parquet.Node)
	walk = func(path []string, n parquet.Node) {
		if n.Leaf() {
			if n.Type().Kind() == parquet.ByteArray && n.Type().LogicalType() == nil {
				paths = append(paths, path)
			}
			return
		}
		for _, f := range n.Fields() {
			walk(append(path[:len(path):len(path)], f.Name()), f)
		}
	}
	walk(nil, o)
	return paths
}

func (k Kind) node() parquet.Node {
	n := parquet.String()
	switch k {
	case KindNumber:
		n = parquet.Leaf(parquet.DoubleType)
	case KindInteger:
		n = parquet.Leaf(parquet.Int64Type)
	case KindBool:
		n = parquet.Leaf(parquet.BooleanType)
	case KindImage:
		n = parquet.Group{
			"bytes": parquet.Optional(parquet.Leaf(parquet.ByteArrayType)),
			"path":  parquet.Optional(parquet.String()),
		}
	}
	return parquet.Optional(n)
}

// feature is the column's type for Hugging Face `datasets`.
func (k Kind) feature() map[string]string {
	switch k {
	case KindImage:
		return map[string]string{"_type": "Image"}
	case KindNumber:
		return map[string]string{"dtype": "float64", "_type": "Value"}
	case KindInteger:
		return map[string]string{"dtype": "int64", "_type": "Value"}
	case KindBool:
		return map[string]string{"dtype": "bool", "_type": "Value"}
	}
	return map[string]string{"dtype": "string", "_type": "Value"}
}

// features is the metadata in which `datasets` keeps the columns' types: that of like, with columns added. A file
// without such metadata gets none.
func features(like *parquetTable, columns []Column) string {
	var meta struct {
		Info struct {
			Features map[string]any `json:"features"`
		} `json:"info"`
	}
	meta.Info.Features = map[string]any{}
	if like != nil {
		text, ok := like.data.Lookup("huggingface")
		if !ok || json.Unmarshal([]byte(text), &meta) != nil {
			return ""
		}
	}
	for _, c := range columns {
		meta.Info.Features[c.Name] = c.Kind.feature()
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return ""
	}
	return string(raw)
}

// values returns a value as the leaf values of a column of this kind, with their definition levels.
func (k Kind) values(v any) ([]parquet.Value, error) {
	v, err := unwrap(v)
	if err != nil {
		return nil, err
	}
	if k == KindImage {
		m, err := ToImage(v)
		null := parquet.NullValue()
		if err != nil || m.IsZero() {
			return []parquet.Value{null, null}, err
		}
		bytes, path := null.Level(0, 1, 0), null.Level(0, 1, 0)
		if len(m.Bytes) > 0 {
			bytes = parquet.ByteArrayValue(m.Bytes).Level(0, 2, 0)
		}
		if m.Path != "" {
			path = parquet.ByteArrayValue([]byte(m.Path)).Level(0, 2, 0)
		}
		return []parquet.Value{bytes, path}, nil
	}
	out, err := k.scalar(v)
	if err == nil && !out.IsNull() {
		out = out.Level(0, 1, 0)
	}
	return []parquet.Value{out}, err
}

func (k Kind) scalar(v any) (parquet.Value, error) {
	null := parquet.NullValue()
	if v == nil {
		return null, nil
	}
	switch k {
	case KindText:
		s, err := Text(v)
		return parquet.ByteArrayValue([]byte(s)), err
	case KindJSON:
		raw, err := json.Marshal(finite(v))
		return parquet.ByteArrayValue(raw), err
	case KindBool:
		if b, ok := v.(bool); ok {
			return parquet.BooleanValue(b), nil
		}
		return null, &kindError{"true or false", v}
	}
	x, err := AnyNumber(v)
	if err != nil || x == nil || k == KindInteger && math.IsNaN(*x) {
		return null, err
	}
	if k == KindNumber {
		return parquet.DoubleValue(*x), nil
	}
	if float64(int64(*x)) != *x {
		return null, &kindError{"an integer", v}
	}
	return parquet.Int64Value(int64(*x)), nil
}

type kindError struct {
	want string
	have any
}

func (e *kindError) Error() string { return "want " + e.want + ", have " + kindOf(e.have) }

// inferColumns finds the columns of a text table, in the order in which they first appear, and the narrowest kinds
// that hold all their values. It skips rows that cannot be read, which are reported when they are read again.
func (t *Table) inferColumns() ([]Column, error) {
	var columns []Column
	at := map[string]int{}
	seen := map[string]bool{} // columns with a value
	for rec, err := range t.Records() {
		if err != nil {
			continue
		}
		for _, f := range rec.Fields {
			i, ok := at[f.Name]
			if !ok {
				i = len(columns)
				at[f.Name] = i
				columns = append(columns, Column{f.Name, KindText})
			}
			v, err := unwrap(f.Value)
			if err != nil || v == nil {
				continue
			}
			k := kindFor(v)
			if seen[f.Name] {
				k = wider(columns[i].Kind, k)
			}
			seen[f.Name] = true
			columns[i].Kind = k
		}
	}
	return columns, nil
}

func kindFor(v any) Kind {
	switch v := v.(type) {
	case bool:
		return KindBool
	case float64:
		if v == float64(int64(v)) && v > -1<<53 && v < 1<<53 {
			return KindInteger
		}
		return KindNumber
	case string:
		return KindText
	case Record:
		other := func(name string) bool { return name != "path" && name != "bytes" }
		if _, err := ToImage(v); err == nil && !slices.ContainsFunc(v.names(), other) {
			return KindImage
		}
	}
	return KindJSON
}

// wider returns the kind that holds values of both: numbers hold integers, pictures hold paths, text holds what can be
// written as text, JSON everything.
func wider(a, b Kind) Kind {
	if a > b {
		a, b = b, a
	}
	switch {
	case a == b:
		return a
	case a == KindNumber && b == KindInteger:
		return KindNumber
	case a == KindText && b == KindImage:
		return KindImage
	case a == KindText && b <= KindBool:
		return KindText
	}
	return KindJSON
}

// CaptionColumns are those of the captions of source and target, which no label table has.
var CaptionColumns = []string{"source_caption", "target_caption"}

// WithoutCaptions is a map of our columns to the table's, but for those of captions.
func WithoutCaptions(columns map[string]string) map[string]string {
	out := maps.Clone(columns)
	maps.DeleteFunc(out, func(ours, _ string) bool { return slices.Contains(CaptionColumns, ours) })
	return out
}

// FindColumns looks for the columns that a map of ours to the table's names: one that no row has is a
// *MissingColumnError. A table without rows that can be read lacks none.
func (t *Table) FindColumns(columns map[string]string) error {
	if len(columns) == 0 {
		return nil // and no row is read
	}
	wanted := maps.Clone(columns)
	var have []string
	for rec, err := range t.Records() {
		if err != nil {
			continue
		}
		if have == nil {
			have = rec.names()
		}
		maps.DeleteFunc(wanted, func(_, name string) bool {
			_, ok := rec.Get(name)
			return ok
		})
		if len(wanted) == 0 {
			return nil
		}
	}
	if have == nil {
		return nil
	}
	ours := slices.Sorted(maps.Keys(wanted))[0]
	return fmt.Errorf("%s: %w", t.Path(), &MissingColumnError{Column: ours, Name: wanted[ours], Have: have})
}
