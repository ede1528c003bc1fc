package ort

import (
	"fmt"
	"slices"

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
	hidden bool // internal: a shape output, or the input of a model without inputs
	bound  bool // of the model's own type: a view, or an array
}

// portOf returns the port of an input or output before adaptation.
func portOf(v onnx.ValueInfo, bound map[string]bool) port {
	return port{
		name:   v.Name,
		inner:  v.Name,
		typ:    v.Type,
		shape:  v.Shape,
		ranked: v.Ranked,
		bound:  bound[v.Name],
	}
}

// Names inside the adapted graph, which no other model is likely to use.
const (
	innerInput  = "assay.ort/in/"
	innerOutput = "assay.ort/out/"
	innerShape  = "assay.ort/shape/"
	innerFlat   = "assay.ort/flat/"
	innerLine   = "assay.ort/line" // the shape [-1]
	innerNone   = "assay.ort/none"
)

// adapted is a copy of a model with inputs and outputs that the Go binding supports, and how they map to the model's.
type adapted struct {
	onnx.Model
	inputs, outputs []port
	before, after   []*onnx.Node // the model's own nodes
}

// adapt returns a model that the Go binding can run. Half precision is cast from and to float, and an output of
// unknown rank is returned flattened, together with its shape. A model without inputs gets an unused one.
func adapt(m *onnx.Model, bound map[string]bool) (*adapted, error) {
	a := &adapted{Model: *m}
	a.IRVersion = max(m.IRVersion, 4) // before 4 every initializer has to be an input
	if err := a.adaptInputs(m, bound); err != nil {
		return nil, err
	}
	if err := a.adaptOutputs(m, bound); err != nil {
		return nil, err
	}
	a.Nodes = slices.Concat(a.before, m.Nodes, a.after)
	return a, nil
}

func (a *adapted) adaptInputs(m *onnx.Model, bound map[string]bool) error {
	constant := map[string]bool{}
	for _, t := range m.Initializers {
		constant[t.Name] = true
	}
	a.Inputs = nil
	for _, v := range m.Inputs {
		if constant[v.Name] {
			continue
		}
		p := portOf(v, bound)
		if isHalf(v.Type) && !p.bound {
			p.inner, p.typ = innerInput+v.Name, onnx.Float
			a.before = append(a.before, cast(p.inner, v.Name, v.Type))
			a.Values = append(slices.Clip(a.Values), v)
			v.Name, v.Type = p.inner, p.typ
		}
		if err := p.supported("input"); err != nil {
			return err
		}
		a.Inputs, a.inputs = append(a.Inputs, v), append(a.inputs, p)
	}
	if len(a.inputs) == 0 {
		p := port{inner: innerNone, typ: onnx.Float, shape: onnx.Dims(1), ranked: true, hidden: true}
		a.Inputs, a.inputs = []onnx.ValueInfo{p.declaration()}, []port{p}
	}
	return nil
}

func (a *adapted) adaptOutputs(m *onnx.Model, bound map[string]bool) error {
	var shapes []port
	for _, v := range m.Outputs {
		p := portOf(v, bound)
		if isHalf(v.Type) && !p.bound {
			p.inner, p.typ = innerOutput+v.Name, onnx.Float
			a.after = append(a.after, cast(v.Name, p.inner, p.typ))
			a.Values = append(slices.Clip(a.Values), v)
		}
		if err := p.supported("output"); err != nil {
			return err
		}
		if !p.ranked {
			flat, shape := innerFlat+v.Name, innerShape+v.Name
			a.after = append(a.after,
				&onnx.Node{Name: shape, Op: "Shape", Inputs: []string{p.inner}, Outputs: []string{shape}},
				&onnx.Node{Name: flat, Op: "Reshape", Inputs: []string{p.inner, innerLine}, Outputs: []string{flat}})
			p.inner, p.shapes = flat, len(m.Outputs)+len(shapes)
			shapes = append(shapes, port{inner: shape, typ: onnx.Int64, shape: line, ranked: true, hidden: true})
		}
		a.outputs = append(a.outputs, p)
	}
	if len(a.outputs) == 0 {
		return fmt.Errorf("the model has no outputs")
	}
	a.outputs, a.Outputs = append(a.outputs, shapes...), nil
	for _, p := range a.outputs {
		a.Outputs = append(a.Outputs, p.declaration())
	}
	if len(shapes) > 0 {
		minusOne := onnx.ScalarBytes(onnx.Int64, -1)
		t := &onnx.Tensor{Name: innerLine, Type: onnx.Int64, Shape: []int64{1}, Data: minusOne}
		a.Initializers = append(slices.Clip(a.Initializers), t)
	}
	return nil
}

// line is the shape of flattened values.
var line = []onnx.Dim{{Size: -1}}

// declaration returns the declaration of a port in the adapted graph.
func (p port) declaration() onnx.ValueInfo {
	if !p.ranked {
		return onnx.ValueInfo{Name: p.inner, Type: p.typ, Shape: line, Ranked: true}
	}
	return onnx.ValueInfo{Name: p.inner, Type: p.typ, Shape: p.shape, Ranked: true}
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
		return fmt.Errorf("%s %q is not a tensor, or its type is not declared; only tensors are supported", what, p.name)
	}
	if p.bound && !p.ranked {
		return fmt.Errorf("%s %q has unknown rank and cannot be placed in device memory", what, p.name)
	}
	if _, ok := kinds[p.typ]; !ok && !p.bound {
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
