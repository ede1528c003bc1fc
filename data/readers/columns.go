package readers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tabular is the common part of readers of tables.
type tabular struct {
	rows rows
	o    Options
}

// openTabular returns an open function for tables, which read turns into a reader.
func openTabular(
	open func(path string) (rows, error), read func(tabular) Reader,
) func(context.Context, Options) (Reader, error) {
	return func(_ context.Context, o Options) (Reader, error) {
		r, err := open(o.Path)
		if err != nil {
			return nil, err
		}
		return read(tabular{r, o}), nil
	}
}

func (t *tabular) Len() int        { return t.rows.len() }
func (t *tabular) Close() error    { return t.rows.close() }
func (t *tabular) table() *tabular { return t }

// owner is implemented by readers that use more columns than the fields of their layout.
type owner interface {
	owns(column string, all []string) bool
}

// resolve looks for the columns that a table must have: those that its layout needs, and those that the user named.
func resolve(l Layout, r Reader) error {
	t, ok := r.(interface{ table() *tabular })
	if !ok {
		return nil
	}
	var errs []error
	o := t.table().o
	for _, needed := range l.Needed {
		var lacks []error
		fields := strings.Split(needed, "|")
		for _, field := range fields {
			if err := t.table().rows.has(o.Columns[field]); err != nil {
				lacks = append(lacks, fmt.Errorf("%w; name the column for %s in sources[].columns", err, field))
			}
		}
		if len(lacks) == len(fields) {
			errs = append(errs, lacks[0])
		}
	}
	for _, field := range slices.Sorted(maps.Keys(o.mapped)) {
		if _, prefix := r.(*seed); prefix && strings.HasPrefix(field, "turn_") {
			continue // a prefix of several column names
		}
		if slices.Contains(l.Needed, field) {
			continue
		}
		if err := t.table().rows.has(o.Columns[field]); err != nil {
			errs = append(errs, fmt.Errorf("columns: %s: %w", field, err))
		}
	}
	return errors.Join(errs...)
}

// ColumnUse is a column of a table, or a field of its layout without a column.
type ColumnUse struct {
	Field  string `json:"field,omitempty"`  // of the layout; "": the column is not used
	Column string `json:"column,omitempty"` // "": the table has none
	Mapped bool   `json:"mapped,omitempty"` // by the configuration
}

// Columns lists the columns of a table that a reader uses, sorted by field name, and then the unused ones. For tables
// without a header it takes the names in the first records. Readers of other layouts have none.
func Columns(layout string, r Reader) []ColumnUse {
	t, ok := r.(interface{ table() *tabular })
	if !ok {
		return nil
	}
	o, all := t.table().o, t.table().rows.columns()
	var uses []ColumnUse
	used := map[string]bool{}
	for _, field := range slices.Sorted(maps.Keys(layouts[layout].Fields)) {
		u := ColumnUse{Field: field, Mapped: o.mapped[field]}
		if name := o.Columns[field]; slices.Contains(all, name) {
			u.Column, used[name] = name, true
		}
		uses = append(uses, u)
	}
	for _, name := range all {
		own, ok := r.(owner)
		if !used[name] && !(ok && own.owns(name, all)) {
			uses = append(uses, ColumnUse{Column: name})
		}
	}
	return uses
}

// Cells returns the raw values of row i by field; nil for layouts without tables.
func Cells(r Reader, i int) (map[string]any, error) {
	t, ok := r.(interface{ table() *tabular })
	if !ok {
		return nil, nil
	}
	rec, err := t.table().rows.record(i)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for field, name := range t.table().o.Columns {
		if v, ok := rec.Get(name); ok {
			out[field] = v
		}
	}
	return out, nil
}
