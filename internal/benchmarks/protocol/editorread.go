package protocol

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Read implements Set.
func (s *EditorSet) Read(path string) (Predictions, error) { return ReadOne(s, path) }

// ReadAll implements Mixed.
func (s *EditorSet) ReadAll(paths []string) ([]Editor, error) {
	found, order := map[string]*EditorPredictions{}, []string{}
	of := func(name string) *EditorPredictions {
		if found[name] == nil {
			found[name], order = s.blank(name), append(order, name)
		}
		return found[name]
	}
	var p Problems
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir() && s.Own != nil:
			err = s.Own(path, of(EditorName(path)))
		case !info.IsDir():
			err = s.readFile(path, of, &p)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	var out []Editor
	for _, name := range order {
		if j := found[name]; len(j.Values) > 0 {
			if err := j.finish(); err != nil {
				return nil, err
			}
			out = append(out, Editor{name, j})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no measurements of the editors: give --components, --component, --scorer or --judge")
	}
	for _, editor := range s.Editors {
		if j := found[EditorName(editor)]; j == nil || len(j.Values) == 0 {
			first := out[0].Predictions.(*EditorPredictions)
			first.Notes = append(first.Notes, "no measurements of "+EditorName(editor)+", which is left out")
		}
	}
	return out, nil
}

func (s *EditorSet) readFile(path string, of func(string) *EditorPredictions, p *Problems) (err error) {
	var rows []*Line
	name := ""
	if s.Table != nil && !strings.HasPrefix(filepath.Ext(path), ".json") {
		name, rows, err = s.Table(path)
	} else {
		rows, err = ReadLines(path)
	}
	if err != nil {
		return err
	}
	by, err := RunOf(path)
	p.Each(rows, func(r *Line) error { return s.readRow(r, name, by, of) })
	return err
}

// readRow reads the columns of a sample, from fields of the line or from "dimensions", where a judge writes them.
func (s *EditorSet) readRow(r *Line, editor, by string, of func(string) *EditorPredictions) error {
	id := r.ID("id")
	editor = cmp.Or(r.Editor(), editor)
	if r.err != nil {
		return r.err
	}
	i, ok := s.Index[id]
	if !ok {
		return fmt.Errorf("%q is not a sample of the data: want an id such as %q", id, s.Samples[0].Item.ID)
	}
	j := of(editor)
	if err := ReadBy(r, j.by, nil); err != nil {
		return err
	}
	fields := maps.Clone(r.Fields)
	if r.Has("dimensions") {
		var inner map[string]json.RawMessage
		r.Decode("dimensions", "an object of numbers", &inner)
		for name, v := range inner { // a judge may have numbers that the benchmark lacks
			for _, names := range s.Fields {
				if _, twice := r.Fields[name]; twice && slices.Contains(names, name) {
					return fmt.Errorf("%s is both in the line and in its dimensions: want only one of them", name)
				}
				if slices.Contains(names, name) {
					fields[name] = v
				}
			}
		}
	}
	if err := j.known(fields, by); err != nil {
		return err
	}
	return j.SetAll(fields, i, by, r.Where)
}

// known refuses a number whose name the benchmark does not have: it may be a typo. It is accepted if the row's "by"
// states what measured it, as for another metric, or if a judge wrote it.
func (j *EditorPredictions) known(fields map[string]json.RawMessage, judge string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		column := j.column(name)
		if isKey(name) || judge != "" || j.by[column] != "" || slices.Contains(j.EditorSet.Columns, column) {
			continue
		}
		if v, err := ParseNumber(name, fields[name]); err == nil && !math.IsNaN(v) {
			return fmt.Errorf("%q is not a number of %s: want one of %s (for another metric, add \"by\": {%q: METRIC})",
				name, j.Name, strings.Join(j.EditorSet.Columns, ", "), name)
		}
	}
	return nil
}

// isKey reports whether a field that may hold a number is not a column.
func isKey(field string) bool {
	return slices.Contains([]string{"id", "row", "orders"}, field)
}

// column returns the column of a field in files.
func (s *EditorSet) column(field string) string {
	for c, names := range s.Fields {
		if slices.Contains(names, field) {
			return c
		}
	}
	return field
}

// SetAll sets the columns that fields contain. Other numeric fields become columns under their own names.
func (j *EditorPredictions) SetAll(fields map[string]json.RawMessage, i int, by, where string) error {
	any := false
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		column := j.column(name)
		v, err := ParseNumber(name, fields[name])
		if isKey(name) || err != nil && !slices.Contains(j.EditorSet.Columns, column) || math.IsNaN(v) {
			continue
		}
		if err != nil {
			return err
		}
		if own := column == "score" && (by != "" || fields["of"] != nil); !own { // a run's own score
			if v, err = j.stated(column, i, v); err != nil {
				return err
			}
		}
		if err := j.Set(column, by, i, v, where); err != nil {
			return err
		}
		if by != "" && j.by[column] == "" {
			j.by[column] = by
		}
		any = true
	}
	if !any {
		return fmt.Errorf("there is no number: want one of %s", strings.Join(j.EditorSet.Columns, ", "))
	}
	return nil
}

// stated checks a number from a file, and converts it to the scale of its column.
func (j *EditorPredictions) stated(column string, i int, v float64) (float64, error) {
	if of, ok := j.Pooled[column]; ok {
		return 0, fmt.Errorf("%s is computed from %s: give those instead", column, strings.Join(of, ", "))
	}
	b, ok := j.Bounds[column]
	if !ok {
		b, ok = BoundsOf(column)
	}
	if ok {
		if err := b.Check(column, v); err != nil {
			return 0, err
		}
	}
	if j.Strict && j.Lacks(i, column) {
		return 0, fmt.Errorf("%s has no %s by the rule of the benchmark", j.Samples[i].Item.ID, column)
	}
	if scale := j.Scale[column]; scale != nil {
		v = scale(v)
	}
	return v, nil
}
