package benchmarks

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/stats"
)

// Units implements Predictions.
func (j *gradedPredictions) Units() int { return len(j.samples) }

// Complete implements Predictions.
func (j *gradedPredictions) Complete(i int) bool {
	for _, c := range j.columns {
		if math.IsNaN(j.values[c][i]) && j.wants(i, c) {
			return false
		}
	}
	return len(j.columns) > 0
}

// mean is a column's number over samples: their mean, or that of the groups' means, NaN if a group has none.
func (j *gradedPredictions) mean(column string, units []int) float64 {
	if !j.macro {
		return j.plainMean(column, units)
	}
	var means []float64
	for _, g := range j.groups {
		means = append(means, j.groupMean(column, g, units))
	}
	return stats.Mean(means)
}

// plainMean is the mean over samples, or over all numbers that a column pools.
func (j *gradedPredictions) plainMean(column string, units []int) float64 {
	of := []string{column}
	if names, ok := j.pooled[column]; ok {
		of = names
	}
	var list []float64
	for _, name := range of {
		if values := j.values[name]; values != nil {
			for _, i := range units {
				list = append(list, values[i])
			}
		}
	}
	return stats.Mean(defined(list))
}

func (j *gradedPredictions) groupMean(column, group string, units []int) float64 {
	return j.plainMean(column, j.ofGroup(group, units))
}

// ofGroup are the units of a group.
func (j *gradedPredictions) ofGroup(group string, units []int) (in []int) {
	for _, i := range units {
		if j.samples[i].group == group {
			in = append(in, i)
		}
	}
	return in
}

// covers is on how many of the units that want a column its number stands, or on how many of the numbers that it pools.
func (j *gradedPredictions) covers(column string, units []int) Coverage {
	if names, ok := j.pooled[column]; ok {
		return j.coversPooled(names, units)
	}
	var missing []Key
	of := 0
	for _, i := range units {
		if !j.wants(i, column) {
			continue
		}
		of++
		if math.IsNaN(j.values[column][i]) {
			missing = append(missing, j.samples[i].item.Key)
		}
	}
	return coverage(of, missing)
}

func (j *gradedPredictions) coversPooled(names []string, units []int) Coverage {
	var missing []Key
	of := 0
	for _, i := range units {
		for _, name := range names {
			if !j.wants(i, name) {
				continue
			}
			of++
			if values := j.values[name]; values == nil || math.IsNaN(values[i]) {
				it := j.samples[i].item
				missing = append(missing, Key{it.ID + " " + name, it.Model})
			}
		}
	}
	return coverageOfValues(len(units), of, missing)
}

// key is the key of a column in JSON, with the share of the units that it stands on unless that is all of them.
func (j *gradedPredictions) key(column string, units []int) string {
	if slices.Contains(j.counted, column) {
		return column
	}
	return Basis{Rule: column, Coverage: j.covers(column, units)}.Name()
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
			covers := j.covers(c, in)
			if covers.Of == 0 {
				continue
			}
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
			out.Parts[part][j.key(c, in)] = Value(j.mean(c, in))
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
			row.Cells, out[g][j.key(c, j.ofGroup(g, units))] = append(row.Cells, v), Value(v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, out
}

// used says on how many samples of a group the columns' means stand: of the one that stands on least, and on most.
func (j *gradedPredictions) used(group string, units []int) (least, most int) {
	first := true
	for _, c := range j.columns {
		if j.pooled[c] != nil { // it stands on what the others stand on
			continue
		}
		n, wanted := 0, false
		for _, i := range units {
			if j.samples[i].group != group {
				continue
			}
			wanted = wanted || c == "score" || j.wants(i, c)
			if !math.IsNaN(j.values[c][i]) {
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
