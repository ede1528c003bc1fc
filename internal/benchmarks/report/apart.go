package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
)

// Apart returns the printed numbers that must not share the columns of the summary or of a leaderboard, in a table for
// each place in a paper, with the reasons as notes.
func (r *Report) Apart() []protocol.Table {
	columns := r.columns()
	for _, s := range r.Systems {
		for _, b := range s.boards {
			columns = append(columns, b.columns()...)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	type place struct{ paper, place string }
	var places grouped[place, figure]
	for _, f := range printed(r.Benchmark) {
		switch {
		case !slices.Contains(columns, f.Basis):
			f.why = r.why(columns, f)
		case f.again:
			f.why = "the paper prints another value for the same at an earlier place"
		default:
			continue
		}
		places.add(place{f.Paper, f.Place}, f)
	}
	var out []protocol.Table
	for _, k := range places.order {
		out = append(out, apartTable(places.of[k], r.Benchmark))
	}
	return out
}

// why returns the reason that a printed number has no column here.
func (r *Report) why(columns []protocol.Basis, f figure) string {
	best := ""
	for _, c := range columns {
		if c.Rule != f.Rule {
			continue
		}
		if d := f.Basis.Differs(c); best == "" || len(d) < len(best) {
			best = d
		}
	}
	return cmp.Or(best, "there is no such number here")
}

// apartTable returns a table of printed numbers by name, with the reasons as notes.
func apartTable(figures []figure, b *protocol.Benchmark) protocol.Table {
	t := protocol.Table{Title: fmt.Sprintf("printed in %s, %s; kept separate", figures[0].Paper, figures[0].Place)}
	if figures[0].Place == "" {
		t.Title = fmt.Sprintf("printed in %s; kept separate", figures[0].Paper)
	}
	var columns []protocol.Basis
	for _, f := range figures {
		if !slices.Contains(columns, f.Basis) {
			columns = append(columns, f.Basis)
		}
	}
	for _, c := range columns {
		t.Columns, t.Better = append(t.Columns, columnName(c, columns)), append(t.Better, b.Direction(c.Rule))
	}
	t.Notes = apartNotes(figures, columns)
	var rows [][]figure
	for _, f := range figures {
		at := slices.IndexFunc(rows, func(row []figure) bool {
			has := func(g figure) bool { return g.Basis == f.Basis }
			return row[0].System == f.System && !slices.ContainsFunc(row, has)
		})
		if at < 0 {
			at, rows = len(rows), append(rows, nil)
		}
		rows[at] = append(rows[at], f)
	}
	for _, row := range rows {
		line := rowOf(row[0].System, row, columns)
		line.Printed = true
		t.Rows = append(t.Rows, line)
	}
	return t
}

// apartNotes returns the reasons that the columns stand apart; columns with the same reason share a note.
func apartNotes(figures []figure, columns []protocol.Basis) (notes []string) {
	var reasons grouped[string, string]
	for _, c := range columns {
		name := columnName(c, columns)
		for _, f := range figures {
			if f.Basis == c && !slices.Contains(reasons.of[f.why], name) {
				reasons.add(f.why, name)
			}
		}
	}
	for _, why := range reasons.order {
		notes = append(notes, strings.Join(reasons.of[why], "; ")+": "+why)
	}
	return notes
}

// Remarks explains the marks of the summary and why a number has several columns.
func (r *Report) Remarks() (out []string) {
	columns := r.columns()
	var reasons grouped[string, string]
	for i, c := range columns {
		for _, first := range columns[:i] {
			if first.Rule == c.Rule {
				reasons.add(c.Differs(first), columnName(c, columns)+" is kept separate from "+columnName(first, columns))
				break
			}
		}
	}
	out = append(out, lines(&reasons)...)
	for _, f := range printed(r.Benchmark) {
		if len(f.Contradictions) > 0 && !f.again && slices.Contains(columns, f.Basis) {
			out = append(out, fmt.Sprintf("† %s: %s prints %v for %s in %s, but %s", f.System, f.Paper,
				float64(f.Value), f.Rule, f.Place, strings.Join(f.Contradictions, " and ")))
		}
	}
	for i, s := range r.Systems {
		var lacking []lackingDraws
		for _, f := range r.figures(i) {
			if f.Undefined > 0 {
				lacking = append(lacking, lackingDraws{f.Undefined, f.Name})
			}
		}
		out = append(out, undefinedNotes(lacking, r.resamples, s.Name)...)
	}
	return out
}

// maxNames limits the names that a line lists.
const maxNames = 6

// grouped holds values by key, with the keys in the order of their first appearance.
type grouped[K comparable, V any] struct {
	order []K
	of    map[K][]V
}

func (g *grouped[K, V]) add(key K, value V) {
	if g.of == nil {
		g.of = map[K][]V{}
	}
	if g.of[key] == nil {
		g.order = append(g.order, key)
	}
	g.of[key] = append(g.of[key], value)
}

// lines returns a line per reason: some of its names, and how many more there are.
func lines(reasons *grouped[string, string]) (out []string) {
	for _, why := range reasons.order {
		out = append(out, someOf(reasons.of[why])+": "+why)
	}
	return out
}

// someOf joins names; if there are many, only the first ones.
func someOf(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(names[:maxNames], "; "), more)
	}
	return strings.Join(names, "; ")
}

// lackingDraws is a number that some resamples lack.
type lackingDraws struct {
	without int
	what    string
}

// undefinedNotes notes which numbers of a system some resamples lack: a line for each, or one line for many.
func undefinedNotes(list []lackingDraws, resamples int, system string) (out []string) {
	if len(list) <= 3 {
		for _, n := range list {
			out = append(out, undefined(n.without, resamples, n.what+" of "+system))
		}
		return out
	}
	slices.SortStableFunc(list, func(a, b lackingDraws) int { return b.without - a.without })
	var names []string
	for _, n := range list {
		names = append(names, fmt.Sprintf("%s (%d)", n.what, n.without))
	}
	return []string{fmt.Sprintf("some of %d resamples lack %d numbers of %s, whose intervals cover the others: %s",
		resamples, len(list), system, someOf(names))}
}

// ranksOf marks the best and the second best row of every column: 1, 2 or 0, by row and column.
func ranksOf(t protocol.Table) [][]int {
	out := make([][]int, len(t.Rows))
	for i := range out {
		out[i] = make([]int, len(t.Columns))
	}
	for c := range min(len(t.Columns), len(t.Better)) {
		goodness := func(r protocol.TableRow) float64 { return float64(t.Better[c]) * r.Cell(c).Value }
		var list []float64
		for _, r := range t.Rows {
			if v := goodness(r); t.Better[c] != 0 && !math.IsNaN(v) && r.Ranked() {
				list = append(list, v)
			}
		}
		slices.Sort(list)
		slices.Reverse(list)
		if list = slices.Compact(list); len(list) < 2 {
			continue
		}
		for i, r := range t.Rows {
			if r.Ranked() {
				out[i][c] = 1 + slices.Index(list[:2], goodness(r))
			}
		}
	}
	return out
}
