package parquet

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"assay/onnx"
)

// column is one column of a Parquet schema with the leaf columns below it. It assembles values from the leaves' values
// and levels (Melnik et al., Dremel, 2010).
type column struct {
	name        string
	node        *parquet.Column
	first, last int // leaf columns [first, last)
	half        bool
	element     bool // the middle level of LIST: {list: [{element: x}]} is [x]
	children    []*column
	group       func([]Field) any
}

// newColumn builds a column; halves are the leaf columns of half floats.
func newColumn(c *parquet.Column, halves map[int]bool, group func([]Field) any) *column {
	s := &column{name: c.Name(), node: c, group: group}
	for _, child := range c.Columns() {
		s.children = append(s.children, newColumn(child, halves, group))
	}
	if c.Leaf() {
		s.first, s.last = c.Index(), c.Index()+1
		s.half = halves[c.Index()]
	} else if len(s.children) > 0 {
		s.first, s.last = s.children[0].first, s.children[len(s.children)-1].last
	}
	if len(s.children) == 1 {
		child := s.children[0]
		child.element = child.node.Repeated() && len(child.children) == 1
	}
	return s
}

// value assembles one value. leaves: its values in leaf columns [first, last).
func (s *column) value(leaves [][]parquet.Value) any {
	if len(leaves) == 0 || len(leaves[0]) == 0 {
		return nil
	}
	defined := leaves[0][0].DefinitionLevel() >= s.node.MaxDefinitionLevel()
	switch {
	case !s.node.Repeated():
		if s.node.Optional() && !defined {
			return nil
		}
		return s.content(leaves)
	case !defined:
		return []any{}
	}
	out := []any{}
	for _, part := range split(leaves, s.node.MaxRepetitionLevel()) {
		out = append(out, s.content(part))
	}
	return out
}

// split cuts the leaves where a new list element starts: at values whose repetition level is not above that of the
// list.
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

func (s *column) content(leaves [][]parquet.Value) any {
	if s.node.Leaf() {
		return s.scalar(leaves[0][0])
	}
	if s.element || len(s.children) == 1 && s.children[0].element {
		return s.children[0].value(leaves)
	}
	var fields []Field
	for _, child := range s.children {
		fields = append(fields, Field{child.name, child.value(leaves[child.first-s.first : child.last-s.first])})
	}
	return s.group(fields)
}

func (s *column) scalar(v parquet.Value) any {
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean()
	case parquet.Int32:
		return s.integer(int64(v.Int32()), uint64(uint32(v.Int32())))
	case parquet.Int64:
		return s.integer(v.Int64(), uint64(v.Int64()))
	case parquet.Float:
		return float64(v.Float())
	case parquet.Double:
		return v.Double()
	case parquet.ByteArray, parquet.FixedLenByteArray:
		if raw := v.ByteArray(); s.half && len(raw) == 2 {
			return float64(onnx.Float16Value(binary.LittleEndian.Uint16(raw)))
		}
		if t := s.node.Type().LogicalType(); t != nil {
			switch kind := t.Value.(type) {
			case *format.StringType, *format.JsonType, *format.EnumType:
				return string(v.ByteArray())
			case *format.DecimalType:
				return decimal(twosComplement(v.ByteArray()), kind.Scale)
			}
		}
		return v.ByteArray()
	}
	if v.IsNull() {
		return nil
	}
	return v.String()
}

// integer converts an integer according to its logical type. bits is the same number read as unsigned.
func (s *column) integer(x int64, bits uint64) any {
	if t := s.node.Type().LogicalType(); t != nil {
		switch kind := t.Value.(type) {
		case *format.DecimalType:
			return decimal(big.NewInt(x), kind.Scale)
		case *format.IntType:
			if !kind.IsSigned && bits > math.MaxInt64 {
				return strconv.FormatUint(bits, 10) // a float64 would round it
			} else if !kind.IsSigned {
				return int64(bits)
			}
		}
	}
	return x
}

// decimal is x / 10^scale, correctly rounded.
func decimal(x *big.Int, scale int32) float64 {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(min(max(scale, 0), 100))), nil)
	f, _ := new(big.Rat).SetFrac(x, power).Float64()
	return f
}

// twosComplement reads a big-endian integer.
func twosComplement(raw []byte) *big.Int {
	x := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0] >= 0x80 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return x
}

// halfFloats finds the leaf columns of half floats. The library exposes the type in a file's schema, but not in its
// columns.
func halfFloats(schema []format.SchemaElement) map[int]bool {
	halves := map[int]bool{}
	leaf := 0
	for _, e := range schema {
		if !e.Type.Valid { // a group
			continue
		}
		if _, half := e.LogicalType.Value.(*format.Float16Type); half {
			halves[leaf] = true
		}
		leaf++
	}
	return halves
}
