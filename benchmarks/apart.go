package benchmarks

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Apart are the numbers that must not stand in the columns of the summary, in tables of their own, each with the reason
// as its title.
func (r *Report) Apart() []Table {
	columns := r.columns()
	if len(columns) == 0 {
		return nil
	}
	type key struct{ why, place string }
	var order []key
	groups := map[key][]Figure{}
	for _, f := range r.Benchmark.printed() {
		fits := slices.ContainsFunc(columns, func(c Basis) bool { return r.Benchmark.matches(c, f.Basis) })
		if fits && !f.again {
			continue
		}
		k := key{r.why(columns, f), f.Place}
		if fits {
			k.why = "the paper prints another value for the same at an earlier place"
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], f)
	}
	var out []Table
	for _, k := range order {
		out = append(out, apartTable(k.why, groups[k], r.Benchmark))
	}
	return out
}

// why says why a printed number has no column here.
func (r *Report) why(columns []Basis, f Figure) string {
	why := ""
	for _, c := range columns {
		if c.Rule != f.Rule {
			continue
		}
		if r.Benchmark.Size == 0 {
			f.Coverage = Coverage{Used: c.Coverage.Of, Of: c.Coverage.Of}
		}
		if d := f.Basis.Differs(c); why == "" || len(d) < len(why) {
			why = d
		}
	}
	if why == "" {
		return "there is no such number here"
	}
	return why
}

// apartTable lays printed numbers out by their names.
func apartTable(why string, figures []Figure, b *Benchmark) Table {
	t := Table{Title: fmt.Sprintf("printed in %s, %s; stands apart: %s", figures[0].Paper, figures[0].Place, why)}
	if figures[0].Place == "" {
		t.Title = fmt.Sprintf("printed in %s; stands apart: %s", figures[0].Paper, why)
	}
	var columns []Basis
	for _, f := range figures {
		if !slices.Contains(columns, f.Basis) {
			columns = append(columns, f.Basis)
		}
	}
	for _, c := range columns {
		t.Columns, t.Better = append(t.Columns, columnName(c, columns)), append(t.Better, b.direction(c.Rule))
	}
	var rows [][]Figure
	for _, f := range figures {
		if n := len(rows); n == 0 || rows[n-1][0].System != f.System {
			rows = append(rows, nil)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], f)
	}
	for _, row := range rows {
		line := rowOf(row[0].System, row, columns, nil)
		line.Printed = true
		t.Rows = append(t.Rows, line)
	}
	return t
}

// Remarks explain the marks of the summary and why its columns are several.
func (r *Report) Remarks() (out []string) {
	columns := r.columns()
	for i, c := range columns {
		for _, first := range columns[:i] {
			if first.Rule == c.Rule {
				out = append(out, fmt.Sprintf("%s stands apart from %s: %s", columnName(c, columns),
					columnName(first, columns), c.Differs(first)))
				break
			}
		}
	}
	for _, f := range r.Benchmark.printed() {
		in := func(c Basis) bool { return r.Benchmark.matches(c, f.Basis) }
		if len(f.Contradictions) > 0 && !f.again && slices.ContainsFunc(columns, in) {
			out = append(out, fmt.Sprintf("† %s: %s prints %v for %s in %s, but %s", f.System, f.Paper,
				float64(f.Value), f.Rule, f.Place, strings.Join(f.Contradictions, " and ")))
		}
	}
	return out
}

// direction is 1 if more of a number is better, -1 if less is, 0 if neither or not known.
func (b *Benchmark) direction(number string) int {
	for _, lower := range b.Lower {
		if number == lower || strings.HasPrefix(number, lower+"_") {
			return -1
		}
	}
	if slices.Contains(b.Neutral, number) {
		return 0
	}
	return 1
}

// ranks marks of every column the best and the second best row: 1, 2 or 0, by row and column.
func (t Table) ranks() [][]int {
	out := make([][]int, len(t.Rows))
	for i := range out {
		out[i] = make([]int, len(t.Columns))
	}
	for c := range t.Columns {
		if c >= len(t.Better) || t.Better[c] == 0 {
			continue
		}
		var list []float64
		for _, r := range t.Rows {
			if c < len(r.Cells) && !math.IsNaN(r.Cells[c]) && r.ranked() {
				list = append(list, float64(t.Better[c])*r.Cells[c])
			}
		}
		slices.Sort(list)
		slices.Reverse(list)
		list = slices.Compact(list)
		for i, r := range t.Rows {
			if c >= len(r.Cells) || !r.ranked() || len(list) < 2 {
				continue
			}
			if at := slices.Index(list, float64(t.Better[c])*r.Cells[c]); at >= 0 && at < 2 {
				out[i][c] = at + 1
			}
		}
	}
	return out
}
