package parquet

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// Kind is the type of a column that is written.
type Kind int

// The kinds of columns. Every one may be null.
const (
	Text    Kind = iota // string
	Number              // double
	Integer             // int64
	Bool                // boolean
	Picture             // {bytes: binary, path: string}, Hugging Face's Image feature
	JSON                // anything else, as JSON text
)

// Column is a column that is written.
type Column struct {
	Name string
	Kind Kind
}

// Image is a value of a column of pictures.
type Image struct {
	Path  string
	Bytes []byte
}

const (
	groupBytes = 32 << 20 // of values in a row group, about
	groupRows  = 1 << 14
)

// Writer writes the columns that it copies from another file, then its own.
type Writer struct {
	out     *parquet.GenericWriter[any]
	kept    []int // leaf column of the other file -> leaf column here, -1: dropped
	leaves  int   // kept leaf columns
	columns []Column
	bytes   int // since the last row group
	rows    int
}

// NewWriter writes the columns of like (which may be nil) with their types, and columns. A column of like with the name
// of another one is replaced. Half floats are written as doubles, since the library does not write them. Hugging Face
// `datasets` knows the pictures by the file's metadata.
func NewWriter(out io.Writer, like *File, columns []Column) (*Writer, error) {
	w, codec := &Writer{}, &pageCodec{}
	var schema orderedGroup
	if like != nil {
		for i, s := range like.schema {
			drop := slices.ContainsFunc(columns, func(c Column) bool { return c.Name == s.name })
			if !drop && s.half && !s.node.Repeated() {
				w.columns = append(w.columns, Column{s.name, Number})
				drop = true
			}
			for range s.last - s.first {
				to := -1
				if !drop {
					to = w.leaves
					w.leaves++
				}
				w.kept = append(w.kept, to)
			}
			if !drop {
				schema.fields = append(schema.fields, copiedField{like.data.Root().Fields()[i], codec})
			}
		}
	}
	w.columns = append(w.columns, columns...)
	for i, c := range w.columns {
		if slices.ContainsFunc(w.columns[:i], func(b Column) bool { return b.Name == c.Name }) {
			return nil, fmt.Errorf("two columns %q", c.Name)
		}
		schema.fields = append(schema.fields, parquet.Group{c.Name: c.Kind.node()}.Fields()...)
	}
	options := []parquet.WriterOption{
		parquet.NewSchema("schema", schema),
		parquet.Compression(codec),
		parquet.CreatedBy("assay", "1", ""),
		parquet.DataPageStatistics(false),
	}
	for _, path := range schema.binary() { // bounds of pictures would only make the file larger
		options = append(options, parquet.SkipPageBounds(path...), parquet.SkipPageStatistics(path...))
	}
	if features := features(like, w.columns); features != "" {
		options = append(options, parquet.KeyValueMetadata("huggingface", features))
	}
	return w, guard(func() error {
		w.out = parquet.NewGenericWriter[any](out, options...)
		return nil
	})
}

// Columns are the columns of the writer's own, whose values Write takes.
func (w *Writer) Columns() []Column { return w.columns }

// Write writes a row: what is copied of a row of the other file (nil without one), and the values of the writer's own
// columns: nil, []byte (text and JSON), bool, int64, float64 or Image.
func (w *Writer) Write(copied Raw, values []any) error {
	var row parquet.Row
	for _, v := range copied {
		if to := w.kept[v.Column()]; to >= 0 {
			row = append(row, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), to))
		}
	}
	leaf := w.leaves
	for i, c := range w.columns {
		for _, v := range c.Kind.leaves(values[i]) {
			row = append(row, v.Level(0, v.DefinitionLevel(), leaf))
			leaf++
		}
	}
	for _, v := range row {
		w.bytes += 16
		if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			w.bytes += len(v.ByteArray())
		}
	}
	w.rows++
	err := guard(func() error {
		_, err := w.out.WriteRows([]parquet.Row{row})
		return err
	})
	if err == nil && (w.bytes >= groupBytes || w.rows >= groupRows) {
		w.bytes, w.rows = 0, 0
		err = w.out.Flush()
	}
	return err
}

// SetPath returns a row with another path in a column of paths, or of pictures.
func (t *File) SetPath(row Raw, column, path string) Raw {
	leaf := -1
	for _, s := range t.schema {
		if s.name != column {
			continue
		}
		if len(s.children) == 0 {
			leaf = s.first
		}
		for _, child := range s.children {
			if child.name == "path" {
				leaf = child.first
			}
		}
	}
	row = slices.Clone(row)
	for i, v := range row {
		if v.Column() == leaf {
			row[i] = parquet.ByteArrayValue([]byte(path)).Level(v.RepetitionLevel(), v.DefinitionLevel(), leaf)
		}
	}
	return row
}

// Close completes the file, without closing what it is written to.
func (w *Writer) Close() error { return w.out.Close() }

// leaves are the leaf values of a value, with their definition levels.
func (k Kind) leaves(v any) []parquet.Value {
	null := parquet.NullValue()
	if k == Picture {
		m, ok := v.(Image)
		if !ok {
			return []parquet.Value{null, null}
		}
		bytes, path := null.Level(0, 1, 0), null.Level(0, 1, 0)
		if len(m.Bytes) > 0 {
			bytes = parquet.ByteArrayValue(m.Bytes).Level(0, 2, 0)
		}
		if m.Path != "" {
			path = parquet.ByteArrayValue([]byte(m.Path)).Level(0, 2, 0)
		}
		return []parquet.Value{bytes, path}
	}
	if v == nil {
		return []parquet.Value{null}
	}
	return []parquet.Value{parquet.ValueOf(v).Level(0, 1, 0)}
}

func (k Kind) node() parquet.Node {
	n := parquet.String()
	switch k {
	case Number:
		n = parquet.Leaf(parquet.DoubleType)
	case Integer:
		n = parquet.Leaf(parquet.Int64Type)
	case Bool:
		n = parquet.Leaf(parquet.BooleanType)
	case Picture:
		n = parquet.Group{
			"bytes": parquet.Optional(parquet.Leaf(parquet.ByteArrayType)),
			"path":  parquet.Optional(parquet.String()),
		}
	}
	return parquet.Optional(n)
}

// feature is the column's type for Hugging Face `datasets`.
func (k Kind) feature() map[string]string {
	switch k {
	case Picture:
		return map[string]string{"_type": "Image"}
	case Number:
		return map[string]string{"dtype": "float64", "_type": "Value"}
	case Integer:
		return map[string]string{"dtype": "int64", "_type": "Value"}
	case Bool:
		return map[string]string{"dtype": "bool", "_type": "Value"}
	}
	return map[string]string{"dtype": "string", "_type": "Value"}
}

// features is the metadata in which `datasets` keeps the columns' types: like's, with columns added. A file without
// such metadata gets none.
func features(like *File, columns []Column) string {
	var meta struct {
		Info struct {
			Features map[string]any `json:"features"`
		} `json:"info"`
	}
	meta.Info.Features = map[string]any{}
	if like != nil {
		text, ok := like.data.Lookup("huggingface")
		if !ok || json.Unmarshal([]byte(text), &meta) != nil {
			return ""
		}
	}
	for _, c := range columns {
		meta.Info.Features[c.Name] = c.Kind.feature()
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return ""
	}
	return string(raw)
}

// orderedGroup is the root of a schema whose fields have a given order. (parquet.Group sorts them by name.)
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (o orderedGroup) Fields() []parquet.Field { return o.fields }

// GoType is needed by the interface alone: rows are not read by reflection here.
func (o orderedGroup) GoType() reflect.Type { return reflect.TypeFor[map[string]any]() }

// binary returns the paths of the leaves that hold binary data.
func (o orderedGroup) binary() (paths [][]string) {
	var walk func(path []string, n parquet.Node)
	walk = func(path []string, n parquet.Node) {
		if n.Leaf() {
			if n.Type().Kind() == parquet.ByteArray && n.Type().LogicalType() == nil {
				paths = append(paths, path)
			}
			return
		}
		for _, f := range n.Fields() {
			walk(append(path[:len(path):len(path)], f.Name()), f)
		}
	}
	walk(nil, o)
	return paths
}
