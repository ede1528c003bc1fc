package protocol

import (
	"math"
	"slices"
	"strings"

	"assay/internal/stats"
)

// Units implements Predictions.
func (j *EditorPredictions) Units() int { return len(j.sources.Samples) }

// Complete implements Predictions.
func (j *EditorPredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(j.sources.Samples[unit], func(i int) bool { return !j.complete(i) })
}

// complete reports whether a sample has all numbers.
func (j *EditorPredictions) complete(i int) bool {
	for _, c := range j.Columns {
		if math.IsNaN(j.Values[c][i]) && j.wants(i, c) {
			return false
		}
	}
	return len(j.Columns) > 0
}

// mean returns a column's number over samples: their mean, or the mean of the group means, NaN if a group has none.
func (j *EditorPredictions) mean(column string, units []int, ofGroups bool) float64 {
	if !ofGroups {
		return j.plainMean(column, units)
	}
	var means []float64
	for _, g := range j.Groups {
		means = append(means, j.plainMean(column, j.ofGroup(g, units)))
	}
	return stats.Mean(means)
}

// plainMean returns the mean over samples, or over all numbers that a column pools.
func (j *EditorPredictions) plainMean(column string, units []int) float64 {
	of := []string{column}
	if names, ok := j.Pooled[column]; ok {
		of = names
	}
	var list []float64
	for _, name := range of {
		if values := j.Values[name]; values != nil {
			for _, i := range units {
				list = append(list, values[i])
			}
		}
	}
	return stats.Mean(Defined(list))
}

// ofGroup returns the units of a group.
func (j *EditorPredictions) ofGroup(group string, units []int) (in []int) {
	for _, i := range units {
		if j.Samples[i].Group == group {
			in = append(in, i)
		}
	}
	return in
}

// covers returns how many of the units that need a column its number is based on, or how many of the values that it
// pools.
func (j *EditorPredictions) covers(column string, units []int) *Coverage {
	names, pools := j.Pooled[column]
	if !pools {
		names = []string{column}
	}
	c := CoverageBy(len(units)*len(names), func(k int) (Key, bool, bool) {
		i, name := units[k/len(names)], names[k%len(names)]
		key := ItemKey(j.Samples[i].Item)
		if pools {
			key.ID += " " + name
		}
		values := j.Values[name]
		return key, j.wants(i, name), values != nil && !math.IsNaN(values[i])
	})
	if pools {
		return c.OfValues(len(units))
	}
	return c
}

// key returns the JSON key of a column, with the share of the units that it covers unless it covers all.
func (j *EditorPredictions) key(column string, units []int) string {
	if slices.Contains(j.Counted, column) {
		return column
	}
	return Basis{Rule: column, Coverage: *j.covers(column, units)}.Name()
}

// in returns the units of a part.
func (j *EditorPredictions) in(part string, units []int) (out []int) {
	for _, i := range units {
		if slices.Contains(j.Samples[i].Parts, part) {
			out = append(out, i)
		}
	}
	return out
}

// Numbers implements Predictions: each column of each part, as "column: part".
func (j *EditorPredictions) Numbers(units []int) []Number { return j.numbers(j.sources.Of(units)) }

func (j *EditorPredictions) numbers(samples []int) []Number {
	var out []Number
	add := func(part, name string, ofGroups bool) {
		in := j.in(part, samples)
		for _, c := range j.Columns {
			covers := j.covers(c, in)
			if covers.Of == 0 {
				continue
			}
			n := Number{Name: c, Value: j.mean(c, in, ofGroups), Coverage: covers,
				Terms: Terms{Judge: j.JudgeOf(c), Counted: slices.Contains(j.Counted, c)}}
			if name != "" {
				n.Name += ": " + name
			}
			out = append(out, n)
		}
	}
	for _, part := range j.Parts {
		add(part, part, j.Macro)
	}
	if j.OfGroups != "" {
		add(j.Parts[0], j.OfGroups, true)
	}
	return out
}

// JudgeOf returns what measured a column; for a derived column, what measured the others.
func (j *EditorPredictions) JudgeOf(column string) string {
	if j.by[column] != "" || j.Derive[column] == nil {
		return strings.ToLower(j.by[column])
	}
	return Judges(j.by, slices.DeleteFunc(slices.Clone(j.EditorSet.Columns), func(c string) bool {
		return j.Derive[c] != nil || j.Values[c] == nil || c == "score"
	}))
}

// gradedJSON is the JSON result.
type gradedJSON struct {
	Common
	Editor string                                 `json:"editor,omitempty"`
	Parts  map[string]map[string]Value            `json:"parts"`
	Groups map[string]map[string]map[string]Value `json:"groups,omitempty"` // part, group, column
}

// Result implements Predictions.
func (j *EditorPredictions) Result() *Result {
	r := &Result{Notes: j.Notes}
	all := stats.UpTo(len(j.Samples))
	r.Count(len(all), j.complete, func(i int) Key { return ItemKey(j.Samples[i].Item) })
	r.Numbers = j.numbers(all)
	out := gradedJSON{Editor: j.editor, Parts: map[string]map[string]Value{},
		Groups: map[string]map[string]map[string]Value{}}
	for _, part := range j.Parts {
		in := j.in(part, all)
		if len(in) == 0 {
			continue
		}
		out.Parts[part] = map[string]Value{}
		for _, c := range j.Columns {
			out.Parts[part][j.key(c, in)] = Value(j.mean(c, in, j.Macro))
		}
		if len(j.Groups) > 1 {
			t, m := j.groupTable(part, in)
			r.Tables, out.Groups[part] = append(r.Tables, t), m
		}
	}
	out.Common = r.Common(j.Name)
	r.JSON = out
	return r
}

// groupTable returns a table with a row for each group, and its values for JSON.
func (j *EditorPredictions) groupTable(part string, units []int) (Table, map[string]map[string]Value) {
	t := Table{Title: "by kind of edit", Columns: append([]string{"n"}, j.Columns...)}
	if part != "" {
		t.Title += ": " + part
	}
	out := map[string]map[string]Value{}
	for _, g := range j.Groups {
		least, most := j.used(g, units)
		row := TableRow{Name: g, Cells: []Cell{CountFromTo(least, most)}}
		out[g] = map[string]Value{}
		for _, c := range j.Columns {
			in := j.ofGroup(g, units)
			v := j.plainMean(c, in)
			row.Cells, out[g][j.key(c, in)] = append(row.Cells, Cell{Value: v}), Value(v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, out
}

// used returns how many samples of a group the column means are based on: the lowest and the highest count of a
// column.
func (j *EditorPredictions) used(group string, units []int) (least, most int) {
	first := true
	for _, c := range j.Columns {
		if j.Pooled[c] != nil { // it is computed from the others
			continue
		}
		n, wanted := 0, false
		for _, i := range units {
			if j.Samples[i].Group != group {
				continue
			}
			wanted = wanted || c == "score" || j.wants(i, c)
			if !math.IsNaN(j.Values[c][i]) {
				n++
			}
		}
		if !wanted {
			continue
		}
		if least, most = min(least, n), max(most, n); first {
			least, first = n, false
		}
	}
	return least, most
}
