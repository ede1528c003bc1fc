package ort

import (
	"fmt"
	"slices"
	"sort"

	"assay/onnx"
)

// port is one input or output of a session.
type port struct {
	name   string     // the model's
	inner  string     // the adapted graph's
	typ    onnx.DType // of the host array
	shape  []onnx.Dim
	ranked bool
	shapes int  // index of the output that holds this one's shape, if it is not ranked
	hidden bool // not of the caller's: a shape output, or the input of a model without any
}

// Names inside the adapted graph; a model of someone else's is unlikely to use them.
const (
	innerInput  = "assay.ort/in/"
	innerOutput = "assay.ort/out/"
	innerShape  = "assay.ort/shape/"
	innerFlat   = "assay.ort/flat/"
	innerLine   = "assay.ort/line" // the shape [-1]
	innerNone   = "assay.ort/none"
)

// adapt returns a copy of the model whose inputs and outputs the Go binding can carry, and how they map to the model's:
// half precision is cast from and to float, an output of unknown rank comes flattened beside its shape, and a model
// without inputs gets one that nothing reads.
func adapt(m *onnx.Model) (*onnx.Model, []port, []port, error) {
	c := *m
	c.IRVersion = max(m.IRVersion, 4) // before 4 every initializer has to be an input
	constant := map[string]bool{}
	for _, t := range m.Initializers {
		constant[t.Name] = true
	}
	var before, after []*onnx.Node
	var inputs, outputs []port
	c.Inputs, c.Outputs = nil, nil
	for _, v := range m.Inputs {
		if constant[v.Name] {
			continue
		}
		p := port{name: v.Name, inner: v.Name, typ: v.Type, shape: v.Shape, ranked: v.Ranked}
		if isHalf(v.Type) {
			p.inner, p.typ = innerInput+v.Name, onnx.Float
			before = append(before, cast(p.inner, v.Name, v.Type))
			c.Values = append(slices.Clip(c.Values), v)
			v.Name, v.Type = p.inner, p.typ
		}
		if err := p.supported("input"); err != nil {
			return nil, nil, nil, err
		}
		c.Inputs = append(c.Inputs, v)
		inputs = append(inputs, p)
	}
	if len(inputs) == 0 {
		c.Inputs = []onnx.ValueInfo{{Name: innerNone, Type: onnx.Float, Shape: onnx.Dims(1), Ranked: true}}
		inputs = []port{{inner: innerNone, typ: onnx.Float, shape: onnx.Dims(1), ranked: true, hidden: true}}
	}
	var shapes []port
	flatten := false
	for _, v := range m.Outputs {
		p := port{name: v.Name, inner: v.Name, typ: v.Type, shape: v.Shape, ranked: v.Ranked}
		if isHalf(v.Type) {
			p.inner, p.typ = innerOutput+v.Name, onnx.Float
			after = append(after, cast(v.Name, p.inner, p.typ))
			c.Values = append(slices.Clip(c.Values), v)
		}
		if err := p.supported("output"); err != nil {
			return nil, nil, nil, err
		}
		if !p.ranked {
			flat, shape := innerFlat+v.Name, innerShape+v.Name
			after = append(after,
				&onnx.Node{Name: shape, Op: "Shape", Inputs: []string{p.inner}, Outputs: []string{shape}},
				&onnx.Node{Name: flat, Op: "Reshape", Inputs: []string{p.inner, innerLine}, Outputs: []string{flat}})
			p.inner, p.shapes = flat, len(m.Outputs)+len(shapes)
			shapes = append(shapes,
				port{inner: shape, typ: onnx.Int64, shape: []onnx.Dim{{Size: -1}}, ranked: true, hidden: true})
			flatten = true
		}
		outputs = append(outputs, p)
	}
	if len(outputs) == 0 {
		return nil, nil, nil, fmt.Errorf("the model has no outputs")
	}
	outputs = append(outputs, shapes...)
	for _, p := range outputs {
		v := onnx.ValueInfo{Name: p.inner, Type: p.typ, Shape: p.shape, Ranked: p.ranked}
		if !p.ranked {
			v.Shape, v.Ranked = []onnx.Dim{{Size: -1}}, true
		}
		c.Outputs = append(c.Outputs, v)
	}
	if flatten {
		minusOne := &onnx.Tensor{Name: innerLine, Type: onnx.Int64, Shape: []int64{1}, Data: onnx.ScalarBytes(onnx.Int64, -1)}
		c.Initializers = append(slices.Clip(c.Initializers), minusOne)
	}
	c.Nodes = slices.Concat(before, m.Nodes, after)
	return &c, inputs, outputs, nil
}

func isHalf(t onnx.DType) bool { return t == onnx.Float16 || t == onnx.BFloat16 }

func cast(from, to string, t onnx.DType) *onnx.Node {
	return &onnx.Node{
		Name:    innerInput + "Cast/" + from,
		Op:      "Cast",
		Inputs:  []string{from},
		Outputs: []string{to},
		Attrs:   map[string]any{"to": int64(t)},
	}
}

func (p port) supported(what string) error {
	if p.typ == onnx.Undefined {
		return fmt.Errorf("%s %q is no tensor, or its type is not declared; only tensors go in and out", what, p.name)
	}
	if _, ok := kinds[p.typ]; !ok {
		return fmt.Errorf("%s %q has type %v, which cannot be passed between Go and ONNX Runtime", what, p.name, p.typ)
	}
	return nil
}

// fixed returns the sizes of a shape that is known before the model runs.
func (p port) fixed() ([]int64, bool) {
	sizes := make([]int64, len(p.shape))
	for i, d := range p.shape {
		if !d.Known() {
			return nil, false
		}
		sizes[i] = d.Size
	}
	return sizes, p.ranked
}

func inner(ports []port) []string {
	list := make([]string, len(ports))
	for i, p := range ports {
		list[i] = p.inner
	}
	return list
}

func names(ports []port) []string {
	var list []string
	for _, p := range ports {
		if !p.hidden {
			list = append(list, p.name)
		}
	}
	return list
}

func infos(ports []port) []onnx.ValueInfo {
	var list []onnx.ValueInfo
	for _, p := range ports {
		if !p.hidden {
			list = append(list, onnx.ValueInfo{Name: p.name, Type: p.typ, Shape: p.shape, Ranked: p.ranked})
		}
	}
	return list
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
