package benchmarks

import (
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
func (s *graded) Read(path string) (Predictions, error) {
	list, err := s.ReadAll([]string{path})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%s holds %d editors: give it as --components", filepath.Base(path), len(list))
	}
	return list[0].Predictions, nil
}

// ReadAll implements Mixed.
func (s *graded) ReadAll(paths []string) ([]Editor, error) {
	found, order := map[string]*gradedPredictions{}, []string{}
	of := func(name string) *gradedPredictions {
		if found[name] == nil {
			found[name], order = s.blank(name), append(order, name)
		}
		return found[name]
	}
	var p problems
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir() && s.own != nil:
			err = s.own(path, of(editorName(path)))
		case !info.IsDir():
			err = s.readFile(path, of, &p)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	var out []Editor
	for _, name := range order {
		if j := found[name]; len(j.values) > 0 {
			if err := j.finish(); err != nil {
				return nil, err
			}
			out = append(out, Editor{name, j})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nothing was measured of the editors: give --components, --component, --scorer or --judge")
	}
	for _, editor := range s.editors {
		if j := found[editorName(editor)]; j == nil || len(j.values) == 0 {
			first := out[0].Predictions.(*gradedPredictions)
			first.notes = append(first.notes, "nothing was measured of "+editorName(editor)+", which is left out")
		}
	}
	return out, nil
}

func (s *graded) readFile(path string, of func(string) *gradedPredictions, p *problems) (err error) {
	var rows []row
	name := ""
	if s.table != nil && !strings.HasPrefix(filepath.Ext(path), ".json") {
		name, rows, err = s.table(path)
	} else {
		rows, err = readRows(path)
	}
	if err != nil {
		return err
	}
	by, err := runOf(path)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := s.readRow(r, name, by, of); err != nil {
			p.add(r.where, "%v", err)
		}
	}
	return nil
}

// readRow reads columns of a sample, by their names or in "dimensions", where a judge's are.
func (s *graded) readRow(r row, editor, by string, of func(string) *gradedPredictions) error {
	id, err := r.id("id")
	if err != nil {
		return err
	}
	i, ok := s.index[id]
	if !ok {
		return fmt.Errorf("%q is no sample of the data: an id such as %q was expected", id, s.samples[0].item.ID)
	}
	if field := r.first("method", "model", "editor"); r.has(field) {
		if editor, err = r.text(field); err != nil {
			return err
		}
	}
	j := of(editor)
	if r.has("by") {
		said, err := r.object("by")
		if err != nil {
			return err
		}
		for c, name := range said {
			if first, ok := j.by[c]; ok && first != name {
				return fmt.Errorf("%s is measured by %s here, by %s before: one judge was expected", c, name, first)
			}
			j.by[c] = name
		}
	}
	fields := maps.Clone(r.fields)
	if r.has("dimensions") {
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(r.fields["dimensions"], &inner); err != nil {
			return fmt.Errorf("dimensions: %w", err)
		}
		for name, v := range inner { // a judge has more numbers than the benchmark
			for _, names := range s.fields {
				if _, twice := r.fields[name]; twice && slices.Contains(names, name) {
					return fmt.Errorf("%s is in the line and in its dimensions: one of them was expected", name)
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
	return j.setAll(fields, i, by, r.where)
}

// known refuses a number whose name the benchmark does not have: it may be a slip. It is kept if the row's "by" says
// what measured it, as for another metric, or if a judge wrote it.
func (j *gradedPredictions) known(fields map[string]json.RawMessage, judge string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		column := j.column(name)
		if isKey(name) || judge != "" || j.by[column] != "" || slices.Contains(j.graded.columns, column) {
			continue
		}
		if v, err := parseNumber(name, fields[name]); err == nil && !math.IsNaN(v) {
			return fmt.Errorf("%q is no number of %s: one of %s was expected (of another metric: with \"by\": {%q: METRIC})",
				name, j.name, strings.Join(j.graded.columns, ", "), name)
		}
	}
	return nil
}

// isKey reports whether a field that may hold a number is no column.
func isKey(field string) bool {
	return slices.Contains([]string{"id", "row", "orders"}, field)
}

// column is the column of a field in files.
func (s *graded) column(field string) string {
	for c, names := range s.fields {
		if slices.Contains(names, field) {
			return c
		}
	}
	return field
}

// setAll sets the columns that fields have. Others that are numbers are columns, too, by their own names.
func (j *gradedPredictions) setAll(fields map[string]json.RawMessage, i int, by, where string) error {
	any := false
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		column := j.column(name)
		v, err := parseNumber(name, fields[name])
		if isKey(name) || err != nil && !slices.Contains(j.graded.columns, column) || math.IsNaN(v) {
			continue
		}
		if err != nil {
			return err
		}
		if own := column == "score" && (by != "" || fields["of"] != nil); !own { // a run's
			if v, err = j.stated(column, i, v); err != nil {
				return err
			}
		}
		if err := j.set(column, by, i, v, where); err != nil {
			return err
		}
		if by != "" && j.by[column] == "" {
			j.by[column] = by
		}
		any = true
	}
	if !any {
		return fmt.Errorf("there is no number: one of %s was expected", strings.Join(j.graded.columns, ", "))
	}
	return nil
}

// stated checks a number that a file states, and puts it onto the scale of its column.
func (j *gradedPredictions) stated(column string, i int, v float64) (float64, error) {
	if of, ok := j.pooled[column]; ok {
		return 0, fmt.Errorf("%s is computed from %s: give these", column, strings.Join(of, ", "))
	}
	b, ok := j.bounds[column]
	if !ok {
		b, ok = boundsOf(column)
	}
	if ok {
		if err := b.check(column, v); err != nil {
			return 0, err
		}
	}
	if j.strict && j.lacks(i, column) {
		return 0, fmt.Errorf("%s has no %s by the rule of the benchmark", j.samples[i].item.ID, column)
	}
	if scale := j.scale[column]; scale != nil {
		v = scale(v)
	}
	return v, nil
}
