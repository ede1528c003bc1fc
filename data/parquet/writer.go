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
	Text     Kind = iota // string
	Number               // double
	Integer              // int64
	Bool                 // boolean
	Picture              // {bytes: binary, path: string}, Hugging Face's Image feature
	JSON                 // anything else, as JSON text
	Pictures             // a list of pictures, Hugging Face's Sequence of Image
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
	groupBytes = 32 << 20 // approximate size of the values in a row group
	groupRows  = 1 << 14
)

// Writer writes columns copied from another file, then new columns.
type Writer struct {
	out     *parquet.GenericWriter[any]
	kept    []int // leaf column of the other file -> leaf column here, -1: dropped
	leaves  int   // kept leaf columns
	columns []Column
	bytes   int // since the last row group
	rows    int
}

// NewWriter writes the columns of like (which may be nil) with their types, followed by columns. A column of like
// with the name of one of columns is replaced. Half floats are written as doubles, since the library does not write
// them. The file's metadata lets Hugging Face `datasets` recognise the pictures.
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
	for _, path := range schema.binary() { // bounds of binary data would only make the file larger
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

// Columns are the new columns, whose values Write takes.
func (w *Writer) Columns() []Column { return w.columns }

// Write writes a row: a row of the other file to copy (nil if there is none), and the values of the new columns: nil,
// []byte (text and JSON), bool, int64, float64, Image or []Image.
func (w *Writer) Write(copied Raw, values []any) error {
	var row parquet.Row
	for _, v := range copied {
		if to := w.kept[v.Column()]; to >= 0 {
			row = append(row, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), to))
		}
	}
	leaf := w.leaves
	for i, c := range w.columns {
		for _, values := range c.Kind.leaves(values[i]) {
			for _, v := range values {
				row = append(row, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), leaf))
			}
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

// SetPaths returns a row with new paths in a column of paths, of pictures, or of a list of either; "" keeps the old
// path.
func (t *File) SetPaths(row Raw, column string, paths []string) Raw {
	leaf := -1
	for _, s := range t.schema {
		if s.name == column {
			leaf = s.pathLeaf()
		}
	}
	row = slices.Clone(row)
	n := 0
	for i, v := range row {
		if v.Column() != leaf || n >= len(paths) {
			continue
		}
		if paths[n] != "" {
			row[i] = parquet.ByteArrayValue([]byte(paths[n])).Level(v.RepetitionLevel(), v.DefinitionLevel(), leaf)
		}
		n++
	}
	return row
}

// pathLeaf is the leaf column that holds the paths of a column; -1 if there is none.
func (s *column) pathLeaf() int {
	if len(s.children) == 0 {
		return s.first
	}
	for _, child := range s.children {
		if child.name == "path" {
			return child.first
		}
	}
	if len(s.children) == 1 && (s.children[0].element || s.element) {
		return s.children[0].pathLeaf()
	}
	return -1
}

// Close completes the file without closing the underlying writer.
func (w *Writer) Close() error { return w.out.Close() }

// leaves returns the values of each leaf column of a value, with repetition and definition levels.
func (k Kind) leaves(v any) [][]parquet.Value {
	null := parquet.NullValue()
	switch v := v.(type) {
	case Image:
		bytes, path := v.leaves(0, 1)
		return [][]parquet.Value{{bytes}, {path}}
	case []Image:
		var out [2][]parquet.Value
		for i, m := range v {
			bytes, path := m.leaves(min(i, 1), 3)
			out[0], out[1] = append(out[0], bytes), append(out[1], path)
		}
		return out[:]
	case nil:
		if k == Picture || k == Pictures {
			return [][]parquet.Value{{null}, {null}}
		}
		return [][]parquet.Value{{null}}
	}
	return [][]parquet.Value{{parquet.ValueOf(v).Level(0, 1, 0)}}
}

// leaves returns bytes and path of a picture whose group has definition level defined.
func (m Image) leaves(repetition, defined int) (bytes, path parquet.Value) {
	bytes, path = parquet.NullValue().Level(repetition, defined, 0), parquet.NullValue().Level(repetition, defined, 0)
	if len(m.Bytes) > 0 {
		bytes = parquet.ByteArrayValue(m.Bytes).Level(repetition, defined+1, 0)
	}
	if m.Path != "" {
		path = parquet.ByteArrayValue([]byte(m.Path)).Level(repetition, defined+1, 0)
	}
	return bytes, path
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
	case Picture, Pictures:
		n = parquet.Group{
			"bytes": parquet.Optional(parquet.Leaf(parquet.ByteArrayType)),
			"path":  parquet.Optional(parquet.String()),
		}
		if k == Pictures {
			n = parquet.List(parquet.Optional(n))
		}
	}
	return parquet.Optional(n)
}

// feature is the column's type for Hugging Face `datasets`.
func (k Kind) feature() map[string]any {
	switch k {
	case Picture:
		return map[string]any{"_type": "Image"}
	case Pictures:
		return map[string]any{"feature": Picture.feature(), "_type": "Sequence"} // also understood by releases before List
	case Number:
		return map[string]any{"dtype": "float64", "_type": "Value"}
	case Integer:
		return map[string]any{"dtype": "int64", "_type": "Value"}
	case Bool:
		return map[string]any{"dtype": "bool", "_type": "Value"}
	}
	return map[string]any{"dtype": "string", "_type": "Value"}
}

// features is the metadata in which `datasets` stores column types: like's, with columns added. If like has no such
// metadata, neither does the copy.
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

// GoType only satisfies the interface: rows are not read by reflection here.
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
