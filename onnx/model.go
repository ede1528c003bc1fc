// Package onnx represents ONNX models as Go values: it reads, builds, checks, sorts and prunes them, infers types and
// shapes, and writes them.
//
// A [Model] is one graph with its operator sets. Tensors carry their bytes, refer to a byte range of a file
// ([External]), or are computed on demand ([LazyTensor]), so the graph of an 8B model takes a few megabytes. The
// package is independent of what the models are for: other packages build graphs with a [Builder], differentiate them
// (onnx/grad), and run them (ort).
package onnx

import (
	"fmt"
)

// DType is the element type of a tensor, numbered as TensorProto.DataType.
type DType int32

// The element types whose size this package knows and which it can convert.
const (
	Undefined DType = 0
	Float     DType = 1
	Uint8     DType = 2
	Int8      DType = 3
	Uint16    DType = 4
	Int16     DType = 5
	Int32     DType = 6
	Int64     DType = 7
	String    DType = 8
	Bool      DType = 9
	Float16   DType = 10
	Double    DType = 11
	Uint32    DType = 12
	Uint64    DType = 13
	BFloat16  DType = 16
	// Float8E4M3 has a sign bit, 4 exponent bits, 3 fraction bits and no infinities. Its values are passed on, not
	// computed with.
	Float8E4M3 DType = 17
)

var dtypes = map[DType]struct {
	name string
	size int
}{
	Float: {"float", 4}, Uint8: {"uint8", 1}, Int8: {"int8", 1}, Uint16: {"uint16", 2}, Int16: {"int16", 2},
	Int32: {"int32", 4}, Int64: {"int64", 8}, String: {"string", 0}, Bool: {"bool", 1}, Float16: {"float16", 2},
	Double: {"double", 8}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8}, BFloat16: {"bfloat16", 2},
	Float8E4M3: {"float8e4m3fn", 1},
}

var dtypeNames = func() map[string]DType {
	m := map[string]DType{}
	for t, d := range dtypes {
		m[d.name] = t
	}
	return m
}()

// String returns the ONNX name of the type.
func (t DType) String() string {
	if d, ok := dtypes[t]; ok {
		return d.name
	}
	return fmt.Sprintf("type %d", int32(t))
}

// Size returns the bytes of one element, 0 for strings and unknown types.
func (t DType) Size() int { return dtypes[t].size }

// IsFloat reports whether values of the type can carry a gradient.
func (t DType) IsFloat() bool {
	return t == Float || t == Float16 || t == BFloat16 || t == Double
}

// Discrete reports whether the type is known to be an integer, boolean or string type, through which no gradient
// flows. It is false for unknown and complex types, and for floating-point types of 8 bits or fewer.
func (t DType) Discrete() bool {
	switch t {
	case Uint8, Int8, Uint16, Int16, Int32, Int64, Uint32, Uint64, String, Bool, uint4, int4, uint2, int2:
		return true
	}
	return false
}

// Integers of fewer than 8 bits. Their tensors are passed on, but not decoded.
const (
	uint4 DType = 21
	int4  DType = 22
	uint2 DType = 25
	int2  DType = 26
)

// Dim is one dimension of a shape: a size, a symbol, or unknown.
type Dim struct {
	Size int64  // elements; -1 if it is not known before the model runs
	Name string // symbol of an unknown size; dimensions with the same non-empty name are equal
}

// Fixed makes a dimension of n elements.
func Fixed(n int64) Dim { return Dim{Size: n} }

// Symbol makes a dimension whose size is only known when the model runs.
func Symbol(name string) Dim { return Dim{Size: -1, Name: name} }

// Known reports whether the size is a number, not a symbol and not unknown.
func (d Dim) Known() bool { return d.Size >= 0 }

// Same reports whether two dimensions are certainly equal: the same size, or the same symbol.
func (d Dim) Same(e Dim) bool {
	return d.Known() && d.Size == e.Size || !d.Known() && !e.Known() && d.Name != "" && d.Name == e.Name
}

func (d Dim) String() string {
	switch {
	case d.Known():
		return fmt.Sprint(d.Size)
	case d.Name != "":
		return d.Name
	}
	return "?"
}

// Dims makes a shape from sizes (int, int64) and symbols (string).
func Dims(parts ...any) []Dim {
	dims := make([]Dim, len(parts))
	for i, p := range parts {
		switch v := p.(type) {
		case int:
			dims[i] = Fixed(int64(v))
		case int64:
			dims[i] = Fixed(v)
		case string:
			dims[i] = Symbol(v)
		case Dim:
			dims[i] = v
		default:
			panic(fmt.Sprintf("onnx.Dims: %T is neither a size nor a symbol", p))
		}
	}
	return dims
}

// ValueInfo declares a graph input, an output or an intermediate value.
type ValueInfo struct {
	Name  string
	Type  DType
	Shape []Dim // nil together with Ranked == false: rank unknown
	// Ranked distinguishes a scalar from a value of unknown rank.
	Ranked bool
	// Other is the serialized type of a value that is not a tensor: a sequence, an optional or a map. It is passed
	// on, not decoded.
	Other []byte
}

// External is a tensor's place in another file.
type External struct {
	Location string // path relative to the folder the model is run from
	Offset   int64  // bytes
	Length   int64  // bytes
}

// Tensor is an initializer or a tensor attribute.
type Tensor struct {
	Name     string
	Type     DType
	Shape    []int64
	Data     []byte      // little-endian, row-major; nil if External is set
	Strings  []string    // values of Type String
	External *External   // where the bytes are; nil if Data holds them
	Lazy     *LazyTensor // how to compute the bytes; nil if they exist
}

// LazyTensor is the content of a tensor that is computed on demand, by a session or to be written to a file.
type LazyTensor struct {
	Key      string                  // tensors with equal keys have equal bytes
	Location string                  // path, relative to the folder the model is run from, of a file that exists
	Fill     func(into []byte) error // writes the whole content: little-endian, row-major
}

// Bytes returns the tensor's content if it is in memory or can be computed.
func (t *Tensor) Bytes() ([]byte, error) {
	if t.Lazy == nil {
		return t.Data, nil
	}
	data := make([]byte, t.Count()*int64(t.Type.Size()))
	if err := t.Lazy.Fill(data); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return data, nil
}

// Count returns the number of elements.
func (t *Tensor) Count() int64 { return Elements(t.Shape) }

// Elements returns the number of elements of a tensor of that shape.
func Elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Node is one operator. Attribute values are int64, float32, string, []int64, []float32, []string, *Tensor or *Graph.
type Node struct {
	Name    string
	Op      string
	Domain  string // "" is ai.onnx
	Inputs  []string
	Outputs []string // "" for omitted outputs
	Attrs   map[string]any
	// Segment names the part of the model that a node belongs to (a layer); grad recomputes one segment at a time.
	Segment string
	// Meta is written as metadata_props. MetaUnique, MetaDerivative and MetaConstant are hints for grad.
	Meta map[string]string
}

// MetaUnique, set to "true" in Meta of a Gather, promises that no index occurs twice.
const MetaUnique = "assay.unique"

// MetaDerivative, set to "true" in Meta of a Scan, promises that its second output [steps, rows, width] is, row by row,
// the derivative of its first one [steps, rows, 1] with respect to the rows that it scans first.
const MetaDerivative = "assay.derivative"

// MetaConstant, set to "true" in Meta of a node, makes grad treat its outputs as constants: no gradient flows through
// it.
const MetaConstant = "assay.constant"

// String returns the name of the node for error messages.
func (n *Node) String() string {
	op := n.Op
	if n.Domain != "" {
		op = n.Domain + "." + op
	}
	if n.Name != "" {
		return fmt.Sprintf("node %q (%s)", n.Name, op)
	}
	return fmt.Sprintf("node of output %q (%s)", first(n.Outputs), op)
}

func first(s []string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

// Int returns an integer attribute, or fallback if it is absent.
func (n *Node) Int(name string, fallback int64) int64 {
	if v, ok := n.Attrs[name].(int64); ok {
		return v
	}
	return fallback
}

// Float returns a float attribute, or fallback if it is absent.
func (n *Node) Float(name string, fallback float32) float32 {
	if v, ok := n.Attrs[name].(float32); ok {
		return v
	}
	return fallback
}

// Str returns a string attribute, or fallback if it is absent.
func (n *Node) Str(name, fallback string) string {
	if v, ok := n.Attrs[name].(string); ok {
		return v
	}
	return fallback
}

// Ints returns an integer-list attribute, nil if it is absent.
func (n *Node) Ints(name string) []int64 {
	v, _ := n.Attrs[name].([]int64)
	return v
}

// Input returns the name of input i, "" if it is omitted.
func (n *Node) Input(i int) string {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return ""
}

// Graph holds nodes in execution order (Check reports a wrong order), and named inputs, outputs and constants.
type Graph struct {
	Name         string
	Inputs       []ValueInfo
	Outputs      []ValueInfo
	Values       []ValueInfo // declared types of intermediate values; may be empty
	Initializers []*Tensor
	Nodes        []*Node
}

// Initializer returns the constant of that name, nil if there is none.
func (g *Graph) Initializer(name string) *Tensor {
	for _, t := range g.Initializers {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Model is a graph and the operator sets that it uses.
type Model struct {
	Graph
	IRVersion int64
	Producer  string
	Opsets    map[string]int64 // by domain; "" is ai.onnx
	Metadata  map[string]string
}

// Opset returns the version of the domain, 0 if the model does not import it.
func (m *Model) Opset(domain string) int64 {
	if domain == "ai.onnx" {
		domain = ""
	}
	return m.Opsets[domain]
}
