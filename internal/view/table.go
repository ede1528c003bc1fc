// Package view serves pages to browse a scored table: a sorted and filtered list of edits with their pictures, and a
// page per edit that shows source and edit side by side or alternately, with a heat map on demand.
//
//	Open      reads score, label, error and texts of every row; pictures are read on request
//	Filter    a URL's query: which rows, in which order
//	Handler   serves the list, a row and its pictures
package view

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"assay/data"
	"assay/internal/exit"
)

// Table is a scored table and the data of its rows.
type Table struct {
	Methods  []string // values of the column method, sorted
	Labelled bool     // at least one row has a label
	Compared bool     // there is a second table

	table, other *data.Table
	rows         []row
}

// row holds the values that rows are sorted and filtered by. Missing numbers are NaN.
type row struct {
	score, score01, other, label float64
	method, instruction          string
	err                          string
}

// Options select what is shown.
type Options struct {
	In      string            // the scored table
	With    string            // another judge's scores of the same rows in the same order; "": none
	Columns map[string]string // our column name: the table's
}

// Open reads all rows once.
func Open(o Options) (t *Table, err error) {
	t = &Table{Compared: o.With != ""}
	defer func() {
		if err != nil {
			err = exit.Join(err, t.Close())
		}
	}()
	open := func(path string) (*data.Table, error) {
		return data.OpenTable(path, data.WithRequired(), data.WithColumns(o.Columns),
			data.WithOnly("id", "source", "edit", "instruction", "label", "method"))
	}
	if t.table, err = open(o.In); err != nil {
		return t, err
	}
	if o.With != "" {
		if t.other, err = open(o.With); err != nil {
			return t, err
		}
		if t.other.Len() != t.table.Len() {
			return t, fmt.Errorf("%s has %d rows and %s %d: compared tables must have the same rows", o.In,
				t.table.Len(), o.With, t.other.Len())
		}
	}
	return t, t.read()
}

// read fills in the rows.
func (t *Table) read() error {
	methods, texts := map[string]bool{}, map[string]string{}
	scored := false
	for i := range t.table.Len() {
		rec, err := t.table.Record(i)
		if err != nil {
			return err
		}
		line, err := t.table.Row(rec)
		if err != nil {
			return t.table.At(i, err)
		}
		r := row{other: math.NaN(), label: math.NaN(), method: line.Method, instruction: line.Instruction}
		if s, ok := texts[r.instruction]; ok { // one copy of instructions that rows share
			r.instruction = s
		} else {
			texts[r.instruction] = r.instruction
		}
		if line.Label != nil {
			r.label, t.Labelled = *line.Label, true
		}
		methods[r.method] = true
		if r.score, r.score01, r.err, err = scores(&rec); err != nil {
			return t.table.At(i, err)
		}
		scored = scored || !math.IsNaN(r.score)
		if t.other != nil {
			if r.other, err = t.otherScore(i, &line); err != nil {
				return err
			}
		}
		t.rows = append(t.rows, r)
	}
	if !scored && len(t.rows) > 0 {
		return fmt.Errorf("%s: no row has a number in the column score: `score batch` writes such a table", t.table.Path())
	}
	delete(methods, "")
	for m := range methods {
		t.Methods = append(t.Methods, m)
	}
	slices.Sort(t.Methods)
	return nil
}

// otherScore returns the score of row i in the second table.
func (t *Table) otherScore(i int, line *data.Row) (float64, error) {
	rec, err := t.other.Record(i)
	if err != nil {
		return 0, err
	}
	there, err := t.other.Row(rec)
	if err == nil && (there.ID != line.ID || there.Instruction != line.Instruction) {
		err = fmt.Errorf("not the same edit as in this row of %s: its id is %q and its instruction %q", t.table.Path(),
			there.ID, there.Instruction)
	}
	if err != nil {
		return 0, t.other.At(i, err)
	}
	score, _, _, err := scores(&rec)
	if err != nil {
		err = t.other.At(i, err)
	}
	return score, err
}

// scores reads the columns that score batch adds: score, score01 and error.
func scores(rec *data.Record) (score, score01 float64, why string, err error) {
	number := func(name string) float64 {
		v, _ := rec.Get(name)
		x, wrong := data.AnyNumber(v)
		switch {
		case wrong != nil:
			err = errors.Join(err, fmt.Errorf("column %s: %w", name, wrong))
		case x != nil:
			return *x
		}
		return math.NaN()
	}
	score, score01 = number("score"), number("score01")
	if v, ok := rec.Get("error"); ok {
		text, wrong := data.Text(v)
		why, err = text, errors.Join(err, wrong)
	}
	return score, score01, why, err
}

// Close closes the tables.
func (t *Table) Close() error {
	var errs []error
	for _, table := range []*data.Table{t.table, t.other} {
		if table != nil {
			errs = append(errs, table.Close())
		}
	}
	return errors.Join(errs...)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Filter selects the rows that are shown, and their order. It is the query of a URL, so that links can be shared.
type Filter struct {
	Sort     string // one of [Sorts]; a leading - means descending
	Text     string // in the instruction
	Method   string
	Low      string // lowest score
	High     string // highest score
	Failed   bool   // only rows with an error
	Page     int    // from 0
	low, top float64
}

// Sorts are the orders. Rows without the number come last.
var Sorts = []string{"row", "score", "label", "error", "difference"}

// ParseFilter reads a query. Unknown keys are ignored.
func ParseFilter(q url.Values) (f Filter, err error) {
	f = Filter{Sort: cmp.Or(q.Get("sort"), "row"), Text: q.Get("text"), Method: q.Get("method"), Low: q.Get("low"),
		High: q.Get("high"), Failed: q.Get("failed") != "", low: math.Inf(-1), top: math.Inf(1)}
	if !slices.Contains(Sorts, strings.TrimPrefix(f.Sort, "-")) {
		return f, fmt.Errorf("sort: want one of %s, not %q", strings.Join(Sorts, ", "), f.Sort)
	}
	for name, to := range map[string]*float64{"low": &f.low, "high": &f.top} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.ParseFloat(text, 64); err != nil {
				return f, fmt.Errorf("%s: want a number, not %q", name, text)
			}
		}
	}
	if text := q.Get("page"); text != "" {
		if f.Page, err = strconv.Atoi(text); err != nil || f.Page < 0 {
			return f, fmt.Errorf("page: want a number from 0, not %q", text)
		}
	}
	return f, nil
}

// Query returns the filter as a URL's query, with the given page.
func (f Filter) Query(page int) template.URL {
	q := url.Values{}
	set := func(key, value string) {
		if value != "" && value != "row" {
			q.Set(key, value)
		}
	}
	set("sort", f.Sort)
	set("text", f.Text)
	set("method", f.Method)
	set("low", f.Low)
	set("high", f.High)
	if f.Failed {
		q.Set("failed", "1")
	}
	if page > 0 {
		q.Set("page", strconv.Itoa(page))
	}
	return template.URL(q.Encode())
}

// Find returns the rows of a filter in its order.
func (t *Table) Find(f Filter) []int {
	var found []int
	text := strings.ToLower(f.Text)
	bounded := !math.IsInf(f.low, -1) || !math.IsInf(f.top, 1)
	for i := range t.rows {
		r := &t.rows[i]
		switch {
		case f.Failed && r.err == "", f.Method != "" && r.method != f.Method,
			text != "" && !strings.Contains(strings.ToLower(r.instruction), text),
			bounded && !(f.low <= r.score && r.score <= f.top):
			continue
		}
		found = append(found, i)
	}
	by, falling := strings.CutPrefix(f.Sort, "-")
	slices.SortStableFunc(found, func(a, b int) int {
		x, y := t.rows[a].by(by, a), t.rows[b].by(by, b)
		switch {
		case math.IsNaN(x) || math.IsNaN(y): // last in both directions
			return cmp.Compare(nan(x), nan(y))
		case falling:
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
	return found
}

func nan(x float64) int {
	if math.IsNaN(x) {
		return 1
	}
	return 0
}

// by returns the number that a sort compares.
func (r *row) by(name string, index int) float64 {
	switch name {
	case "score":
		return r.score
	case "label":
		return r.label
	case "error":
		return math.Abs(r.score01 - r.label)
	case "difference":
		return math.Abs(r.score - r.other)
	}
	return float64(index)
}
