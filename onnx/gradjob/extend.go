package gradjob

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/onnx"
	"assay/onnx/grad"
)

// extended describes the outputs of a model with gradients.
type extended struct {
	outputs []string          // differentiated outputs
	forward []string          // kept as outputs
	wrt     map[string]string // output -> name it is the gradient of
}

// extend appends the gradients to m, adds the cotangents to its inputs and to feeds, and keeps only the requested
// values as outputs.
func extend(m *onnx.Model, feeds map[string]*tensor.Dense, o Options) (*extended, error) {
	types, err := onnx.Infer(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Model, err)
	}
	e := &extended{wrt: map[string]string{}}
	cotangents, err := e.addCotangents(m, types, feeds, o)
	if err != nil {
		return nil, err
	}
	wrt := o.Wrt
	if wrt == nil {
		wrt = floatLeaves(m, cotangents)
	}
	if len(wrt) == 0 {
		return nil, fmt.Errorf("%s: nothing to differentiate with respect to: --wrt names no value, or the model has no "+
			"floating-point input or initializer", o.Model)
	}
	nodes := len(m.Nodes)
	grads, err := grad.Append(m, grad.Options{Outputs: e.outputs, Cotangents: cotangents, Wrt: wrt})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Model, err)
	}
	forward := m.Outputs
	m.Outputs = nil
	if o.OutputsOut != "" || o.ModelOut != "" {
		for _, out := range forward {
			v := declared(out.Name, types.Of(out.Name))
			v.Other = out.Other
			m.Outputs = append(m.Outputs, v)
			e.forward = append(e.forward, out.Name)
		}
	}
	e.outputGradients(m, nodes, grads, types)
	onnx.Prune(m)
	return e, nil
}

// addCotangents chooses the outputs to differentiate, and makes given cotangents inputs of m. It returns their names
// by output.
func (e *extended) addCotangents(
	m *onnx.Model, types *onnx.Types, feeds map[string]*tensor.Dense, o Options,
) (map[string]string, error) {
	given := map[string]*tensor.Dense{}
	if o.Cotangents != "" {
		var err error
		if given, _, err = checkpoints.ReadFile(o.Cotangents); err != nil {
			return nil, err
		}
	}
	names := map[string]string{}
	b := onnx.Extend(m)
	for _, out := range m.Outputs {
		ct, has := given[out.Name]
		delete(given, out.Name)
		v := types.Of(out.Name)
		if !has && (o.Cotangents != "" || v.Type.Discrete()) {
			continue
		}
		if !v.Type.IsFloat() {
			return nil, fmt.Errorf("%s: output %q is %v and cannot be differentiated; "+
				"select the outputs to differentiate with --cotangents", o.Model, out.Name, v)
		}
		e.outputs = append(e.outputs, out.Name)
		if !has {
			continue
		}
		if !sameShape(ct, v) {
			return nil, fmt.Errorf("%s: the cotangent of output %q has shape %v, want %v",
				o.Cotangents, out.Name, ct.Shape(), v)
		}
		name := b.Name("cotangent/" + out.Name)
		m.Inputs = append(m.Inputs, onnx.ValueInfo{Name: name, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
		names[out.Name], feeds[name] = name, ct
	}
	if len(given) > 0 {
		return nil, fmt.Errorf("%s: the model has no output %s",
			o.Cotangents, strings.Join(slices.Sorted(maps.Keys(given)), ", "))
	}
	if len(e.outputs) == 0 {
		return nil, fmt.Errorf("%s: no floating-point output to differentiate", o.Model)
	}
	return names, nil
}

// floatLeaves returns the floating-point graph inputs, except for the cotangents, and initializers.
func floatLeaves(m *onnx.Model, cotangents map[string]string) []string {
	var names []string
	added, defaults := map[string]bool{}, initialized(m)
	for _, name := range cotangents {
		added[name] = true
	}
	for _, in := range m.Inputs {
		if in.Type.IsFloat() && !added[in.Name] && !defaults[in.Name] {
			names = append(names, in.Name)
		}
	}
	for _, t := range m.Initializers {
		if t.Type.IsFloat() {
			names = append(names, t.Name)
		}
	}
	return names
}

// outputGradients makes the gradients outputs of m, named after their value and declared with its type and shape.
// Their values are renamed accordingly; nodes before first are not changed.
func (e *extended) outputGradients(m *onnx.Model, first int, grads map[string]string, types *onnx.Types) {
	b := onnx.Extend(m)
	own := map[string]bool{}
	for _, n := range m.Nodes[first:] {
		for _, y := range n.Outputs {
			own[y] = true
		}
	}
	names := map[string]string{}
	var copies []*onnx.Node
	for _, x := range slices.Sorted(maps.Keys(grads)) {
		g, name := grads[x], b.Name("gradient/"+x)
		if own[g] && names[g] == "" {
			names[g] = name
		} else { // also the gradient of another value
			copies = append(copies, &onnx.Node{Name: name, Op: "Identity", Inputs: []string{g}, Outputs: []string{name}})
		}
		m.Outputs = append(m.Outputs, declared(name, types.Of(x)))
		e.wrt[name] = x
	}
	m.Nodes = append(m.Nodes, copies...)
	onnx.Rename(m.Nodes[first:], names)
}

// declared returns a value as a graph output; sizes that only inference has named are left open.
func declared(name string, v *onnx.Value) onnx.ValueInfo {
	shape := slices.Clone(v.Shape)
	for i, d := range shape {
		if strings.ContainsAny(d.Name, "?()*/") {
			shape[i].Name = ""
		}
	}
	return onnx.ValueInfo{Name: name, Type: v.Type, Shape: shape, Ranked: v.Ranked}
}

// sameShape reports whether the shapes are equal, as far as v is known.
func sameShape(d *tensor.Dense, v *onnx.Value) bool {
	shape := d.Shape()
	if d.IsScalar() {
		shape = nil
	}
	return !v.Ranked || slices.EqualFunc(shape, v.Shape, func(n int, want onnx.Dim) bool {
		return !want.Known() || want.Size == int64(n)
	})
}
