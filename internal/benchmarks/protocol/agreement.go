package protocol

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"assay/internal/stats"
)

// AgreementResamples (fewer for many samples, whose intervals are narrow) and AgreementSeed are the settings of the
// bootstrap intervals of agreement.
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

// agreementOf correlates a measure with each of others over the samples that have both: Spearman and Pearson, with 95
// % intervals of a bootstrap over samples. If less is better for only one of two measures, the other one is negated.
func agreementOf(title string, measure Column, others []Column) Table {
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
		name := other.Name
		if measure.Lower != other.Lower {
			name += ", negated (less is better)"
		}
		t.Rows = append(t.Rows, TableRow{Name: name, Cells: []Cell{Count(len(x)),
			{Value: stats.Spearman(x, y), Bounds: &in[0]}, {Value: stats.Pearson(x, y), Bounds: &in[1]}}})
	}
	return t
}

// MeanInterval returns the 95 % interval of a mean, of a bootstrap over sources with their values (nil: every value has
// a source of its own); nil for fewer than two sources.
func MeanInterval(list []float64, sources [][]int, resamples int, seed uint64) *stats.Interval {
	if sources == nil {
		sources = slices.Collect(slices.Chunk(stats.UpTo(len(list)), 1))
	}
	if len(sources) < 2 || resamples < 1 {
		return nil
	}
	return &stats.Bootstrap(stats.NewRand(seed), len(sources), resamples, 0.95, func(units []int) []float64 {
		sum, n := 0.0, 0
		for _, u := range units {
			for _, i := range sources[u] {
				sum += list[i]
				n++
			}
		}
		return []float64{sum / float64(n)}
	})[0]
}

// Agreements returns tables of a scorer's agreement with the components of samples, if it scored any, and of the
// agreement of components and scorer with the human ratings in a file ("": no file). find returns the sample of a
// line, below 0 if it has none.
func Agreements(score Column, components []Column, human string, find func(*Line) int) (out []Table, err error) {
	if len(Defined(score.Values)) > 0 {
		out = append(out, agreementOf("agreement of the scorer with each component", score, components))
	}
	if human == "" {
		return out, nil
	}
	ratings, err := humanColumns(human, len(score.Values), find)
	for _, h := range ratings {
		out = append(out, agreementOf("agreement with the human rating "+h.Name, h, append(components, score)))
	}
	return out, err
}

// humanColumns reads a file of human ratings, lines of {id, method, name: number}: a column per name.
func humanColumns(path string, n int, find func(*Line) int) (out []Column, err error) {
	columns := map[string][]float64{}
	err = EachLine(path, func(r *Line) error {
		i := find(r)
		if r.err != nil || i < 0 {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
			if slices.Contains(humanNames, name) {
				continue
			}
			v := r.Number(name)
			if columns[name] == nil {
				columns[name] = slices.Repeat([]float64{math.NaN()}, n)
			}
			if !math.IsNaN(columns[name][i]) {
				r.Fail("a second %s of sample %d", name, i)
			}
			columns[name][i] = v
		}
		return nil
	})
	if err == nil && len(columns) == 0 {
		err = fmt.Errorf("%s has no ratings of these samples: want lines of {id, method, name: number}",
			filepath.Base(path))
	}
	if err != nil {
		return nil, fmt.Errorf("--human: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		out = append(out, Column{Name: name, Values: columns[name]})
	}
	return out, nil
}

// humanNames are the fields that identify the sample of a line of human ratings.
var humanNames = []string{"id", "index", "sample", "name", "key", "image", "edited_image", "original_image", "method",
	"model", "editor", "expression", "instructions"}
