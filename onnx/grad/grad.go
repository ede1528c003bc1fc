// Package grad differentiates ONNX models in reverse mode. Given outputs with cotangents, and the values to
// differentiate with respect to, it appends nodes to the graph that compute the vector-Jacobian products with
// ordinary ONNX operators.
//
// The derivatives are a table of rules (see docs/ops.md). A rule gets a node's inputs, outputs and output gradients,
// and emits nodes in the model's own operator set. The engine does the rest: it visits nodes, sums the gradients of
// values that are used several times, undoes broadcasting, recomputes, and checks every gradient's type and shape.
//
// A gradient is exact, or the model is refused with the name of the node: see docs/gradients.md. A path from the
// outputs back to the Wrt values ends only at inputs that the table declares not differentiable, and at values of a
// discrete type.
package grad

import (
	"fmt"
	"slices"
	"strings"

	"assay/onnx"
)

// Options select the outputs, their cotangents, and the values to differentiate with respect to.
type Options struct {
	// Outputs are the differentiated values, graph outputs or any others.
	Outputs []string
	// Cotangents maps an output to an existing value of the model with its type and shape, dL/d(output). Absent:
	// ones.
	Cotangents map[string]string
	// Wrt are graph inputs, initializers or intermediate values of a floating-point type.
	Wrt []string
	// Recompute makes the backward pass of each segment (onnx.Node.Segment) recompute that segment's forward values
	// from its inputs. It needs the memory of one segment at a time, and one more forward pass.
	Recompute bool
	// Segments is the number of segments to recompute: the first ones of the graph, whose values would be kept
	// longest. 0: all.
	Segments int
}

// Append appends to m the nodes that compute the gradient of sum(output * cotangent) with respect to every name of
// o.Wrt. It returns the gradients' names by name of Wrt. A gradient has the type and shape of its value, and is zero
// if the outputs do not depend on that value. The forward nodes of m are not changed.
func Append(m *onnx.Model, o Options) (map[string]string, error) {
	if err := onnx.Check(m); err != nil {
		return nil, err
	}
	types, err := onnx.Infer(m)
	if err != nil {
		return nil, err
	}
	nodes, weights := len(m.Nodes), len(m.Initializers)
	e := newEngine(m, types)
	if o.Recompute {
		e.plan = planSegments(m, types, o.Segments)
		e.wanted = o.Wrt
	}
	e.index(m.Nodes)
	var grads map[string]string
	e.b.Scoped("grad", func() { grads, err = e.run(m.Nodes[:nodes:nodes], o) })
	if err != nil {
		m.Nodes, m.Initializers = m.Nodes[:nodes], m.Initializers[:weights]
		return nil, err
	}
	e.drop(nodes, weights, grads)
	if len(e.redrawn) > 0 {
		e.keepDropped(nodes)
		e.drop(nodes, weights, grads) // casts for what is undone
	}
	return grads, nil
}

// engine is one call of Append.
type engine struct {
	b         *onnx.Builder
	t         *onnx.Types
	typed     int                     // nodes of the model that are in t
	inputs    map[string]bool         // graph inputs and initializers of the model
	emitted   map[string]bool         // values of emitted nodes
	producers map[string]*onnx.Node   // value -> forward node that makes it
	consumers map[string][]*onnx.Node // value -> forward nodes that read it
	totals    map[string]string       // value -> its full gradient, once the nodes that read it are done
	seeds     map[string]bool         // values with a cotangent
	plan      map[string]*segment     // by name; nil: no recomputation
	wanted    []string                // with recomputation: the values whose gradients are results
	due       []string                // those gradients that the next segment waits for
	sizes     map[string]string       // symbol of a size -> vector of the model with just that size
	redrawn   map[*onnx.Node]string   // emitted assay.Dropout -> the forward value that it computes again
	err       error                   // of typing an emitted node
}

func newEngine(m *onnx.Model, types *onnx.Types) *engine {
	e := &engine{
		b:         onnx.Extend(m),
		t:         types,
		typed:     len(m.Nodes),
		inputs:    map[string]bool{},
		emitted:   map[string]bool{},
		producers: map[string]*onnx.Node{},
		consumers: map[string][]*onnx.Node{},
		totals:    map[string]string{},
		seeds:     map[string]bool{},
		sizes:     map[string]string{},
		redrawn:   map[*onnx.Node]string{},
	}
	for _, v := range m.Inputs {
		e.inputs[v.Name] = true
	}
	for _, t := range m.Initializers {
		e.inputs[t.Name] = true
	}
	return e
}

// index records the forward nodes that make and read each value.
func (e *engine) index(nodes []*onnx.Node) {
	for _, n := range nodes {
		for _, y := range n.Outputs {
			e.producers[y] = n
			e.noteSize(y)
		}
		for _, x := range n.Reads() {
			e.consumers[x] = append(e.consumers[x], n)
		}
	}
}

func (e *engine) run(nodes []*onnx.Node, o Options) (map[string]string, error) {
	acc := gradients{}
	for _, y := range o.Outputs {
		g, err := e.seed(y, o.Cotangents[y])
		if err != nil {
			return nil, err
		}
		acc.put(y, g)
		e.seeds[y] = true
	}
	for y := range o.Cotangents {
		if !slices.Contains(o.Outputs, y) {
			return nil, fmt.Errorf("a cotangent is given for %q, which is not among the outputs %s",
				y, strings.Join(o.Outputs, ", "))
		}
	}
	for _, x := range o.Wrt {
		v := e.value(x)
		switch {
		case v.Type == onnx.Undefined && !e.exists(x):
			return nil, fmt.Errorf("the model has no value %q to differentiate with respect to", x)
		case !v.Type.IsFloat():
			return nil, fmt.Errorf("%q is %v and has no gradient: name floating-point values", x, v)
		}
	}
	if err := e.backward(nodes, acc, o.Wrt); err != nil {
		return nil, err
	}
	result := map[string]string{}
	for _, x := range o.Wrt {
		g := e.total(acc, x)
		if g == "" {
			c := &call{Builder: e.b, e: e}
			g = c.zerosLike(x)
		}
		if !e.isNode(g) { // the gradient is a graph input or a constant: make it a separate value
			g = e.b.Op("Identity", g)
		}
		result[x] = g
	}
	return result, e.sync()
}

func (e *engine) exists(name string) bool { return e.isNode(name) || e.inputs[name] }

// isNode reports whether a node makes the value.
func (e *engine) isNode(name string) bool { return e.producers[name] != nil || e.emitted[name] }

// seed returns the cotangent of an output: the given value, or ones.
func (e *engine) seed(y, cotangent string) (string, error) {
	if !e.exists(y) {
		return "", fmt.Errorf("the model has no value %q to differentiate", y)
	}
	v := e.value(y)
	if !v.Type.IsFloat() {
		return "", fmt.Errorf("output %q is %v and cannot be differentiated", y, v)
	}
	if cotangent == "" {
		c := &call{Builder: e.b, e: e}
		return c.fullLike(y, 1), nil
	}
	if !e.exists(cotangent) {
		return "", fmt.Errorf("the cotangent %q of %q is not a value of the model", cotangent, y)
	}
	if ct := e.value(cotangent); !compatible(ct, v) {
		return "", fmt.Errorf("cotangent %q of output %q is %v, want %v", cotangent, y, ct, v)
	}
	return cotangent, nil
}

// drop removes the emitted nodes and constants that no gradient needs.
func (e *engine) drop(nodes, weights int, grads map[string]string) {
	m := e.b.M
	used := map[string]bool{}
	for _, g := range grads {
		used[g] = true
	}
	keep := []*onnx.Node{}
	for i := len(m.Nodes) - 1; i >= nodes; i-- {
		n := m.Nodes[i]
		if slices.ContainsFunc(n.Outputs, func(y string) bool { return y != "" && used[y] }) {
			keep = append(keep, n)
			for _, x := range n.Reads() {
				used[x] = true
			}
		}
	}
	slices.Reverse(keep)
	m.Nodes = append(m.Nodes[:nodes], keep...)
	consts := m.Initializers[weights:]
	m.Initializers = m.Initializers[:weights]
	for _, t := range consts {
		if used[t.Name] {
			m.Initializers = append(m.Initializers, t)
		}
	}
}
