package data

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/data/parquet"
)

// cell is a value as it is written to a Parquet column: nil, []byte, bool, int64, float64 or parquet.Image.
func cell(k Kind, v any) (any, error) {
	switch raw, isRaw := v.(json.RawMessage); {
	case k == KindImages:
		return cellImages(v)
	case k == KindJSON && isRaw && !IsNull(v):
		return json.Marshal(raw)
	}
	given := v
	v, err := unwrap(v)
	if err != nil || v == nil {
		return nil, err
	}
	switch k {
	case KindImage:
		m, err := ToImage(v)
		if err != nil || m.IsZero() {
			return nil, err
		}
		return parquet.Image(m), nil
	case KindText:
		s, err := Text(given) // numbers as they are written
		return []byte(s), err
	case KindJSON:
		return json.Marshal(finite(v))
	case KindBool:
		if b, ok := v.(bool); ok {
			return b, nil
		}
		return nil, &kindError{"true or false", v}
	}
	return cellNumber(k, v)
}

// cellNumber is a cell of a KindNumber or KindInteger column.
func cellNumber(k Kind, v any) (any, error) {
	if n, ok := v.(int64); ok && k == KindInteger {
		return n, nil
	}
	x, err := AnyNumber(v)
	if err != nil || x == nil || k == KindInteger && math.IsNaN(*x) {
		return nil, err
	}
	if k == KindNumber {
		return *x, nil
	}
	if float64(int64(*x)) != *x {
		return nil, &kindError{"an integer", v}
	}
	return int64(*x), nil
}

// cellImages is a cell of a list of pictures.
func cellImages(v any) (any, error) {
	list, err := ToImages(v)
	if err != nil || list == nil {
		return nil, err
	}
	out := make([]parquet.Image, len(list))
	for i, m := range list {
		out[i] = parquet.Image(m)
	}
	return out, nil
}

type kindError struct {
	want string
	have any
}

func (e *kindError) Error() string { return "want " + e.want + ", have " + kindOf(e.have) }

// inferColumns finds the columns of a text table, in order of first appearance, and the narrowest kinds that hold all
// their values. It skips rows that cannot be read; reading them again reports the error.
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
			if raw, ok := f.Value.(json.RawMessage); ok && k == KindNumber && isInteger(raw) {
				k = KindText // beyond int64: as float64 different ids could become equal
			}
			if f.Name == sourcesName(t.names) {
				list, err := ToImages(f.Value)
				if err == nil && list == nil {
					continue
				} else if err == nil {
					k = KindImages
				}
			}
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
	case int64:
		return KindInteger
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

// wider returns the kind that holds values of both: numbers hold integers, pictures hold paths, text holds anything
// that can be written as text, JSON holds everything.
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

// CaptionColumns are the columns with the captions of source and target, which are not part of the label table.
var CaptionColumns = []string{"source_caption", "target_caption"}

// WithoutCaptions returns a column map (ours to the table's) without the caption columns.
func WithoutCaptions(columns map[string]string) map[string]string {
	out := maps.Clone(columns)
	maps.DeleteFunc(out, func(ours, _ string) bool { return slices.Contains(CaptionColumns, ours) })
	return out
}

// FindColumns looks for all columns in a column map (ours to the table's): one that no row has is a
// *MissingColumnError. A table without readable rows lacks none.
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
