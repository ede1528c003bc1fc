package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// figure is a number with everything needed to compare it.
type figure struct {
	System string `json:"system"`
	Name   string `json:"name"` // of the basis: coverage below 100 % is part of it
	protocol.Basis
	Value protocol.Value  `json:"value"`
	Low   *protocol.Value `json:"low,omitempty"` // 95 % bootstrap interval
	High  *protocol.Value `json:"high,omitempty"`
	// Undefined is the number of resamples without this number; the interval covers the others.
	Undefined int             `json:"undefined_resamples,omitempty"`
	Chance    *protocol.Value `json:"chance,omitempty"` // expected value of random guessing

	By *protocol.Judge `json:"by,omitempty"` // what made the predictions, if known

	Paper          string   `json:"paper,omitempty"` // of a printed number, and its place there
	Place          string   `json:"place,omitempty"`
	Contradictions []string `json:"contradictions,omitempty"` // what the paper prints for the same elsewhere

	again bool   // the paper prints another value for it at an earlier place
	why   string // reason why it is kept separate
}

// Measure adds to every number its 95 % interval, from resamples of the units with replacement, and the expected value
// of random guessing. Systems on the same units see the same resamples. With 0 resamples there are no intervals.
func (r *Report) Measure(s protocol.Set, resamples int, seed uint64) {
	switch set := s.(type) {
	case protocol.Expecting:
		r.chance = set.Chance(seed)
	case protocol.Guessable:
		r.chance = protocol.Expectation(set, seed)
	}
	r.resamples = resamples
	for i := range r.Systems {
		of := &r.Systems[i]
		for _, b := range of.boards {
			b.Measure(s, resamples, seed)
		}
		if resamples > 0 && of.predictions != nil && of.predictions.Units() > 1 { // a single unit has no spread
			of.intervals = intervalsOf(of.predictions, resamples, seed)
		}
	}
}

// intervalsOf returns the intervals of the predictions' numbers, by name.
func intervalsOf(p protocol.Predictions, resamples int, seed uint64) map[string]stats.Interval {
	all := stats.UpTo(p.Units())
	names := p.Numbers(all)
	intervals := stats.Bootstrap(stats.NewRand(seed), len(all), resamples, 0.95, func(units []int) []float64 {
		numbers := p.Numbers(units)
		out := make([]float64, len(names))
		for i, n := range names {
			out[i] = valueOf(n.Name, numbers) // a draw without the number's part does not count for it
		}
		return out
	})
	out := map[string]stats.Interval{}
	for i, n := range names {
		if !math.IsNaN(n.Value) && i < len(intervals) {
			out[n.Name] = intervals[i]
		}
	}
	return out
}

// figures returns the numbers of one system.
func (r *Report) figures(system int) []figure {
	s := r.Systems[system]
	c := protocol.CoverageOf(s.Result)
	var out []figure
	for _, n := range s.Result.Numbers {
		f := figure{System: s.Name, Value: protocol.Value(n.Value), By: s.judge,
			Basis: protocol.Basis{Benchmark: r.Benchmark.Name, Rule: n.Name, Coverage: c, Terms: n.Terms}}
		f.Subset = cmp.Or(f.Subset, s.Result.Subset)
		if n.Coverage != nil {
			f.Coverage = *n.Coverage
		}
		if n.Counted {
			f.Coverage = protocol.Coverage{Used: c.Of, Of: c.Of, Items: c.Items}
		}
		f.Name = f.Basis.Name()
		if in, ok := s.intervals[n.Name]; ok && f.Coverage.Used != 1 { // a single item has no spread
			low, high := protocol.Value(in.Low), protocol.Value(in.High)
			f.Low, f.High, f.Undefined = &low, &high, in.Undefined
		}
		if v, ok := r.chanceOf(f.Basis); ok {
			f.Chance = &v
		}
		out = append(out, f)
	}
	return out
}

// chanceOf returns the expected value of random guessing for a number that covers all items, as the guesses do.
func (r *Report) chanceOf(b protocol.Basis) (protocol.Value, bool) {
	v, ok := r.chance[b.Rule]
	return v, ok && b.Coverage.Whole() && b.Over == ""
}

// allFigures returns the numbers of all systems, each with its basis.
func (r *Report) allFigures() (out []figure) {
	for i := range r.Systems {
		out = append(out, r.figures(i)...)
	}
	return out
}

// printed returns the numbers that papers print for the benchmark, on the basis that they state.
func printed(b *protocol.Benchmark) []figure {
	var out []figure
	for _, p := range b.Reported() {
		for _, n := range p.Numbers {
			f := figure{
				System:         fmt.Sprintf("%s (in %s)", p.Method, p.Paper),
				Value:          protocol.Value(n.Value),
				Paper:          p.Paper,
				Place:          n.Place,
				Contradictions: n.Contradictions,
				Basis: protocol.Basis{Benchmark: b.Name, Rule: n.Name, Terms: n.Terms,
					Coverage: protocol.Coverage{Used: b.Size, Of: b.Size}},
			}
			f.Judge = strings.ToLower(f.Judge)
			f.Counted, f.Name = slices.Contains(b.Counted, n.Name), n.Name
			f.again = slices.ContainsFunc(out, func(g figure) bool {
				return g.System == f.System && g.Basis == f.Basis
			})
			out = append(out, f)
		}
	}
	return out
}

// columns returns the bases of all numbers of the systems, each once, in the order of the numbers.
func (r *Report) columns() []protocol.Basis {
	var out []protocol.Basis
	for i := range r.Systems {
		at := 0 // after the column of the previous number
		for _, f := range r.figures(i) {
			if k := slices.Index(out, f.Basis); k >= 0 {
				at = k + 1
				continue
			}
			for at < len(out) && out[at].Rule == f.Rule {
				at++
			}
			out = slices.Insert(out, min(at, len(out)), f.Basis)
			at++
		}
	}
	return out
}

// Summary returns the table of the systems' numbers, each column on one basis, with the printed numbers of the same
// basis below them.
func (r *Report) Summary() protocol.Table {
	columns := r.columns()
	t := protocol.Table{Title: r.Title()}
	for _, c := range columns {
		t.Columns, t.Better = append(t.Columns, columnName(c, columns)), append(t.Better, r.Benchmark.Direction(c.Rule))
	}
	for i, s := range r.Systems {
		t.Rows = append(t.Rows, rowOf(s.Name, r.figures(i), columns))
	}
	if chance := r.chanceRow(columns); chance != nil {
		t.Rows = append(t.Rows, *chance)
	}
	for _, group := range r.printedRows() {
		if group[0].again {
			continue
		}
		row := rowOf(group[0].System, group, columns)
		if !slices.ContainsFunc(row.Cells, func(c protocol.Cell) bool { return !math.IsNaN(c.Value) }) {
			continue
		}
		row.Printed = true
		t.Rows = append(t.Rows, row)
	}
	return t
}

// columnName returns a unique name of a column: it states part, judge, normalisation and coverage if these differ.
func columnName(c protocol.Basis, all []protocol.Basis) string {
	name := c.Name()
	for _, differ := range []func(protocol.Basis) string{
		func(b protocol.Basis) string { return b.Subset },
		func(b protocol.Basis) string { return b.Judge },
		func(b protocol.Basis) string { return b.Normalisation },
		func(b protocol.Basis) string { return b.Coverage.Without },
		func(b protocol.Basis) string { return b.Coverage.Items },
	} {
		same := func(b protocol.Basis) bool { return b.Name() == c.Name() && differ(b) != differ(c) }
		if slices.ContainsFunc(all, same) {
			name += ", " + protocol.Stated(differ(c))
		}
	}
	if c.Over != "" {
		name += ", " + c.Over
	}
	return name
}

// rowOf arranges figures by columns.
func rowOf(name string, figures []figure, columns []protocol.Basis) protocol.TableRow {
	row := protocol.TableRow{Name: name}
	for _, c := range columns {
		cell := protocol.Cell{Value: math.NaN()}
		if at := slices.IndexFunc(figures, func(f figure) bool { return f.Basis == c }); at >= 0 {
			f := figures[at]
			cell.Value = float64(f.Value)
			if f.Low != nil {
				cell.Bounds = &stats.Interval{Low: float64(*f.Low), High: float64(*f.High)}
			}
			if len(f.Contradictions) > 0 {
				cell.Mark = "†"
			}
		}
		row.Cells = append(row.Cells, cell)
	}
	return row
}

// chanceRow returns the expected values of random guessing; nil if none is known.
func (r *Report) chanceRow(columns []protocol.Basis) *protocol.TableRow {
	row := &protocol.TableRow{Name: "expected of guessing", Printed: true}
	any := false
	for _, c := range columns {
		cell := protocol.Cell{Value: math.NaN()}
		if v, ok := r.chanceOf(c); ok {
			cell.Value = float64(v)
		}
		any = any || !math.IsNaN(cell.Value)
		row.Cells = append(row.Cells, cell)
	}
	if !any {
		return nil
	}
	return row
}

// printedRows groups the printed numbers by method, paper and part; a contradiction starts another row.
func (r *Report) printedRows() (out [][]figure) {
	for _, f := range printed(r.Benchmark) {
		n := len(out)
		has := func(g figure) bool { return g.Rule == f.Rule }
		if n == 0 || out[n-1][0].System != f.System || out[n-1][0].Subset != f.Subset ||
			slices.ContainsFunc(out[n-1], has) {
			out, n = append(out, nil), n+1
		}
		out[n-1] = append(out[n-1], f)
	}
	return out
}
