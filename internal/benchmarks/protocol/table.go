package protocol

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"assay/internal/stats"
)

// Table is a table of a report: named rows of numbers (NaN prints as undefined).
type Table struct {
	Title   string
	Columns []string // without the column of row names
	Better  []int    // of a column: 1 if more is better, -1 if less is, 0 if neither; may be shorter than Columns
	Rows    []TableRow
	Notes   []string // shown below the title
	Mixed   bool     // every row is of a number of its own, and has its own digits
}

// TableRow is one row: Cells holds one value per column of the table.
type TableRow struct {
	Name    string
	Cells   []float64
	Text    []string         // shown instead of Cells[i] where it is not ""
	Marks   []string         // shown behind a cell
	Bounds  []stats.Interval // of the cells, NaN where there are none
	Printed bool             // the numbers are not of a system but printed in a paper, or expected
}

// Ranked reports whether a row takes part in a ranking: what people and guesses get is for orientation.
func (r TableRow) Ranked() bool {
	if !r.Printed {
		return r.Name != "random" && r.Name != "constant"
	}
	return !slices.ContainsFunc([]string{"human", "Human", "random", "expected of"}, func(reference string) bool {
		return strings.HasPrefix(r.Name, reference)
	})
}

func (r TableRow) cell(i int, undefined string) string {
	if i < len(r.Text) && r.Text[i] != "" {
		return r.Text[i]
	}
	if i >= len(r.Cells) || math.IsNaN(r.Cells[i]) {
		return undefined
	}
	return fmt.Sprintf("%.4f", r.Cells[i]) + r.Mark(i) + r.bounds(i)
}

// Mark returns what is shown behind a cell.
func (r TableRow) Mark(i int) string {
	if i < len(r.Marks) {
		return r.Marks[i]
	}
	return ""
}

// bounds prints the interval of a cell, "" if there is none.
func (r TableRow) bounds(i int) string {
	if !r.Bounded(i) {
		return ""
	}
	digits := 2
	for math.Abs(r.Bounds[i].High-r.Bounds[i].Low) < 2*math.Pow10(-digits) && digits < 4 {
		digits++
	}
	return fmt.Sprintf(" [%.*f, %.*f]", digits, r.Bounds[i].Low, digits, r.Bounds[i].High)
}

// Bounded reports whether a cell has an interval.
func (r TableRow) Bounded(i int) bool { return i < len(r.Bounds) && !math.IsNaN(r.Bounds[i].Low) }

// bounded reports whether a cell of a column has an interval.
func (t Table) bounded(i int) bool {
	return slices.ContainsFunc(t.Rows, func(r TableRow) bool { return r.Bounded(i) })
}

// WriteCSV writes the table with full precision; undefined cells are empty. A column with intervals has two more, "low"
// and "high".
func (t Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	header := []string{"name"}
	for i, name := range t.Columns {
		header = append(header, name)
		if t.bounded(i) {
			header = append(header, name+" low", name+" high")
		}
	}
	c.Write(header) // errors are kept by the writer
	number := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return fmt.Sprint(v)
	}
	for _, r := range t.Rows {
		record := []string{r.Name}
		for i := range t.Columns {
			switch {
			case i < len(r.Text) && r.Text[i] != "":
				record = append(record, r.Text[i])
			case i >= len(r.Cells):
				record = append(record, "")
			default:
				record = append(record, number(r.Cells[i]))
			}
			switch {
			case r.Bounded(i):
				record = append(record, number(r.Bounds[i].Low), number(r.Bounds[i].High))
			case t.bounded(i):
				record = append(record, "", "")
			}
		}
		c.Write(record)
	}
	c.Flush()
	return c.Error()
}

// Arrow says which way a column is better.
func (t Table) Arrow(i int) string {
	switch {
	case i >= len(t.Better) || t.Better[i] == 0:
		return ""
	case t.Better[i] > 0:
		return " ↑"
	}
	return " ↓"
}

// Markdown writes the table as a Markdown table.
func (t Table) Markdown(w io.Writer) {
	escape := strings.NewReplacer("|", `\|`)
	var columns []string
	for i, c := range t.Columns {
		columns = append(columns, escape.Replace(c)+t.Arrow(i))
	}
	fmt.Fprintf(w, "### %s\n\n", t.Title)
	for _, note := range t.Notes {
		fmt.Fprintf(w, "- %s\n", note)
	}
	if len(t.Notes) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "| | %s |\n|---|%s\n", strings.Join(columns, " | "),
		strings.Repeat("---|", len(t.Columns)))
	for _, r := range t.Rows {
		fmt.Fprintf(w, "| %s |", escape.Replace(r.Name))
		for i := range t.Columns {
			fmt.Fprintf(w, " %s |", r.cell(i, "-"))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// Print writes the table in aligned columns.
func (t Table) Print(w io.Writer) {
	grid := [][]string{append([]string{t.Title}, t.Columns...)}
	for _, r := range t.Rows {
		line := []string{"  " + r.Name}
		for i := range t.Columns {
			line = append(line, r.cell(i, "-"))
		}
		grid = append(grid, line)
	}
	widths := make([]int, len(grid[0]))
	for _, line := range grid {
		for i, c := range line {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	for _, line := range grid {
		for i, c := range line {
			pad := strings.Repeat(" ", widths[i]-len([]rune(c)))
			if i == 0 {
				fmt.Fprint(w, c, pad)
			} else {
				fmt.Fprint(w, "  ", pad, c)
			}
		}
		fmt.Fprintln(w)
	}
}

// Confusion counts, for each true class, the predicted classes.
type Confusion struct {
	Title            string
	Truth, Predicted []string // the classes
	Counts           [][]int  // [truth][predicted]
}

// NewConfusion counts pairs of classes. Predicted classes that are not listed are appended to the columns.
func NewConfusion(title string, truth, predicted, rows, columns []string) Confusion {
	c := Confusion{Title: title, Truth: rows, Predicted: slices.Clone(columns)}
	for _, p := range predicted {
		if !slices.Contains(c.Predicted, p) {
			c.Predicted = append(c.Predicted, p)
		}
	}
	c.Counts = make([][]int, len(rows))
	for i := range rows {
		c.Counts[i] = make([]int, len(c.Predicted))
	}
	for i := range truth {
		c.Counts[slices.Index(rows, truth[i])][slices.Index(c.Predicted, predicted[i])]++
	}
	return c
}

// MarshalJSON writes {truth: {predicted: count}}.
func (c Confusion) MarshalJSON() ([]byte, error) {
	m := make(map[string]map[string]int, len(c.Truth))
	for i, t := range c.Truth {
		m[t] = make(map[string]int, len(c.Predicted))
		for j, p := range c.Predicted {
			m[t][p] = c.Counts[i][j]
		}
	}
	return json.Marshal(m)
}

// Table returns the counts as a table.
func (c Confusion) Table() Table {
	t := Table{Title: c.Title, Columns: c.Predicted}
	for i, name := range c.Truth {
		r := TableRow{Name: name}
		for _, n := range c.Counts[i] {
			r.Cells = append(r.Cells, 0)
			r.Text = append(r.Text, fmt.Sprint(n))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// Partial says on how many samples a cell stands; "" if on all.
func Partial(used, of int) string {
	if used == of {
		return ""
	}
	return fmt.Sprintf(" (%d of %d)", used, of)
}
