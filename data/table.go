package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"assay/data/parquet"
	"assay/internal/remote"
)

// Format is a format of tables.
type Format int

const (
	FormatJSONL   Format = iota // one object per line; when reading also an array of objects
	FormatParquet               // written with zstd and row groups of at most 32 MiB
	FormatCSV                   // read only, like TSV; the first line names the columns
)

// FormatOf returns the format to write, from the file's extension.
func FormatOf(path string) (Format, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".parquet":
		return FormatParquet, nil
	case ".jsonl", ".json", ".ndjson":
		return FormatJSONL, nil
	}
	return 0, fmt.Errorf("%s: tables can only be written as .jsonl or .parquet", path)
}

// Table is an open table of any format, a label table or any other. Rows can be read in any order, and are read from
// the file each time. In text formats a row takes 16 bytes of memory, in Parquet a page takes some more. It is safe
// for concurrent use.
type Table struct {
	path     string
	source   source
	names    map[string]string
	found    map[string]string
	required []string
	only     []string // nil: all
	pictures []string // further picture columns
	storage  context.Context
}

// A source reads the records of one file.
type source interface {
	columns() []string // nil if every record has its own
	len() int
	read(i int) (Record, error)
	where(i int) string // names row i in messages
	io.Closer
}

// parquetTable is a Parquet file as a source.
type parquetTable struct {
	*parquet.File
	name string
}

func (t *parquetTable) columns() []string { return t.Columns() }

func (t *parquetTable) len() int { return t.Len() }

func (t *parquetTable) where(i int) string { return fmt.Sprintf("%s: row %d", t.name, i+1) }

func (t *parquetTable) read(i int) (Record, error) {
	fields, raw, err := t.Read(i)
	rec := recordOf(fields)
	rec.raw = raw
	return rec, err
}

func recordOf(fields []parquet.Field) (r Record) {
	for _, f := range fields {
		r.Fields = append(r.Fields, Field(f))
	}
	return r
}

// Option configures OpenTable.
type Option func(*Table)

// WithColumns maps columns of the label table to their names in the file. Columns that are not mapped keep their
// names.
func WithColumns(names map[string]string) Option { return func(t *Table) { t.names = names } }

// WithFound requires the columns in a user's map, whether of the label table or not: a column that no row has is a
// *MissingColumnError.
func WithFound(names map[string]string) Option { return func(t *Table) { t.found = names } }

// WithRequired sets which columns of the label table must be present and not null. Default: source, edit,
// instruction.
func WithRequired(columns ...string) Option { return func(t *Table) { t.required = columns } }

// WithOnly reads only these columns of the label table. Other columns are neither checked nor set in the rows.
func WithOnly(columns ...string) Option { return func(t *Table) { t.only = columns } }

// WithStorage allows tables on object storage, such as s3://bucket/edits.parquet (package internal/remote). Requests
// end with ctx. Picture paths are relative to the folder of the table.
func WithStorage(ctx context.Context) Option { return func(t *Table) { t.storage = ctx } }

// OpenTable opens a Parquet, JSONL, JSON, CSV or TSV file. The format is detected from the content, CSV and TSV from
// the extension. Errors name the file, and the column of the label table that is missing.
func OpenTable(path string, options ...Option) (*Table, error) {
	t := &Table{path: path, required: []string{"source", "edit", "instruction"}}
	for _, o := range options {
		o(t)
	}
	known := map[string]bool{sourcesColumn: true}
	for _, c := range LabelColumns {
		known[c.Name] = true
	}
	for name := range t.names {
		if !known[name] {
			return nil, fmt.Errorf("column map: the label table has no column %q: write ours=theirs, with ours one of %s",
				name, list(columnNames(LabelColumns)))
		}
		read := name
		if name == sourcesColumn {
			read = "source"
		}
		if t.only != nil && !slices.Contains(t.only, read) {
			return nil, fmt.Errorf("column map: %q is not used here, only %s", name, strings.Join(t.only, ", "))
		}
	}
	ctx := t.storage
	if ctx == nil {
		if ctx = context.Background(); remote.Is(path) {
			return nil, fmt.Errorf("%s: object storage is not supported here: copy the table to this machine", path)
		}
	}
	f, err := remote.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	if t.source, err = openSource(f); err == nil {
		err = t.check()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := t.FindColumns(t.found); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func columnNames(columns []Column) (names []string) {
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return names
}

// delimiters of text tables by file extension.
var delimiters = map[string]byte{".csv": ',', ".tsv": '\t', ".tab": '\t'}

func openSource(f remote.File) (source, error) {
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, err
	}
	head = head[:n]
	if name := utf16(head); name != "" {
		return nil, fmt.Errorf("is %s: save it as UTF-8", name)
	}
	delimiter := delimiters[strings.ToLower(filepath.Ext(f.Name()))]
	head = bytes.TrimLeft(head, "\ufeff \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		p, err := parquet.Open(f, func(fields []parquet.Field) any { return recordOf(fields) })
		return &parquetTable{p, f.Name()}, err
	case delimiter != 0:
		d := delimited{delimiter}
		return openText(f, d.rows, &d)
	case bytes.HasPrefix(head, []byte("[")):
		return openText(f, arrayRows, nil)
	case len(head) == 0 || head[0] == '{':
		return openText(f, lineRows, nil)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return nil, errors.New("is packed with gzip: decompress it")
	}
	return nil, fmt.Errorf("not a table: want Parquet, JSON lines, a JSON array, .csv or .tsv (it starts with %.12q)",
		head)
}

// check looks for the required columns if all rows of the file have the same columns.
func (t *Table) check() error {
	have := t.source.columns()
	if have == nil {
		return nil
	}
	if name, twice := firstDuplicate(have); twice {
		return fmt.Errorf("two columns %q: rename one", name)
	}
	for _, column := range t.required {
		if column == "source" && hasSource(have, t.names) {
			continue
		}
		name := column
		if own, ok := t.names[column]; ok {
			name = own
		}
		if !slices.Contains(have, name) {
			return &MissingColumnError{Column: column, Name: name, Have: have}
		}
	}
	return nil
}

// firstDuplicate returns the first name that occurs twice.
func firstDuplicate(names []string) (string, bool) {
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			return n, true
		}
		seen[n] = true
	}
	return "", false
}

// delimiterHint guesses why a text table has a single column.
func delimiterHint(names []string) string {
	if len(names) == 1 && strings.ContainsAny(names[0], ";\t|") {
		return " (want commas between the columns, or tabs in a .tsv file)"
	}
	return ""
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Path is the file that was opened.
func (t *Table) Path() string { return t.path }

// Folder is where relative paths of pictures start.
func (t *Table) Folder() string { return remote.Dir(t.path) }

// Len is the number of rows.
func (t *Table) Len() int { return t.source.len() }

// Columns are the column names; nil if each record has its own, as in JSON.
func (t *Table) Columns() []string { return t.source.columns() }

// Line is the line of a text file on which row i, from 0, starts; 0 if the file has no lines.
func (t *Table) Line(i int) int {
	if text, ok := t.source.(*textTable); ok && i >= 0 && i < text.len() {
		return int(text.rows[i].line)
	}
	return 0
}

// Close closes the file.
func (t *Table) Close() error { return t.source.Close() }

// Record returns row i, from 0, with all its columns.
func (t *Table) Record(i int) (Record, error) {
	if i < 0 || i >= t.Len() {
		return Record{}, fmt.Errorf("%s: no row %d, there are %d", t.path, i, t.Len())
	}
	rec, err := t.source.read(i)
	if err != nil {
		return Record{}, t.At(i, err)
	}
	return rec, nil
}

// Read returns row i, from 0, as a row of a label table.
func (t *Table) Read(i int) (Row, error) {
	rec, err := t.Record(i)
	if err != nil {
		return Row{}, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return Row{}, t.At(i, err)
	}
	return row, nil
}

// Row converts a record of this table to a row of a label table. Its errors do not name the record.
func (t *Table) Row(rec Record) (Row, error) { return rowOf(&rec, t.names, t.required, t.only) }

// At adds the location of row i to an error: the file, and the line or row number.
func (t *Table) At(i int, err error) error { return fmt.Errorf("%s: %w", t.source.where(i), err) }

// All yields every row in file order. A row that cannot be read is yielded as an error, and iteration continues.
func (t *Table) All() iter.Seq2[Row, error] { return each(t.Len(), t.Read) }

// Records yields every record in file order, with errors as in All.
func (t *Table) Records() iter.Seq2[Record, error] { return each(t.Len(), t.Record) }

func each[T any](n int, read func(int) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := range n {
			if !yield(read(i)) {
				return
			}
		}
	}
}
