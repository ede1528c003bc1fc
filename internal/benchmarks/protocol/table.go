package protocol

import (
	"cmp"
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
	Mixed   bool     // every row is a different number, with its own number of digits
}

// TableRow is one row: a cell per column of the table; missing cells at the end are undefined.
type TableRow struct {
	Name    string
	Cells   []Cell
	Printed bool // the numbers are not a system's but printed in a paper, or expected
}

// Cell is a number, NaN if undefined.
type Cell struct {
	Value  float64
	Text   string          // shown instead of the value
	Mark   string          // shown after it
	Bounds *stats.Interval // nil: there are none
}

// Count returns the cell of a count.
func Count(n int) Cell { return Cell{Value: float64(n), Text: fmt.Sprint(n)} }

// CountFromTo returns the cell of a count that differs by column.
func CountFromTo(least, most int) Cell {
	c := Count(least)
	if least < most {
		c.Text = fmt.Sprintf("%d to %d", least, most)
	}
	return c
}

// Cells returns cells of numbers.
func Cells(values ...float64) []Cell {
	out := make([]Cell, len(values))
	for i, v := range values {
		out[i].Value = v
	}
	return out
}

// Cell returns the cell of a column, which may be beyond the row's end.
func (r TableRow) Cell(i int) Cell {
	if i < len(r.Cells) {
		return r.Cells[i]
	}
	return Cell{Value: math.NaN()}
}

// Ranked reports whether a row takes part in a ranking: rows of humans and of guessing are only a reference.
func (r TableRow) Ranked() bool {
	if !r.Printed {
		return r.Name != "random" && r.Name != "constant"
	}
	return !slices.ContainsFunc([]string{"human", "Human", "random", "expected of"}, func(reference string) bool {
		return strings.HasPrefix(r.Name, reference)
	})
}

// Bounded reports whether the cell has an interval.
func (c Cell) Bounded() bool { return c.Bounds != nil && !math.IsNaN(c.Bounds.Low) }

func (c Cell) String() string {
	switch {
	case c.Text != "":
		return c.Text
	case math.IsNaN(c.Value):
		return "-"
	case !c.Bounded():
		return fmt.Sprintf("%.4f", c.Value) + c.Mark
	}
	digits := 2
	for math.Abs(c.Bounds.High-c.Bounds.Low) < 2*math.Pow10(-digits) && digits < 4 {
		digits++
	}
	return fmt.Sprintf("%.4f%s [%.*f, %.*f]", c.Value, c.Mark, digits, c.Bounds.Low, digits, c.Bounds.High)
}

// WriteCSV writes the table with full precision; undefined cells are empty. A column with intervals has two more, "low"
// and "high".
func (t Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	header := []string{"name"}
	bounded := make([]bool, len(t.Columns)) // a cell of the column has an interval
	for i, name := range t.Columns {
		header = append(header, name)
		bounded[i] = slices.ContainsFunc(t.Rows, func(r TableRow) bool { return r.Cell(i).Bounded() })
		if bounded[i] {
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
			cell := r.Cell(i)
			record = append(record, cmp.Or(cell.Text, number(cell.Value)))
			switch {
			case cell.Bounded():
				record = append(record, number(cell.Bounds.Low), number(cell.Bounds.High))
			case bounded[i]:
				record = append(record, "", "")
			}
		}
		c.Write(record)
	}
	c.Flush()
	return c.Error()
}

// Arrow returns an arrow for the direction in which a column is better.
func (t Table) Arrow(i int) string {
	switch {
	case i >= len(t.Better) || t.Better[i] == 0:
		return ""
	case t.Better[i] > 0:
		return " ↑"
	}
	return " ↓"
}

var markdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", `\<`, "*", `\*`, "`", "\\`", "\n", " ")

// Escape escapes what Markdown would read in a text: a renderer drops <name>, which it takes for HTML.
func Escape(text string) string { return markdown.Replace(text) }

// Markdown writes the table as a Markdown table.
func (t Table) Markdown(w io.Writer) {
	var columns []string
	for i, c := range t.Columns {
		columns = append(columns, Escape(c)+t.Arrow(i))
	}
	fmt.Fprintf(w, "### %s\n\n", Escape(t.Title))
	for _, note := range t.Notes {
		fmt.Fprintf(w, "- %s\n", Escape(note))
	}
	if len(t.Notes) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "| | %s |\n|---|%s\n", strings.Join(columns, " | "),
		strings.Repeat("---|", len(t.Columns)))
	for _, r := range t.Rows {
		fmt.Fprintf(w, "| %s |", Escape(r.Name))
		for i := range t.Columns {
			fmt.Fprintf(w, " %s |", Escape(r.Cell(i).String()))
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
			line = append(line, r.Cell(i).String())
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
			r.Cells = append(r.Cells, Count(n))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// Partial returns how many samples a cell is based on; "" if on all.
func Partial(used, of int) string {
	if used == of {
		return ""
	}
	return fmt.Sprintf(" (%d of %d)", used, of)
}
