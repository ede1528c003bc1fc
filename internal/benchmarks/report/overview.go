package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"

	"assay/internal/benchmarks/protocol"
	"assay/internal/page"
	"assay/internal/stats"
)

// Overview is one table over several benchmarks: a row for each, with its headline number, and a column for each judge.
type Overview struct {
	Judges []string      `json:"judges"`
	Rows   []OverviewRow `json:"benchmarks"`
}

// OverviewRow is a benchmark.
type OverviewRow struct {
	Benchmark string         `json:"benchmark"`
	Title     string         `json:"title"`
	With      string         `json:"with,omitempty"`    // what its judges are asked: a dimension, a part
	NotRun    string         `json:"not_run,omitempty"` // why it was not run
	Cells     []OverviewCell `json:"results,omitempty"` // by judge
}

// OverviewCell is one judge's result in one benchmark.
type OverviewCell struct {
	Judge  string          `json:"judge"`
	Number string          `json:"number,omitempty"` // the name of its rule
	Subset string          `json:"subset,omitempty"` // part of the benchmark
	Value  *protocol.Value `json:"value,omitempty"`  // nil: it failed
	Low    *protocol.Value `json:"low,omitempty"`    // of a 95 % interval
	High   *protocol.Value `json:"high,omitempty"`
	Used   int             `json:"used,omitempty"` // items
	Of     int             `json:"of,omitempty"`
	Error  string          `json:"error,omitempty"`

	lower bool // is better
}

// Overall returns the headline number of a report's first system, which is the judge's; if it has none, its first
// number.
func (r *Report) Overall(judge string) OverviewCell {
	var numbers []figure
	if len(r.Systems) > 0 {
		numbers = slices.DeleteFunc(r.figures(0), func(f figure) bool { return math.IsNaN(float64(f.Value)) })
	}
	if len(numbers) == 0 {
		return OverviewCell{Judge: judge, Error: "it has no number"}
	}
	f := numbers[max(0, slices.IndexFunc(numbers, func(f figure) bool { return f.Rule == r.Benchmark.Headline }))]
	return OverviewCell{Judge: judge, Number: f.Rule, Subset: f.Subset, Value: &f.Value, Low: f.Low, High: f.High,
		Used: f.Coverage.Used, Of: f.Coverage.Of, lower: r.Benchmark.Direction(f.Rule) < 0}
}

// Failed counts the results that could not be computed.
func (o *Overview) Failed() (n int) {
	for _, row := range o.Rows {
		for _, c := range row.Cells {
			if c.Error != "" {
				n++
			}
		}
	}
	return n
}

// Table returns the overview as a table; benchmarks that were not run are its notes.
func (o *Overview) Table() protocol.Table {
	t := protocol.Table{Title: "benchmark", Columns: o.Judges, Mixed: true}
	for _, row := range o.Rows {
		if row.NotRun != "" {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: not run: %s", row.Benchmark, row.NotRun))
			continue
		}
		for _, number := range row.numbers() {
			line := protocol.TableRow{Name: row.Benchmark + number}
			if row.With != "" {
				line.Name += " (" + row.With + ")"
			}
			for _, c := range row.Cells {
				line.Cells = append(line.Cells, c.cell(number))
			}
			t.Rows = append(t.Rows, line)
		}
		for _, c := range row.Cells {
			if c.Error != "" {
				t.Notes = append(t.Notes, fmt.Sprintf("%s: %s failed: %s", row.Benchmark, c.Judge, c.Error))
			}
		}
	}
	return t
}

// numbers returns the names of the numbers of a row's judges: one, unless a judge lacks the headline. Numbers with
// different names never share a line.
func (r *OverviewRow) numbers() (names []string) {
	for _, c := range r.Cells {
		if c.Error == "" && !slices.Contains(names, c.name()) {
			names = append(names, c.name())
		}
	}
	if names == nil {
		return []string{""}
	}
	return names
}

// name returns the part of a row's name that follows the benchmark.
func (c *OverviewCell) name() string {
	name := ": " + c.Number
	if c.Subset != "" {
		name += ", " + c.Subset
	}
	if c.lower {
		name += " ↓"
	}
	return name
}

// cell returns a judge's cell in the line of a number.
func (c *OverviewCell) cell(number string) protocol.Cell {
	switch {
	case c.Error != "":
		return protocol.Cell{Value: math.NaN(), Text: "failed"}
	case c.name() != number:
		return protocol.Cell{Value: math.NaN(), Text: "-"}
	}
	cell := protocol.Cell{Value: float64(*c.Value)}
	if c.Low != nil {
		cell.Bounds = &stats.Interval{Low: float64(*c.Low), High: float64(*c.High)}
	}
	if c.Used < c.Of {
		cell.Mark = fmt.Sprintf(" (%d of %d)", c.Used, c.Of)
	}
	return cell
}

//go:embed overview.html
var overviewPage string

var overviewTemplate = page.Parse(overviewPage, nil)

// Write writes index.html, results.csv, results.md and results.json into a folder.
func (o *Overview) Write(dir string) error {
	table := o.Table()
	files := map[string]func(io.Writer) error{
		"index.html":  func(w io.Writer) error { return overviewTemplate.Execute(w, table) },
		"results.csv": table.WriteCSV,
		"results.md": func(w io.Writer) error {
			table.Markdown(w)
			return nil
		},
		"results.json": indented(o),
	}
	return writeFiles(dir, files)
}
