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

	"assay/internal/stats"
)

// graded is a benchmark that ranks editors by numbers of each of their outputs: means over samples, or over the means
// of
// its groups, for each of its parts.
type graded struct {
	name    string
	samples []gradedSample
	index   map[string]int // of the samples by id
	editors []string       // folders
	by      map[string]string

	parts   []string            // in the order of tables
	groups  []string            // kinds of edits; none: they have no groups
	macro   bool                // a number is the mean over the groups' means, not over the samples
	columns []string            // in the order of tables; others follow
	fields  map[string][]string // column: its names in files
	derive  map[string]func(sample int, values map[string]float64) float64
	counted []string          // columns for which what is absent counts as wrong
	bounds  map[string]bounds // of columns; of a score that a file states: a scorer's own is on the scorer's range

	output func(editor string, i int) string                        // file of an editor's picture of a sample
	own    func(editor string, j *gradedPredictions) error          // reads the authors' result files; nil: there are none
	table  func(path string) (editor string, rows []row, err error) // reads a file that is no JSON; nil: there is none
}

// gradedSample is one sample. Its item lacks the editor's picture.
type gradedSample struct {
	item   Item
	group  string
	parts  []string
	scored bool // a scorer has all that it needs
}

// add adds a sample.
func (s *graded) add(sample gradedSample) error {
	id := sample.item.ID
	if _, twice := s.index[id]; twice {
		return fmt.Errorf("a second sample %q", id)
	}
	if s.index == nil {
		s.index = map[string]int{}
	}
	s.index[id] = len(s.samples)
	s.samples = append(s.samples, sample)
	for _, part := range sample.parts {
		if !slices.Contains(s.parts, part) {
			s.parts = append(s.parts, part)
		}
	}
	if sample.group != "" && !slices.Contains(s.groups, sample.group) {
		s.groups = append(s.groups, sample.group)
	}
	return nil
}

// gradedPredictions are the columns of one editor, NaN where missing.
type gradedPredictions struct {
	*graded
	editor  string
	columns []string
	values  map[string][]float64
	by      map[string]string
	notes   []string
	where   map[string]string // of what was read, by column and sample
}

func (s *graded) blank(editor string) *gradedPredictions {
	by := map[string]string{}
	maps.Copy(by, s.by)
	return &gradedPredictions{graded: s, editor: editor, values: map[string][]float64{}, by: by,
		where: map[string]string{}}
}

// set sets a value; a second one is an error.
func (j *gradedPredictions) set(column string, i int, v float64, where string) error {
	key := fmt.Sprint(column, "\n", i)
	if first, ok := j.where[key]; ok {
		return fmt.Errorf("a second value of %s for %s (the first is in %s)", column, j.samples[i].item.ID, first)
	}
	j.where[key] = where
	if j.values[column] == nil {
		j.values[column] = slices.Repeat([]float64{math.NaN()}, len(j.samples))
	}
	j.values[column][i] = v
	return nil
}

// finish derives columns from others, and orders them.
func (j *gradedPredictions) finish() {
	for _, column := range sortedNames(j.derive) {
		if j.values[column] != nil {
			continue
		}
		list, any := slices.Repeat([]float64{math.NaN()}, len(j.samples)), false
		for i := range list {
			one := map[string]float64{}
			for name, v := range j.values {
				one[name] = v[i]
			}
			list[i] = j.derive[column](i, one)
			any = any || !math.IsNaN(list[i])
		}
		if any {
			j.values[column] = list
		}
	}
	for _, column := range append(slices.Clone(j.graded.columns), sortedNames(j.values)...) {
		if j.values[column] != nil && !slices.Contains(j.columns, column) {
			j.columns = append(j.columns, column)
		}
	}
}

// Items implements Scorable: the outputs of all editors that a scorer has everything for.
func (s *graded) Items() ([]Item, error) { return s.items(true) }

// Outputs implements Measurable.
func (s *graded) Outputs() ([]Item, error) { return s.items(false) }

func (s *graded) items(scored bool) ([]Item, error) {
	if len(s.editors) == 0 {
		return nil, fmt.Errorf("the pictures are not named: give --editors, folders of the editors' pictures")
	}
	var p problems
	var items []Item
	for i, sample := range s.samples {
		if scored && !sample.scored {
			continue
		}
		if sample.item.Source.Read == nil && sample.item.Source.Path != "" {
			filePicture(sample.item.Source.Path, true, &p)
		}
		for _, editor := range s.editors {
			it := sample.item
			it.Model, it.Group = editorName(editor), it.ID
			it.Edit.Path = s.output(editor, i)
			filePicture(it.Edit.Path, true, &p)
			items = append(items, it)
		}
	}
	return items, p.err()
}

// Line implements Measurable.
func (s *graded) Line(k Key, component string, value any, by string) map[string]any {
	return componentLine("id", k, component, value, by, []string{component})
}

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
			j.finish()
			out = append(out, Editor{name, j})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nothing was measured of the editors: give --components, --component, --scorer or --judge")
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
	judge, err := JudgeOf(path)
	if err != nil {
		return err
	}
	by := ""
	if judge != nil {
		by = fmt.Sprintf("%.8s", judge.Fingerprint)
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

// known refuses a number by a name that is none of the benchmark's, a slip perhaps, unless the row's "by" says what
// measured it, as that of another metric does, or a judge wrote it.
func (j *gradedPredictions) known(fields map[string]json.RawMessage, judge string) error {
	for _, name := range sortedNames(fields) {
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
	for _, name := range sortedNames(fields) {
		column := j.column(name)
		v, err := parseNumber(name, fields[name])
		if isKey(name) || err != nil && !slices.Contains(j.graded.columns, column) || math.IsNaN(v) {
			continue
		}
		if err != nil {
			return err
		}
		own := column == "score" && (by != "" || fields["of"] != nil) // a run's
		if b, ok := j.bounds[column]; ok && !own {
			if err := b.check(column, v); err != nil {
				return err
			}
		}
		if err := j.set(column, i, v, where); err != nil {
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

// Units implements Predictions.
func (j *gradedPredictions) Units() int { return len(j.samples) }

// Complete implements Predictions.
func (j *gradedPredictions) Complete(i int) bool {
	for _, c := range j.columns {
		if math.IsNaN(j.values[c][i]) && !(c == "score" && !j.samples[i].scored) {
			return false
		}
	}
	return len(j.columns) > 0
}

// mean is a column's number over samples: their mean, or that of the groups' means, NaN if a group has none.
func (j *gradedPredictions) mean(column string, units []int) float64 {
	if !j.macro {
		var list []float64
		for _, i := range units {
			list = append(list, j.values[column][i])
		}
		return stats.Mean(defined(list))
	}
	var means []float64
	for _, g := range j.groups {
		means = append(means, j.groupMean(column, g, units))
	}
	return stats.Mean(means)
}

func (j *gradedPredictions) groupMean(column, group string, units []int) float64 {
	var list []float64
	for _, i := range units {
		if j.samples[i].group == group {
			list = append(list, j.values[column][i])
		}
	}
	return stats.Mean(defined(list))
}

// in are the units of a part.
func (j *gradedPredictions) in(part string, units []int) (out []int) {
	for _, i := range units {
		if slices.Contains(j.samples[i].parts, part) {
			out = append(out, i)
		}
	}
	return out
}

// Numbers implements Predictions: each column of each part, as "column: part".
func (j *gradedPredictions) Numbers(units []int) []Number {
	var out []Number
	for _, part := range j.parts {
		in := j.in(part, units)
		for _, c := range j.columns {
			var missing []Key
			of := 0
			for _, i := range in {
				if c == "score" && !j.samples[i].scored {
					continue
				}
				of++
				if math.IsNaN(j.values[c][i]) {
					missing = append(missing, j.samples[i].item.Key)
				}
			}
			if of == 0 {
				continue
			}
			covers := coverage(of, missing)
			out = append(out, Number{Name: gradedName(c, part), Value: j.mean(c, in), Terms: Terms{Judge: j.judge(c),
				Counted: slices.Contains(j.counted, c)},
				Coverage: &covers})
		}
	}
	return out
}

// judge is what measured a column; of a derived one, what measured the others.
func (j *gradedPredictions) judge(column string) string {
	if j.by[column] != "" || j.derive[column] == nil {
		return strings.ToLower(j.by[column])
	}
	return judges(j.by, slices.DeleteFunc(slices.Clone(j.graded.columns), func(c string) bool {
		return j.derive[c] != nil || j.values[c] == nil || c == "score"
	}))
}

func gradedName(column, part string) string {
	if part == "" {
		return column
	}
	return column + ": " + part
}

// gradedJSON is the JSON result.
type gradedJSON struct {
	Common
	Editor string                                 `json:"editor,omitempty"`
	Parts  map[string]map[string]Value            `json:"parts"`
	Groups map[string]map[string]map[string]Value `json:"groups,omitempty"` // part, group, column
}

// Result implements Predictions.
func (j *gradedPredictions) Result() *Result {
	r := &Result{Notes: j.notes}
	var all []int
	for i := range j.samples {
		all = append(all, i)
		if j.Complete(i) {
			r.N++
		} else {
			r.Missing = append(r.Missing, j.samples[i].item.Key)
		}
	}
	r.Numbers = j.Numbers(all)
	out := gradedJSON{Editor: j.editor, Parts: map[string]map[string]Value{},
		Groups: map[string]map[string]map[string]Value{}}
	for _, part := range j.parts {
		in := j.in(part, all)
		if len(in) == 0 {
			continue
		}
		out.Parts[part] = map[string]Value{}
		for _, c := range j.columns {
			out.Parts[part][c] = Value(j.mean(c, in))
		}
		if len(j.groups) > 1 {
			t, m := j.groupTable(part, in)
			r.Tables, out.Groups[part] = append(r.Tables, t), m
		}
	}
	out.Common = r.common(j.name)
	r.JSON = out
	return r
}

// groupTable has a row for each group.
func (j *gradedPredictions) groupTable(part string, units []int) (Table, map[string]map[string]Value) {
	t := Table{Title: "by kind of edit", Columns: append([]string{"n"}, j.columns...)}
	if part != "" {
		t.Title += ": " + part
	}
	out := map[string]map[string]Value{}
	for _, g := range j.groups {
		least, most := j.used(g, units)
		row := TableRow{Name: g, Cells: []float64{float64(least)}, Text: []string{fmt.Sprint(least)}}
		if least < most {
			row.Text[0] = fmt.Sprintf("%d to %d", least, most)
		}
		out[g] = map[string]Value{}
		for _, c := range j.columns {
			v := j.groupMean(c, g, units)
			row.Cells, out[g][c] = append(row.Cells, v), Value(v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, out
}

// used says on how many samples of a group the columns' means stand: of the one that stands on least, and on most.
func (j *gradedPredictions) used(group string, units []int) (least, most int) {
	for k, c := range j.columns {
		n := 0
		for _, i := range units {
			if j.samples[i].group == group && !math.IsNaN(j.values[c][i]) {
				n++
			}
		}
		if least, most = min(least, n), max(most, n); k == 0 {
			least = n
		}
	}
	return least, most
}
