package data

import (
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// shape is one column of a Parquet schema, with the leaf columns below it: what is needed to put a value together out of
// the leaves' values and levels (Melnik et al., Dremel, 2010).
type shape struct {
	name        string
	column      *parquet.Column
	first, last int // leaf columns [first, last)
	children    []*shape
}

func newShape(c *parquet.Column) *shape {
	s := &shape{name: c.Name(), column: c}
	for _, child := range c.Columns() {
		s.children = append(s.children, newShape(child))
	}
	if c.Leaf() {
		s.first, s.last = c.Index(), c.Index()+1
	} else if len(s.children) > 0 {
		s.first, s.last = s.children[0].first, s.children[len(s.children)-1].last
	}
	return s
}

// value puts together one value. leaves: the values of leaf columns first to last that belong to it.
func (s *shape) value(leaves [][]parquet.Value) any {
	if len(leaves) == 0 || len(leaves[0]) == 0 {
		return nil
	}
	defined := leaves[0][0].DefinitionLevel() >= s.column.MaxDefinitionLevel()
	switch {
	case !s.column.Repeated():
		if s.column.Optional() && !defined {
			return nil
		}
		return s.content(leaves)
	case !defined:
		return []any{}
	}
	out := []any{}
	for _, part := range split(leaves, s.column.MaxRepetitionLevel()) {
		out = append(out, s.content(part))
	}
	return out
}

// split cuts the leaves where a new element of a list begins: at values whose repetition level is that of the list.
func split(leaves [][]parquet.Value, level int) [][][]parquet.Value {
	var parts [][][]parquet.Value
	for k, values := range leaves {
		n := 0
		for from := 0; from < len(values); n++ {
			to := from + 1
			for to < len(values) && values[to].RepetitionLevel() > level {
				to++
			}
			if n == len(parts) {
				parts = append(parts, make([][]parquet.Value, len(leaves)))
			}
			parts[n][k] = values[from:to]
			from = to
		}
	}
	return parts
}

func (s *shape) content(leaves [][]parquet.Value) any {
	if s.column.Leaf() {
		return s.scalar(leaves[0][0])
	}
	var rec Record
	for _, child := range s.children {
		v := child.value(leaves[child.first-s.first : child.last-s.first])
		rec.Fields = append(rec.Fields, Field{child.name, v})
	}
	if len(s.children) == 1 && s.children[0].column.Repeated() { // the two levels of LIST: {list: [{element: x}]} is [x]
		if elements, ok := rec.Fields[0].Value.([]any); ok && len(s.children[0].children) == 1 {
			for i, e := range elements {
				elements[i] = e.(Record).Fields[0].Value
			}
			return elements
		}
	}
	return rec
}

func (s *shape) scalar(v parquet.Value) any {
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean()
	case parquet.Int32:
		return int64(v.Int32())
	case parquet.Int64:
		return v.Int64()
	case parquet.Float:
		return float64(v.Float())
	case parquet.Double:
		return v.Double()
	case parquet.ByteArray, parquet.FixedLenByteArray:
		if t := s.column.Type().LogicalType(); t != nil {
			switch t.Value.(type) {
			case *format.StringType, *format.JsonType, *format.EnumType:
				return string(v.ByteArray())
			}
		}
		return v.ByteArray()
	}
	if v.IsNull() {
		return nil
	}
	return v.String()
}
