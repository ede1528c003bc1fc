package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
)

// tableView is a table as a page shows it.
type tableView struct {
	Title string
	Notes []string
	Head  []headView
	Rows  []rowView
}

type headView struct{ Name, Rule, Arrow string }

type rowView struct {
	Name, Class string
	Cells       []cellView
}

type cellView struct {
	Text, Mark, Bounds string
	Full               string // the value with all its digits
	Rank               int    // 1 the best of its column, 2 the second
}

// plainView shows a table in its own order.
func plainView(r *Report, t protocol.Table) tableView { return r.view(t) }

// sortedView shows a table sorted by the benchmark's headline, or by the first column that has a better direction.
func sortedView(r *Report, t protocol.Table) tableView {
	if at := sortColumn(r.Benchmark, t); at >= 0 {
		t.Rows = slices.Clone(t.Rows)
		key := func(row protocol.TableRow) float64 {
			if v := row.Cell(at).Value; !math.IsNaN(v) {
				return -float64(t.Better[at]) * v
			}
			return math.Inf(1)
		}
		slices.SortStableFunc(t.Rows, func(a, b protocol.TableRow) int { return cmp.Compare(key(a), key(b)) })
		if len(t.Columns) > shownColumns && r.Benchmark.Headline != "" {
			t = leading(t, at)
		}
	}
	return r.view(t)
}

// shownColumns is how many columns a page shows at once: wider tables show the column they are sorted by first.
const shownColumns = 8

// leading returns the table with a column moved to the front.
func leading(t protocol.Table, at int) protocol.Table {
	t.Columns, t.Better = first(t.Columns, at, t.Columns[at]), first(t.Better, at, t.Better[at])
	t.Rows = slices.Clone(t.Rows)
	for i, row := range t.Rows {
		t.Rows[i].Cells = first(row.Cells, at, row.Cell(at))
	}
	return t
}

// first returns a list with v, its element at that index, moved to the front.
func first[T any](list []T, at int, v T) []T {
	return slices.Concat([]T{v}, list[:min(at, len(list))], list[min(at+1, len(list)):])
}

// sortColumn returns the column that a table is sorted by, -1 for none. Columns in which no system has a number are
// skipped if other columns have some.
func sortColumn(b *protocol.Benchmark, t protocol.Table) int {
	first := -1
	lacks := func(column int) bool {
		return !slices.ContainsFunc(t.Rows, func(r protocol.TableRow) bool {
			return !r.Printed && r.Ranked() && !math.IsNaN(r.Cell(column).Value)
		})
	}
	empty := make([]bool, len(t.Columns))
	for i := range empty {
		empty[i] = lacks(i)
	}
	for i, better := range t.Better {
		if better == 0 || empty[i] && slices.Contains(empty, false) {
			continue
		}
		if b.Headline != "" && (t.Columns[i] == b.Headline || strings.HasPrefix(t.Columns[i], b.Headline+" ") ||
			strings.HasPrefix(t.Columns[i], b.Headline+",")) {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	return first
}

func (r *Report) view(t protocol.Table) tableView {
	v := tableView{Title: t.Title, Notes: t.Notes}
	rules := rulesOf(r.Benchmark)
	for i, c := range t.Columns {
		v.Head = append(v.Head, headView{c, rules.of(c), t.Arrow(i)})
	}
	ranks := ranksOf(t)
	digits := make([]int, len(t.Columns))
	for i := range t.Columns {
		digits[i] = digitsOf(columnOf(t, i))
	}
	for k, row := range t.Rows {
		line := rowView{Name: row.Name}
		switch {
		case !row.Ranked():
			line.Class = "reference"
		case !row.Printed && len(t.Better) > 0:
			line.Class = "own"
		}
		for i := range t.Columns {
			n := digits[i]
			if t.Mixed {
				n = digitsOf(valuesOf(row.Cells))
			}
			line.Cells = append(line.Cells, viewCell(row.Cell(i), n, ranks[k][i]))
		}
		v.Rows = append(v.Rows, line)
	}
	return v
}

func viewCell(c protocol.Cell, digits, rank int) cellView {
	switch {
	case c.Text != "":
		return cellView{Text: c.Text}
	case math.IsNaN(c.Value):
		return cellView{Text: "–"}
	}
	v := cellView{Text: fmt.Sprintf("%.*f", digits, c.Value), Mark: c.Mark, Full: fmt.Sprint(c.Value), Rank: rank}
	if c.Bounded() {
		v.Bounds = fmt.Sprintf("%.*f to %.*f", digits, c.Bounds.Low, digits, c.Bounds.High)
	}
	return v
}

// columnOf returns the numbers of a column.
func columnOf(t protocol.Table, at int) []float64 {
	var cells []protocol.Cell
	for _, r := range t.Rows {
		cells = append(cells, r.Cell(at))
	}
	return valuesOf(cells)
}

func valuesOf(cells []protocol.Cell) (out []float64) {
	for _, c := range cells {
		out = append(out, c.Value)
	}
	return out
}

// digitsOf returns the number of decimals: none for counts, else enough for about three significant digits of the
// largest number.
func digitsOf(numbers []float64) int {
	largest, whole := 0.0, true
	for _, v := range protocol.Defined(numbers) {
		largest = max(largest, math.Abs(v))
		whole = whole && v == math.Trunc(v)
	}
	switch {
	case whole && largest >= 2:
		return 0
	case largest >= 100:
		return 1
	case largest >= 2:
		return 2
	case largest >= 0.02 || largest == 0:
		return 3
	}
	return 4
}

// rule is a rule of a benchmark as a page lists it.
type rule struct{ ID, Names, Text string }

type ruleList []rule

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// rulesOf returns the rules of a benchmark: "names: definition".
func rulesOf(b *protocol.Benchmark) (out ruleList) {
	for _, text := range b.Rules {
		names, definition, ok := strings.Cut(text, ": ")
		if !ok {
			names, definition = text, ""
		}
		out = append(out, rule{"rule-" + strings.Trim(notInID.ReplaceAllString(strings.ToLower(names), "-"), "-"),
			names,
			definition})
	}
	return out
}

// of returns the anchor of a column's rule: the one that names it, else one that mentions it, else the list of rules.
func (l ruleList) of(column string) string {
	name, _, _ := strings.Cut(strings.SplitN(column, " (", 2)[0], ",")
	word := regexp.MustCompile(`(^|[^\w])` + regexp.QuoteMeta(strings.SplitN(name, ":", 2)[0]) + `($|[^\w])`)
	for _, in := range []func(rule) string{func(r rule) string { return r.Names },
		func(r rule) string { return r.Text }} {
		for _, r := range l {
			if word.MatchString(in(r)) {
				return r.ID
			}
		}
	}
	return "rules"
}
