package grad

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"assay/onnx"
)

// body is a subgraph under construction: a model whose inputs are the subgraph's inputs, then its captures.
type body struct {
	m        *onnx.Model
	captured map[string]bool
}

// newBody starts a body from a subgraph (nil: an empty one) with the given inputs and its captures.
func (c *call) newBody(g *onnx.Graph, inputs []onnx.ValueInfo) *body {
	m := &onnx.Model{Graph: onnx.Graph{Name: "body"}, IRVersion: c.M.IRVersion, Opsets: maps.Clone(c.M.Opsets)}
	b := &body{m: m, captured: map[string]bool{}}
	if g != nil {
		m.Graph = onnx.Graph{
			Name:         g.Name,
			Outputs:      slices.Clone(g.Outputs),
			Values:       g.Values,
			Initializers: slices.Clone(g.Initializers),
			Nodes:        slices.Clone(g.Nodes),
		}
	}
	m.Inputs = inputs
	if g != nil {
		reader := &onnx.Node{Attrs: map[string]any{"body": g}}
		for _, x := range reader.Captures() {
			b.capture(c, x, false)
		}
	}
	return b
}

// capture lets the body read a value of the enclosing graph. A small constant without a gradient is copied, so that
// its contents are known inside.
func (b *body) capture(c *call, x string, wanted bool) {
	if b.captured[x] && !wanted {
		return
	}
	v := c.value(x)
	if k := v.Const; k != nil && !wanted && k.External == nil && k.Count() <= 64 {
		copied := *k
		copied.Name = x
		if !slices.ContainsFunc(b.m.Initializers, func(t *onnx.Tensor) bool { return t.Name == x }) {
			b.m.Initializers = append(b.m.Initializers, &copied)
		}
		return
	}
	b.m.Initializers = slices.DeleteFunc(b.m.Initializers, func(t *onnx.Tensor) bool { return wanted && t.Name == x })
	if !b.captured[x] {
		b.captured[x] = true
		b.m.Inputs = append(b.m.Inputs, info(x, v))
	}
}

// info declares a value of another graph. Its symbols are left out, since they may mean something else here.
func info(name string, v *onnx.Value) onnx.ValueInfo {
	shape := make([]onnx.Dim, len(v.Shape))
	for i, d := range v.Shape {
		if shape[i] = d; !d.Known() {
			shape[i] = onnx.Dim{Size: -1}
		}
	}
	return onnx.ValueInfo{Name: name, Type: v.Type, Shape: shape, Ranked: v.Ranked}
}

// derive appends the vector-Jacobian product of the body's outputs to it: cotangents[j] is the value of the body,
// made or captured, that is the cotangent of output j, "" for none. The gradients are returned by name of wrt.
func (b *body) derive(cotangents []string, wrt []string) (map[string]string, error) {
	o := Options{Cotangents: map[string]string{}, Wrt: wrt}
	build := onnx.Extend(b.m)
	for j, y := range b.m.Outputs {
		if cotangents[j] == "" {
			continue
		}
		own := build.Op("Identity", y.Name) // one value may be several outputs
		o.Outputs, o.Cotangents[own] = append(o.Outputs, own), cotangents[j]
	}
	return Append(b.m, o)
}

// close makes the given values the outputs of the body, and returns it as a subgraph with unique names. known[i] is
// the type and shape of output i, as far as they are known.
func (b *body) close(c *call, outputs []string, known []*onnx.Value) (*onnx.Graph, error) {
	types, err := onnx.Infer(b.m)
	if err != nil {
		return nil, ruleErrorf("the generated subgraph: %w", err)
	}
	build := onnx.Extend(b.m)
	b.m.Outputs, b.m.Values = nil, nil
	for i, y := range outputs {
		types.Assume(y, known[i])
		b.m.Outputs = append(b.m.Outputs, info(build.Op("Identity", y), types.Of(y)))
	}
	onnx.Prune(b.m)
	b.m.Inputs = slices.DeleteFunc(b.m.Inputs, func(v onnx.ValueInfo) bool { return b.captured[v.Name] })
	for domain, version := range b.m.Opsets {
		c.M.Opsets[domain] = cmp.Or(c.M.Opsets[domain], version)
	}
	return c.renamed(&b.m.Graph, c.recomputed), nil // recomputed captures are read instead of the originals
}

// renamed returns a copy of a graph in which everything that it defines has a new name.
func (c *call) renamed(g *onnx.Graph, around map[string]string) *onnx.Graph {
	names := map[string]string{"": ""}
	maps.Copy(names, around)
	define := func(x string) string {
		if x == "" {
			return ""
		}
		if _, twice := names[x]; !twice || names[x] == around[x] {
			names[x] = c.Name("in/" + x)
		}
		return names[x]
	}
	use := func(x string) string {
		if y, ok := names[x]; ok {
			return y
		}
		return x
	}
	declared := func(list []onnx.ValueInfo, name func(string) string) []onnx.ValueInfo {
		list = slices.Clone(list)
		for i := range list {
			list[i].Name = name(list[i].Name)
		}
		return list
	}
	out := &onnx.Graph{Name: g.Name, Inputs: declared(g.Inputs, define)}
	for _, t := range g.Initializers {
		k := *t
		k.Name = define(t.Name)
		out.Initializers = append(out.Initializers, &k)
	}
	for _, n := range g.Nodes {
		k := *n
		k.Name, k.Segment = c.Name("in/"+n.Name), ""
		k.Inputs = make([]string, len(n.Inputs))
		for i, x := range n.Inputs {
			k.Inputs[i] = use(x)
		}
		k.Attrs = maps.Clone(n.Attrs)
		for key, a := range n.Attrs {
			if sub, ok := a.(*onnx.Graph); ok {
				k.Attrs[key] = c.renamed(sub, names)
			}
		}
		k.Outputs = make([]string, len(n.Outputs))
		for i, y := range n.Outputs {
			k.Outputs[i] = define(y)
		}
		out.Nodes = append(out.Nodes, &k)
	}
	out.Outputs = declared(g.Outputs, use)
	return out
}

// graph reads a subgraph attribute.
func (c *call) graph(name string) *onnx.Graph {
	g, ok := c.n.Attrs[name].(*onnx.Graph)
	if !ok {
		c.fail("the attribute %q must be a graph", name)
		return &onnx.Graph{}
	}
	return g
}

func inSubgraph(name string, err error) error { return fmt.Errorf("in its %s: %w", name, err) }
