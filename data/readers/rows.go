package readers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"assay/data"
	"assay/heuristics"
)

// rows are the records of one table, in one file or several.
type rows interface {
	len() int
	record(i int) (data.Record, error)
	folder() string // base of relative picture paths
	where(i int) string
	columns() []string       // names; without a header: those in the first records
	has(column string) error // error if a file lacks the column, naming the columns that it has
	close() error
}

// firstRecords is how many records are inspected for the columns of a table without a header.
const firstRecords = 100

// namesOf are the field names of records [from, to), in order.
func namesOf(r rows, from, to int) []string {
	var names []string
	seen := map[string]bool{}
	for i := from; i < to; i++ {
		rec, err := r.record(i)
		if err != nil {
			continue // reading the record reports it
		}
		for _, f := range rec.Fields {
			if !seen[f.Name] {
				seen[f.Name] = true
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// someHas looks for a column in records [from, to). A table without records lacks nothing.
func someHas(r rows, column, file string, from, to int) error {
	read := false
	for i := from; i < to; i++ {
		rec, err := r.record(i)
		if err != nil {
			continue
		}
		read = true
		if _, ok := rec.Get(column); ok {
			return nil
		}
	}
	if !read {
		return nil
	}
	return noColumn(file, column, namesOf(r, from, min(to, from+firstRecords)))
}

func noColumn(file, column string, have []string) error {
	return fmt.Errorf("%s: %w", file, &data.MissingColumnError{Column: column, Name: column, Have: have})
}

// openRows opens a table: a Parquet, JSON lines, JSON, CSV or TSV file, or a folder of such files in name order
// (train-00000-of-00007.parquet). A folder saved by `datasets` (arrow files) is also a table.
func openRows(path string) (rows, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if strings.EqualFold(filepath.Ext(path), ".arrow") {
			return openArrow(filepath.Dir(path), []string{path})
		}
		return openTables([]string{path})
	}
	var arrow, tables []string
	err = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch strings.ToLower(filepath.Ext(p)) {
		case ".arrow":
			arrow = append(arrow, p)
		case ".parquet", ".jsonl", ".ndjson", ".csv", ".tsv", ".tab":
			tables = append(tables, p)
		case ".json":
			is, err := isJSONTable(p)
			if is {
				tables = append(tables, p)
			}
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(arrow) > 0 && len(tables) > 0:
		return nil, fmt.Errorf("%s has arrow files and other tables (%s and %s): name one file or folder of one kind", path,
			arrow[0], tables[0])
	case len(arrow) > 0:
		return openArrow(path, arrow)
	case len(tables) > 0:
		return openTables(tables)
	}
	return nil, fmt.Errorf("%s: no .parquet, .jsonl, .json, .ndjson, .csv, .tsv or .arrow tables in it", path)
}

// isJSONTable reports whether a .json file has rows: an array of objects, or an object on each of several lines. A
// single object describes a data set, as dataset_info.json and state.json of `datasets` do.
func isJSONTable(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	d := json.NewDecoder(f)
	first, err := d.Token()
	if err != nil || first != json.Delim('[') && first != json.Delim('{') {
		return false, nil
	}
	if first == json.Delim('[') {
		row, err := d.Token()
		return err == nil && row == json.Delim('{'), nil
	}
	for depth := 1; depth > 0; {
		t, err := d.Token()
		switch {
		case err != nil:
			return false, nil
		case t == json.Delim('{') || t == json.Delim('['):
			depth++
		case t == json.Delim('}') || t == json.Delim(']'):
			depth--
		}
	}
	next, err := d.Token()
	return err == nil && next == json.Delim('{'), nil
}

// tables are several files of data.Table with the same columns. Only one is open at a time.
type tables struct {
	paths   []string
	headers [][]string // of every file; nil: each record has its own
	starts  []int      // first row of every file, and the number of rows
	at      int
	open    *data.Table
}

func openTables(paths []string) (*tables, error) {
	slices.Sort(paths)
	t := &tables{paths: paths, starts: []int{0}}
	for i := range paths {
		if err := t.turn(i); err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.starts = append(t.starts, t.starts[i]+t.open.Len())
		t.headers = append(t.headers, t.open.Columns())
	}
	return t, nil
}

func (t *tables) columns() []string {
	var all []string
	for f, names := range t.headers {
		if names == nil {
			names = namesOf(t, t.starts[f], min(t.starts[f+1], t.starts[f]+firstRecords))
		}
		for _, name := range names {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func (t *tables) has(column string) error {
	for f, names := range t.headers {
		var err error
		if names == nil {
			err = someHas(t, column, t.paths[f], t.starts[f], t.starts[f+1])
		} else if !slices.Contains(names, column) {
			err = noColumn(t.paths[f], column, names)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turn opens file i.
func (t *tables) turn(i int) error {
	if t.open != nil && t.at == i {
		return nil
	}
	next, err := data.OpenTable(t.paths[i], data.WithRequired())
	if err != nil {
		return err
	}
	if t.open != nil {
		t.open.Close()
	}
	t.open, t.at = next, i
	return nil
}

func (t *tables) len() int { return t.starts[len(t.starts)-1] }

func (t *tables) file(i int) int {
	return sort.Search(len(t.paths)-1, func(f int) bool { return t.starts[f+1] > i })
}

func (t *tables) record(i int) (data.Record, error) {
	f := t.file(i)
	if err := t.turn(f); err != nil {
		return data.Record{}, err
	}
	return t.open.Record(i - t.starts[f])
}

func (t *tables) folder() string { return filepath.Dir(t.paths[t.at]) }

func (t *tables) where(i int) string {
	f := t.file(i)
	if t.at == f && t.open != nil {
		if line := t.open.Line(i - t.starts[f]); line > 0 {
			return fmt.Sprintf("%s:%d", filepath.Base(t.paths[f]), line)
		}
	}
	return fmt.Sprintf("%s: row %d", filepath.Base(t.paths[f]), i-t.starts[f]+1)
}

func (t *tables) close() error {
	if t.open == nil {
		return nil
	}
	return t.open.Close()
}

// cells reads the values of one record by field name, mapped by the options, and collects problems.
type cells struct {
	rec    data.Record
	o      *Options
	folder string
	where  string // the row, for messages
	errs   []error
}

// readRow returns row i of a table as cells.
func readRow(r rows, i int, o *Options) (*cells, error) {
	rec, err := r.record(i)
	if err != nil {
		return nil, err
	}
	folder := o.Pictures
	if folder == "" {
		folder = r.folder()
	}
	return &cells{rec: rec, o: o, folder: folder, where: r.where(i)}, nil
}

// column is the file's name for a field; a field that the options do not map is itself the name.
func (c *cells) column(field string) string {
	if name, ok := c.o.Columns[field]; ok {
		return name
	}
	return field
}

// get returns the value of a field, nil if there is none.
func (c *cells) get(field string) any {
	v, _ := c.rec.Get(c.column(field))
	return v
}

func (c *cells) bad(field string, err error) {
	c.errs = append(c.errs, fmt.Errorf("column %q: %w", c.column(field), err))
}

// text is "" if the value is null or absent.
func (c *cells) text(field string) string {
	s, err := data.Text(c.get(field))
	if err != nil {
		c.bad(field, err)
	}
	return s
}

// similarity is unknown if the value is null or absent. It is undefined if it is NaN, or if it is null and listed in
// the column undefined (written by label similarities, since JSON has no NaN).
func (c *cells) similarity(field string) heuristics.Similarity {
	x, err := data.AnyNumber(c.get(field))
	if err == nil && x == nil && slices.Contains(strings.Fields(c.text("undefined")), field) {
		return heuristics.Measured(math.NaN())
	}
	if err == nil && x != nil && math.IsInf(*x, 0) {
		err = fmt.Errorf("want a finite number, have %v", *x)
	}
	if err != nil {
		c.bad(field, err)
		return heuristics.Similarity{}
	}
	return heuristics.SimilarityOf(x)
}

// picture is zero if the value is null or absent.
func (c *cells) picture(field string) data.Image {
	m, err := data.ToImage(c.get(field))
	if err != nil {
		c.bad(field, err)
	}
	return under(c.folder, m)
}

// label reads a score and maps it to 0..1.
func (c *cells) label(field string, lo, hi float64) *float64 {
	if c.o.LabelRange != [2]float64{} {
		lo, hi = c.o.LabelRange[0], c.o.LabelRange[1]
	}
	x, err := data.Finite(c.get(field))
	if err != nil {
		c.bad(field, err)
	}
	if x == nil {
		return nil
	}
	if *x < lo || *x > hi {
		c.bad(field, fmt.Errorf("%v is outside %v to %v: set label_range to the range of the labels", *x, lo, hi))
		return nil
	}
	y := (*x - lo) / (hi - lo)
	return &y
}

// need records an error for each field that is missing or null.
func (c *cells) need(fields ...string) {
	for _, f := range fields {
		v, ok := c.rec.Get(c.column(f))
		if s, err := data.Text(v); !ok && f == "source" && slices.ContainsFunc(c.rec.Fields, isSources) {
			c.errs = append(c.errs, errors.New("the row has a list of sources, but labels need a single source: add "+
				"a column source"))
		} else if !ok {
			c.errs = append(c.errs, fmt.Errorf("no column %q, only %s", c.column(f), c.names()))
		} else if err == nil && strings.TrimSpace(s) == "" {
			c.bad(f, errors.New("is empty"))
		}
	}
}

func isSources(f data.Field) bool { return f.Name == "sources" && !data.IsNull(f.Value) }

func (c *cells) names() string {
	var names []string
	for _, f := range c.rec.Fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// err returns all problems in one line.
func (c *cells) err() error {
	if len(c.errs) == 0 {
		return nil
	}
	err := c.errs[0]
	for _, next := range c.errs[1:] {
		err = fmt.Errorf("%w; %w", err, next)
	}
	return fmt.Errorf("%s: %w", c.where, err)
}

// under resolves the path of a picture against the folder.
func under(folder string, m data.Image) data.Image {
	if len(m.Bytes) == 0 && m.Path != "" && !filepath.IsAbs(m.Path) {
		m.Path = filepath.Join(folder, filepath.FromSlash(m.Path))
	}
	return m
}
