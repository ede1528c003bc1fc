package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Builder appends nodes to a model. Every method returns the name of the value it adds, so that calls nest like a
// formula. It panics on programming errors, such as an unknown attribute type.
type Builder struct {
	M       *Model
	scope   []string
	segment string
	used    map[string]int
	consts  map[string]string
}

// NewBuilder starts an empty model in the given ai.onnx operator set.
func NewBuilder(name string, opset int64) *Builder {
	return Extend(&Model{
		Graph:     Graph{Name: name},
		IRVersion: irVersion(opset),
		Producer:  "assay",
		Opsets:    map[string]int64{"": opset},
	})
}

func irVersion(opset int64) int64 {
	if opset >= 23 {
		return 11
	}
	return 8
}

// Extend appends to an existing model; new names never collide with existing ones.
func Extend(m *Model) *Builder {
	b := &Builder{M: m, used: map[string]int{}, consts: map[string]string{}}
	b.reserveNames(&m.Graph)
	return b
}

// reserveNames records the names that a graph and its subgraphs define.
func (b *Builder) reserveNames(g *Graph) {
	for _, v := range g.Inputs {
		b.used[v.Name] = 1
	}
	for _, t := range g.Initializers {
		b.used[t.Name] = 1
	}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			b.used[o] = 1
		}
		for _, a := range n.Attrs {
			if sub, ok := a.(*Graph); ok {
				b.reserveNames(sub)
			}
		}
	}
}

// Opset returns the ai.onnx version that nodes are written in.
func (b *Builder) Opset() int64 { return b.M.Opsets[""] }

// Scoped runs body with names prefixed by name and a slash, to make graphs and error messages readable.
func (b *Builder) Scoped(name string, body func()) {
	b.scope = append(b.scope, name)
	body()
	b.scope = b.scope[:len(b.scope)-1]
}

// Segment runs body and marks its nodes as one recomputation segment (see grad.Options).
func (b *Builder) Segment(name string, body func()) {
	old := b.segment
	b.segment = name
	b.Scoped(name, body)
	b.segment = old
}

// Body runs build and returns the nodes, inputs and outputs that it adds as a subgraph, for the attribute of a Scan.
// Other values that build reads, including constants, are captured from the enclosing graph.
func (b *Builder) Body(name string, build func()) *Graph {
	around, segment := b.M.Graph, b.segment
	b.M.Inputs, b.M.Outputs, b.M.Nodes, b.segment = nil, nil, nil, ""
	b.Scoped(name, build)
	body := &Graph{Name: name, Inputs: b.M.Inputs, Outputs: b.M.Outputs, Nodes: b.M.Nodes}
	b.M.Inputs, b.M.Outputs, b.M.Nodes, b.segment = around.Inputs, around.Outputs, around.Nodes, segment
	return body
}

// Name returns base, made unique.
func (b *Builder) Name(base string) string {
	if len(b.scope) > 0 {
		base = strings.Join(b.scope, "/") + "/" + base
	}
	return b.unique(base)
}

func (b *Builder) unique(base string) string {
	n := b.used[base]
	b.used[base]++
	if n == 0 {
		return base
	}
	for {
		name := fmt.Sprintf("%s_%d", base, n)
		if b.used[name] == 0 {
			b.used[name] = 1
			return name
		}
		n++
		b.used[base] = n + 1
	}
}

// Attrs are a node's attributes; int, float64, []int and bool are converted.
type Attrs map[string]any

func (a Attrs) normal() map[string]any {
	if len(a) == 0 {
		return nil
	}
	out := make(map[string]any, len(a))
	for k, v := range a {
		switch v := v.(type) {
		case int:
			out[k] = int64(v)
		case bool:
			out[k] = int64(0)
			if v {
				out[k] = int64(1)
			}
		case float64:
			out[k] = float32(v)
		case DType:
			out[k] = int64(v)
		case []int:
			s := make([]int64, len(v))
			for i := range v {
				s[i] = int64(v[i])
			}
			out[k] = s
		case int64, float32, string, []int64, []float32, []string, *Tensor, *Graph:
			out[k] = v
		default:
			panic(fmt.Sprintf("onnx: attribute %s has type %T", k, v))
		}
	}
	return out
}

// Node appends a node with n outputs and returns their names. domain "" is ai.onnx.
func (b *Builder) Node(domain, op string, n int, attrs Attrs, inputs ...string) []string {
	name := b.Name(op)
	outs := make([]string, n)
	for i := range outs {
		outs[i] = name
		if n > 1 {
			outs[i] = b.unique(fmt.Sprintf("%s:%d", name, i))
		}
	}
	for len(inputs) > 0 && inputs[len(inputs)-1] == "" {
		inputs = inputs[:len(inputs)-1]
	}
	b.M.Nodes = append(b.M.Nodes, &Node{
		Name:    name,
		Op:      op,
		Domain:  domain,
		Inputs:  inputs,
		Outputs: outs,
		Attrs:   attrs.normal(),
		Segment: b.segment,
	})
	if domain != "" && b.M.Opsets[domain] == 0 {
		b.M.Opsets[domain] = 1
	}
	return outs
}

// Op appends an ai.onnx node with one output and no attributes.
func (b *Builder) Op(op string, inputs ...string) string { return b.Node("", op, 1, nil, inputs...)[0] }

// OpA appends an ai.onnx node with one output and attributes.
func (b *Builder) OpA(op string, attrs Attrs, inputs ...string) string {
	return b.Node("", op, 1, attrs, inputs...)[0]
}

// Last returns the node appended last, to set its Meta.
func (b *Builder) Last() *Node { return b.M.Nodes[len(b.M.Nodes)-1] }

// Input declares a graph input.
func (b *Builder) Input(name string, t DType, shape []Dim) string {
	b.used[name]++
	b.M.Inputs = append(b.M.Inputs, ValueInfo{Name: name, Type: t, Shape: shape, Ranked: true})
	return name
}

// Output declares value as the graph output of that name (an Identity node gives it the name).
func (b *Builder) Output(name, value string, t DType, shape []Dim) {
	if name != value {
		b.used[name]++
		n := &Node{Name: name, Op: "Identity", Inputs: []string{value}, Outputs: []string{name}}
		b.M.Nodes = append(b.M.Nodes, n)
	}
	b.M.Outputs = append(b.M.Outputs, ValueInfo{Name: name, Type: t, Shape: shape, Ranked: shape != nil})
}

// Weight adds an initializer under its own name and returns it; adding the same name again is a no-op.
func (b *Builder) Weight(t *Tensor) string {
	if b.used[t.Name] == 0 {
		b.used[t.Name] = 1
		b.M.Initializers = append(b.M.Initializers, t)
	}
	return t.Name
}

func (b *Builder) constant(t DType, shape []int64, data []byte) string {
	key := ""
	if len(data) <= 64 { // small constants are shared
		key = fmt.Sprintf("%d %v %x", t, shape, data)
		if name, ok := b.consts[key]; ok {
			return name
		}
	}
	name := b.unique("const")
	b.M.Initializers = append(b.M.Initializers, &Tensor{Name: name, Type: t, Shape: shape, Data: data})
	if key != "" {
		b.consts[key] = name
	}
	return name
}

// Ints adds a constant int64 vector.
func (b *Builder) Ints(v ...int64) string {
	return b.constant(Int64, []int64{int64(len(v))}, int64Bytes(v))
}

// Count adds the constant int64 vector 0, 1, ..., n-1, once per n.
func (b *Builder) Count(n int64) string {
	key := fmt.Sprint("count ", n)
	if name, ok := b.consts[key]; ok {
		return name
	}
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i)
	}
	b.consts[key] = b.Ints(v...)
	return b.consts[key]
}

// Int adds a constant int64 scalar.
func (b *Builder) Int(v int64) string { return b.constant(Int64, []int64{}, int64Bytes([]int64{v})) }

// Floats adds a constant float vector of the given shape.
func (b *Builder) Floats(shape []int64, v ...float32) string {
	return b.constant(Float, shape, Float32Bytes(v))
}

// Numbers adds a constant of a floating-point or integer type and the given shape.
func (b *Builder) Numbers(t DType, shape []int64, v ...float64) string {
	data := make([]byte, 0, t.Size()*len(v))
	for _, x := range v {
		data = append(data, ScalarBytes(t, x)...)
	}
	return b.constant(t, shape, data)
}

// Scalar adds a constant scalar of a floating-point or integer type.
func (b *Builder) Scalar(t DType, v float64) string {
	return b.constant(t, []int64{}, ScalarBytes(t, v))
}

// ScalarBytes encodes v in the given type, little-endian.
func ScalarBytes(t DType, v float64) []byte {
	switch t {
	case Float:
		return Float32Bytes([]float32{float32(v)})
	case Double:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
	case Float16:
		return binary.LittleEndian.AppendUint16(nil, Float16Bits(float32(v)))
	case BFloat16:
		return binary.LittleEndian.AppendUint16(nil, BFloat16Bits(float32(v)))
	case Int64, Uint64:
		return int64Bytes([]int64{int64(v)})
	case Int32, Uint32:
		return binary.LittleEndian.AppendUint32(nil, uint32(int32(v)))
	case Int16, Uint16:
		return binary.LittleEndian.AppendUint16(nil, uint16(int16(v)))
	case Int8, Uint8, Bool:
		return []byte{byte(int8(v))}
	}
	panic(fmt.Sprintf("onnx: no scalar of %v", t))
}

func int64Bytes(v []int64) []byte {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

// Float32Bytes encodes values as the data of a tensor of type Float: little-endian.
func Float32Bytes(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
