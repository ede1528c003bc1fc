package protocol

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"assay/internal/stats"
)

// AgreementResamples (fewer on many samples, whose intervals are narrow) and agreementSeed are those of the intervals
// of agreement.
const (
	AgreementResamples = 500
	AgreementSeed      = 1
)

// Column is a measure of every sample, NaN where it is missing.
type Column struct {
	Name   string
	Values []float64
	Lower  bool // less is better
}

// AgreementOf correlates a measure with each of others over the samples that have both: Spearman and Pearson, with 95 %
// intervals of a bootstrap over samples. A measure of which less is better is turned round.
func AgreementOf(title string, measure Column, others []Column) Table {
	t := Table{Title: title, Columns: []string{"n", "spearman", "pearson"}, Better: []int{0, 1, 1}}
	for _, other := range others {
		var x, y []float64
		for i, v := range measure.Values {
			if math.IsNaN(v) || math.IsNaN(other.Values[i]) {
				continue
			}
			w := other.Values[i]
			if measure.Lower != other.Lower {
				w = -w
			}
			x, y = append(x, v), append(y, w)
		}
		if len(x) < 2 {
			continue
		}
		a, b := make([]float64, len(x)), make([]float64, len(x))
		resamples := min(AgreementResamples, max(100, 1_000_000/len(x)))
		in := stats.Bootstrap(stats.NewRand(AgreementSeed), len(x), resamples, 0.95, func(units []int) []float64 {
			for k, u := range units {
				a[k], b[k] = x[u], y[u]
			}
			return []float64{stats.Spearman(a, b), stats.Pearson(a, b)}
		})
		none := stats.Interval{Low: math.NaN(), High: math.NaN()}
		name := other.Name
		if measure.Lower != other.Lower {
			name += ", turned round (less is better)"
		}
		t.Rows = append(t.Rows, TableRow{Name: name, Text: []string{fmt.Sprint(len(x))},
			Cells:  []float64{float64(len(x)), stats.Spearman(x, y), stats.Pearson(x, y)},
			Bounds: append([]stats.Interval{none}, in...)})
	}
	return t
}

// HumanColumns reads a file of human ratings, lines of {id, method, name: number}: a column per name. find says which
// sample a line is of.
func HumanColumns(path string, n int, find func(Line) (int, error)) ([]Column, error) {
	rows, err := ReadLines(path)
	if err != nil {
		return nil, err
	}
	var p Problems
	columns := map[string][]float64{}
	for _, r := range rows {
		i, err := find(r)
		if err != nil {
			p.Add(r.Where, "%v", err)
			continue
		}
		if i < 0 {
			continue // of another editor
		}
		for name, raw := range r.Fields {
			if slices.Contains(humanNames, name) {
				continue
			}
			v, err := ParseNumber(name, raw)
			if err != nil {
				p.Add(r.Where, "%v", err)
				continue
			}
			if columns[name] == nil {
				columns[name] = make([]float64, n)
				for k := range columns[name] {
					columns[name][k] = math.NaN()
				}
			}
			if !math.IsNaN(columns[name][i]) {
				p.Add(r.Where, "a second %s of sample %d", name, i)
			}
			columns[name][i] = v
		}
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("--human: %w", err)
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("--human: %s holds no ratings of these samples: lines of {id, method, name: number} were "+
			"expected", filepath.Base(path))
	}
	var out []Column
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		out = append(out, Column{Name: name, Values: columns[name]})
	}
	return out, nil
}

// humanNames are the fields of a line of human ratings that say what it is of.
var humanNames = []string{"id", "index", "sample", "name", "key", "image", "edited_image", "original_image", "method",
	"model", "editor", "expression", "instructions"}
