package grad

import (
	"fmt"
	"runtime/debug"
	"slices"

	"assay/onnx"
)

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

// contribute adds g to the gradient of x. If g is a Gemm that the last rule made only for x (its nodes start at
// from), the sum so far becomes the Gemm's input C.
func (e *engine) contribute(acc gradients, x, g string, from int, alone bool) {
	if slices.Contains(e.wanted, x) && !slices.Contains(e.due, g) {
		e.due = append(e.due, g)
	}
	if alone && len(acc[x]) == 1 {
		for _, n := range slices.Backward(e.b.M.Nodes[from:]) {
			if slices.Contains(n.Outputs, acc[x][0]) || slices.Contains(n.Inputs, g) {
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
				if y != "" && !e.value(y).Type.Discrete() {
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
				e.totals[y] = dy[j]
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
	return n.Meta[onnx.MetaConstant] != "true" &&
		slices.ContainsFunc(n.Reads(), func(x string) bool { return active[x] && e.carries(n, x) })
}

// carries reports whether x may carry a gradient where n reads it: an input by the table, a capture always.
func (e *engine) carries(n *onnx.Node, x string) bool {
	if !slices.Contains(n.Inputs, x) || slices.Contains(n.Captures(), x) {
		return true
	}
	r := lookup(n, e.b.M.Opset(n.Domain))
	for i, name := range n.Inputs {
		if name == x && (r == nil || !r.nonDifferentiableAt(i)) {
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
		return noRule(m, n)
	}
	c, err := e.newCall(r, n, dy, active, leaves)
	if err != nil {
		return err
	}
	from := len(m.Nodes)
	for _, x := range n.Inputs {
		c.x = append(c.x, c.current(x))
	}
	for _, y := range n.Outputs {
		c.y = append(c.y, c.current(y))
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
	return e.distribute(r, c, dx, from, acc)
}

// newCall determines the inputs and captures of a node that need a gradient, and refuses cases that the rule does not
// cover.
func (e *engine) newCall(r *entry, n *onnx.Node, dy []string, active map[string]bool, leaves []string) (*call, error) {
	m := e.b.M
	for j, g := range dy {
		if g != "" && !r.acceptsOutput(j) {
			return nil, fmt.Errorf(
				"gradient of %s: a gradient reaches its output %d, %q, but the rule takes only those of %s",
				m.Describe(n), j, n.Outputs[j], r.acceptedOutputs())
		}
	}
	c := &call{
		Builder:   e.b,
		e:         e,
		n:         n,
		dy:        dy,
		needsGrad: make([]bool, len(n.Inputs)),
		covered:   make([]bool, len(n.Inputs)),
		leaves:    leaves,
	}
	for i, x := range n.Inputs {
		if x == "" || !active[x] || r.nonDifferentiableAt(i) {
			continue
		}
		if !e.value(x).Type.IsFloat() {
			return nil, fmt.Errorf("gradient of %s with respect to input %d: %w", m.Describe(n), i, e.untyped(x))
		}
		c.needsGrad[i] = true
	}
	for _, x := range n.Captures() {
		switch {
		case !active[x] || slices.Contains(c.captures, x):
		case !r.captures:
			return nil, fmt.Errorf(
				"gradient of %s: its subgraphs capture %q, for which the rule has no gradient",
				m.Describe(n), x)
		case !e.value(x).Type.IsFloat():
			return nil, fmt.Errorf("gradient of %s with respect to %q, which its subgraphs capture: %w",
				m.Describe(n), x, e.untyped(x))
		default:
			c.captures = append(c.captures, x)
		}
	}
	c.recomputed = e.redraw(n, dy, e.recompute(n, dy))
	return c, nil
}

// distribute accumulates the gradients that a rule returned for the node's inputs and captures. The rule's nodes
// start at from.
func (e *engine) distribute(r *entry, c *call, dx []string, from int, acc gradients) error {
	m, n := e.b.M, c.n
	uses := map[string]int{} // gradient -> number of inputs that have it
	for _, g := range dx {
		uses[g]++
	}
	for i, g := range dx {
		if g == "" || !c.needsGrad[i] {
			continue
		}
		if r.broadcast {
			g = e.unbroadcast(g, c.x[i])
		}
		if err := e.accept(g, n.Inputs[i]); err != nil {
			return fmt.Errorf("gradient of %s with respect to input %d, %q: %w", m.Describe(n), i, n.Inputs[i], err)
		}
		e.contribute(acc, n.Inputs[i], g, from, uses[dx[i]] == 1)
	}
	for _, x := range c.captures {
		g := c.captureGrads[x]
		if err := e.accept(g, x); err != nil {
			return fmt.Errorf("gradient of %s with respect to %q, which its subgraphs capture: %w", m.Describe(n), x, err)
		}
		e.contribute(acc, x, g, from, false)
	}
	return nil
}

// accept checks a gradient that a rule made for the value x.
func (e *engine) accept(g, x string) error {
	err := e.sync()
	if err == nil && g == "" {
		err = ruleErrorf("the rule returned no gradient")
	}
	if err == nil {
		err = checkGradient(e.value(g), e.value(x))
	}
	if err == nil && !e.value(g).Type.IsFloat() {
		err = ruleErrorf("the gradient is %v", e.value(g))
	}
	if err == nil {
		e.t.Assume(g, e.value(x))
	}
	return err
}

// empty reports whether all gradients are known to have no elements.
func (e *engine) empty(dy []string) bool {
	for _, g := range dy {
		if g == "" {
			continue
		}
		if sizes, ok := e.value(g).Sizes(); !ok || !slices.Contains(sizes, 0) {
			return false
		}
	}
	return true
}

// apply runs a rule, or differentiates the decomposition that replaces the node.
func (e *engine) apply(r *entry, c *call) (dx []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			if err = e.sync(); err != nil { // the error that led to the panic
				return
			}
			dx, err = nil, &onnx.InternalError{Doing: "applying the rule", Cause: p, Stack: debug.Stack()}
		}
	}()
	if len(c.captures) == 0 && e.empty(c.dy) {
		dx := make([]string, len(c.x))
		for i, needed := range c.needsGrad {
			if needed {
				dx[i] = c.zerosLike(c.x[i])
			}
		}
		return dx, nil
	}
	if r.rule != nil {
		dx := r.rule(c)
		if c.err != nil {
			return nil, c.err
		}
		if dx != nil || r.decompose == nil {
			return dx, c.checkComplete(dx)
		}
	}
	if r.decompose == nil {
		return nil, ruleErrorf("a rule for zero gradients was asked for a gradient")
	}
	return e.applyDecomposition(r, c)
}

// checkComplete checks that a rule returned a gradient for every input that needs one.
func (c *call) checkComplete(dx []string) error {
	for i, needed := range c.needsGrad {
		if needed && !c.covered[i] && (i >= len(dx) || dx[i] == "") {
			return ruleErrorf("the rule returned no gradient of input %d, %q", i, c.n.Inputs[i])
		}
	}
	return nil
}

// applyDecomposition emits simpler nodes that compute the same outputs, and differentiates these.
func (e *engine) applyDecomposition(r *entry, c *call) ([]string, error) {
	from := len(e.b.M.Nodes)
	ys := r.decompose(c)
	if c.err != nil {
		return nil, c.err
	}
	if err := e.sync(); err != nil {
		return nil, err
	}
	acc := gradients{}
	for i, dy := range c.dy {
		switch {
		case dy == "":
		case i >= len(ys) || ys[i] == "":
			return nil, ruleErrorf("the decomposition lacks output %d", i)
		default:
			acc.put(ys[i], dy)
			e.seeds[ys[i]] = true
		}
	}
	var leaves []string
	for i, x := range c.x {
		if c.needsGrad[i] && !slices.Contains(leaves, x) {
			leaves = append(leaves, x)
		}
	}
	part := slices.Clone(e.b.M.Nodes[from:])
	e.index(part)
	if err := e.backward(part, acc, leaves); err != nil {
		return nil, fmt.Errorf("in its decomposition: %w", err)
	}
	dx := make([]string, len(c.x))
	done := map[string]bool{}
	for i, x := range c.x {
		if c.needsGrad[i] && !done[x] {
			dx[i], done[x] = e.total(acc, x), true
		}
	}
	return dx, nil
}

// sync types the nodes emitted since the last call.
func (e *engine) sync() error {
	for ; e.typed < len(e.b.M.Nodes); e.typed++ {
		n := e.b.M.Nodes[e.typed]
		if err := e.t.Add(n); err != nil && e.err == nil {
			e.err = &onnx.InternalError{Doing: "typing an emitted node", Cause: err}
		}
		for _, y := range n.Outputs {
			e.emitted[y] = true
		}
	}
	return e.err
}

// value returns the type of a value, including one just emitted.
func (e *engine) value(name string) *onnx.Value {
	_ = e.sync() // the error is kept and reported by visit
	return e.t.Of(name)
}
