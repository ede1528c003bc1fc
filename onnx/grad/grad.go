// Package grad differentiates ONNX models in reverse mode: given outputs with cotangents and the values to differentiate
// with respect to, it appends nodes to the graph that compute the vector-Jacobian products, of ordinary ONNX operators only.
//
// The derivatives are a table of rules (see docs/ops.md). A rule sees a node's inputs, outputs and output gradients, and
// emits nodes in the model's own operator set. Everything that rules have in common lives in the engine: which nodes are
// visited, sums where a value is used several times, undoing of broadcasting, recomputation, and the check of every gradient's
// type and shape.
package grad

import (
	"fmt"
	"slices"
	"strings"

	"assay/onnx"
)

// Options say what is differentiated.
type Options struct {
	// Outputs are the differentiated values, graph outputs or any others.
	Outputs []string
	// Cotangents maps an output to an existing value of the model of its type and shape, dL/d(output). Absent: ones.
	Cotangents map[string]string
	// Wrt are graph inputs, initializers or intermediate values of a floating-point type.
	Wrt []string
	// Recompute makes the backward pass of each segment (onnx.Node.Segment) compute that segment's forward values anew, from
	// its inputs: memory for one segment at a time, one more forward pass.
	Recompute bool
}

// Append appends to m the nodes that compute, for every name of o.Wrt, the gradient of sum(output * cotangent) with respect
// to it, and returns the names of the gradients by name of Wrt. They have the type and shape of what they belong to; a value
// that the outputs do not depend on gets zeros. The forward nodes of m stay as they are.
func Append(m *onnx.Model, o Options) (map[string]string, error) {
	if err := onnx.Check(m); err != nil {
		return nil, err
	}
	types, err := onnx.Infer(m)
	if err != nil {
		return nil, err
	}
	nodes, weights := len(m.Nodes), len(m.Initializers)
	e := &engine{b: onnx.Extend(m), t: types, typed: nodes, made: map[string]*onnx.Node{},
		users: map[string][]*onnx.Node{}, sums: map[string]string{}, seeds: map[string]bool{}}
	if o.Recompute {
		e.plan = planSegments(m, types)
	}
	e.know(m.Nodes)
	var grads map[string]string
	e.b.Scoped("grad", func() { grads, err = e.run(m.Nodes[:nodes:nodes], o) })
	if err != nil {
		m.Nodes, m.Initializers = m.Nodes[:nodes], m.Initializers[:weights]
		return nil, err
	}
	e.drop(nodes, weights, grads)
	return grads, nil
}

// engine is one call of Append.
type engine struct {
	b     *onnx.Builder
	t     *onnx.Types
	typed int                     // nodes of the model that are in t
	made  map[string]*onnx.Node   // value -> forward node that makes it
	users map[string][]*onnx.Node // value -> forward nodes that read it
	sums  map[string]string       // value -> its whole gradient, once the nodes that read it are done
	seeds map[string]bool         // values whose gradient is given
	plan  map[string]*segment     // by name; nil: no recomputation
	err   error                   // of typing an emitted node
}

// know records who makes and who reads the values of forward nodes.
func (e *engine) know(nodes []*onnx.Node) {
	for _, n := range nodes {
		for _, y := range n.Outputs {
			e.made[y] = n
		}
		for _, x := range n.Inputs {
			e.users[x] = append(e.users[x], n)
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
			return nil, fmt.Errorf("a cotangent is given for %q, which is not among the outputs %s", y, strings.Join(o.Outputs, ", "))
		}
	}
	for _, x := range o.Wrt {
		v := e.of(x)
		switch {
		case v.Type == onnx.Undefined && !e.exists(x):
			return nil, fmt.Errorf("the model has no value %q to differentiate with respect to", x)
		case !v.Type.IsFloat():
			return nil, fmt.Errorf("%q is %v and carries no gradient; name floating-point values", x, v)
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
			g = c.zeros(x)
		}
		if !e.isNode(g) { // the gradient is a graph input or a constant: give it a value of its own
			g = e.b.Op("Identity", g)
		}
		result[x] = g
	}
	return result, e.sync()
}

func (e *engine) exists(name string) bool {
	if e.made[name] != nil || e.b.M.Initializer(name) != nil {
		return true
	}
	return slices.ContainsFunc(e.b.M.Inputs, func(v onnx.ValueInfo) bool { return v.Name == name })
}

func (e *engine) isNode(name string) bool {
	return slices.ContainsFunc(e.b.M.Nodes, func(n *onnx.Node) bool { return slices.Contains(n.Outputs, name) })
}

// seed returns the cotangent of an output: the given value, or ones.
func (e *engine) seed(y, cotangent string) (string, error) {
	if !e.exists(y) {
		return "", fmt.Errorf("the model has no value %q to differentiate", y)
	}
	v := e.of(y)
	if !v.Type.IsFloat() {
		return "", fmt.Errorf("output %q is %v and cannot be differentiated", y, v)
	}
	if cotangent == "" {
		c := &call{Builder: e.b, e: e}
		return c.filled(y, 1), nil
	}
	if !e.exists(cotangent) {
		return "", fmt.Errorf("the cotangent %q of %q is no value of the model", cotangent, y)
	}
	if err := fits(e.of(cotangent), v); err != nil {
		return "", fmt.Errorf("cotangent %q of output %q: %w", cotangent, y, err)
	}
	return cotangent, nil
}

// gradients holds the contributions to each value's gradient that are known so far.
type gradients map[string][]string

func (a gradients) put(x, g string) { a[x] = append(a[x], g) }

// total sums the contributions to x; "" if there are none.
func (e *engine) total(acc gradients, x string) string {
	switch g := acc[x]; len(g) {
	case 0:
		return ""
	case 1:
		return g[0]
	case 2:
		acc[x] = []string{e.b.Op("Add", g...)}
	default:
		acc[x] = []string{e.b.Op("Sum", g...)}
	}
	return acc[x][0]
}

// contribute adds g to the gradient of x. A matrix product made by the rule just applied (its nodes start at from) takes the
// sum so far as its C.
func (e *engine) contribute(acc gradients, x, g string, from int) {
	if len(acc[x]) == 1 {
		for _, n := range slices.Backward(e.b.M.Nodes[from:]) {
			if slices.Contains(n.Outputs, acc[x][0]) {
				break
			}
			if n.Outputs[0] == g && n.Op == "Gemm" && len(n.Inputs) == 2 {
				n.Inputs = append(n.Inputs, acc[x][0])
				acc[x] = []string{g}
				return
			}
		}
	}
	acc.put(x, g)
}

// backward goes through nodes in reverse, from the gradients in acc to the leaves.
func (e *engine) backward(nodes []*onnx.Node, acc gradients, leaves []string) error {
	active := map[string]bool{}
	for _, x := range leaves {
		active[x] = true
	}
	for _, n := range nodes {
		if e.depends(n, active) {
			for _, y := range n.Outputs {
				if t := e.of(y).Type; y != "" && (t.IsFloat() || t == onnx.Undefined) {
					active[y] = true
				}
			}
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		dy := make([]string, len(n.Outputs))
		found := false
		for j, y := range n.Outputs {
			if y != "" && active[y] && len(acc[y]) > 0 {
				dy[j], found = e.total(acc, y), true
				e.sums[y] = dy[j]
			}
		}
		if !found || !e.depends(n, active) {
			continue
		}
		var err error
		e.b.Scoped(n.Name, func() { err = e.visit(n, dy, active, acc, leaves) })
		if err != nil {
			return err
		}
	}
	return nil
}

// depends reports whether n reads an active value that may carry a gradient.
func (e *engine) depends(n *onnx.Node, active map[string]bool) bool {
	return slices.ContainsFunc(n.Reads(), func(x string) bool { return active[x] && e.carries(n, x) })
}

// carries reports whether what n reads as x may carry a gradient: an input by the table, what a subgraph takes always.
func (e *engine) carries(n *onnx.Node, x string) bool {
	if !slices.Contains(n.Inputs, x) {
		return true
	}
	r := lookup(n, e.b.M.Opset(n.Domain))
	for i, name := range n.Inputs {
		if name == x && (r == nil || !r.inertAt(i)) {
			return true
		}
	}
	return false
}

// visit applies the rule of one node.
func (e *engine) visit(n *onnx.Node, dy []string, active map[string]bool, acc gradients, leaves []string) error {
	m := e.b.M
	r := lookup(n, m.Opset(n.Domain))
	if r == nil {
		return missing(m, n)
	}
	c := &call{Builder: e.b, e: e, n: n, dy: dy, wants: make([]bool, len(n.Inputs)), leaves: leaves}
	c.rename = e.recomputed(n, dy)
	from := len(m.Nodes)
	for i, x := range n.Inputs {
		c.wants[i] = x != "" && active[x] && !r.inertAt(i) && e.of(x).Type.IsFloat()
		c.x = append(c.x, c.now(x))
	}
	for _, y := range n.Outputs {
		c.y = append(c.y, c.now(y))
	}
	dx, err := e.apply(r, c)
	if err == nil {
		err = c.err
	}
	if err == nil {
		err = e.sync()
	}
	if err != nil {
		return fmt.Errorf("gradient of %s: %w", m.Describe(n), err)
	}
	for i, g := range dx {
		if g == "" || !c.wants[i] {
			continue
		}
		if r.broadcast {
			g = e.fit(g, c.x[i])
		}
		if err := e.sync(); err != nil {
			return fmt.Errorf("gradient of %s: %w", m.Describe(n), err)
		}
		if err := fits(e.of(g), e.of(n.Inputs[i])); err != nil {
			return fmt.Errorf("gradient of %s with respect to input %d, %q: %w", m.Describe(n), i, n.Inputs[i], err)
		}
		e.t.Assume(g, e.of(n.Inputs[i]))
		e.contribute(acc, n.Inputs[i], g, from)
	}
	return nil
}

// apply runs a rule, or differentiates the decomposition that stands in for it. Rules take a node to be what its operator's
// standard says; where they find it is not, the panic of the missing part becomes an error of the node.
func (e *engine) apply(r *entry, c *call) (dx []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			dx, err = nil, fmt.Errorf("wanted a node as the standard describes it: %v", p)
		}
	}()
	if r.rule != nil {
		if dx := r.rule(c); dx != nil || c.err != nil || r.expand == nil {
			return dx, nil
		}
	}
	if r.expand == nil { // piecewise constant
		return nil, nil
	}
	from := len(e.b.M.Nodes)
	ys := r.expand(c)
	if c.err != nil {
		return nil, c.err
	}
	if err := e.sync(); err != nil {
		return nil, err
	}
	acc := gradients{}
	for i, y := range ys {
		if i < len(c.dy) && c.dy[i] != "" {
			acc.put(y, c.dy[i])
			e.seeds[y] = true
		}
	}
	var leaves []string
	for i, x := range c.x {
		if c.wants[i] && !slices.Contains(leaves, x) {
			leaves = append(leaves, x)
		}
	}
	part := slices.Clone(e.b.M.Nodes[from:])
	e.know(part)
	if err := e.backward(part, acc, leaves); err != nil {
		return nil, fmt.Errorf("in its decomposition: %w", err)
	}
	dx = make([]string, len(c.x))
	done := map[string]bool{}
	for i, x := range c.x {
		if c.wants[i] && !done[x] {
			dx[i], done[x] = e.total(acc, x), true
		}
	}
	return dx, nil
}

func missing(m *onnx.Model, n *onnx.Node) error {
	return fmt.Errorf("%s lies between the outputs and the values to differentiate by, but there is no gradient rule for this operator "+
		"at this version; wanted a rule for input %q (docs/ops.md lists the rules; differentiate with respect to a later value, or rewrite the node)",
		m.Describe(n), strings.Join(n.Reads(), ", "))
}

// sync types the nodes emitted since the last call.
func (e *engine) sync() error {
	for ; e.typed < len(e.b.M.Nodes); e.typed++ {
		if err := e.t.Add(e.b.M.Nodes[e.typed]); err != nil && e.err == nil {
			e.err = fmt.Errorf("the emitted %w", err)
		}
	}
	return e.err
}

// of returns what is known of a value, also of one just emitted.
func (e *engine) of(name string) *onnx.Value {
	_ = e.sync() // the error is kept and reported by visit
	return e.t.Of(name)
}

// fits checks that a gradient has the type and shape of its value, as far as they are known.
func fits(g, x *onnx.Value) error {
	bad := g.Type != onnx.Undefined && x.Type != onnx.Undefined && g.Type != x.Type
	if g.Ranked && x.Ranked {
		bad = bad || len(g.Shape) != len(x.Shape)
		for i := 0; !bad && i < len(g.Shape); i++ {
			bad = g.Shape[i].Known() && x.Shape[i].Known() && g.Shape[i].Size != x.Shape[i].Size
		}
	}
	if bad {
		return fmt.Errorf("the gradient is %v, wanted %v", g, x)
	}
	return nil
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
		if slices.ContainsFunc(n.Outputs, func(y string) bool { return used[y] }) {
			keep = append(keep, n)
			for _, x := range n.Inputs {
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
