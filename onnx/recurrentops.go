package onnx

import "fmt"

func init() {
	inferAs(inferRecurrent, "LSTM", "GRU", "RNN")
	inferAs(inferIf, "If")
	inferAs(inferScan, "Scan")
}

// inferRecurrent: X [T, B, I], R [D, gates*H, H] -> Y [T, D, B, H], Y_h and Y_c [D, B, H]; with layout 1 the batch
// comes first.
func inferRecurrent(c *inference) error {
	t := c.arg(0).Type
	steps, batch := Dim{Size: -1}, Dim{Size: -1}
	if x := c.shape(0); len(x) == 3 {
		steps, batch = x[0], x[1]
	} else if x != nil {
		return fmt.Errorf("needs an input of rank 3")
	}
	directions, hidden := Fixed(1), Dim{Size: -1}
	if c.n.Str("direction", "forward") == "bidirectional" {
		directions = Fixed(2)
	}
	if r := c.shape(2); len(r) == 3 {
		hidden = r[2]
	}
	if n := c.n.Int("hidden_size", 0); n > 0 {
		hidden = Fixed(n)
	}
	y, last := []Dim{steps, directions, batch, hidden}, []Dim{directions, batch, hidden}
	if c.n.Int("layout", 0) != 0 {
		steps, batch = batch, steps
		y, last = []Dim{batch, steps, directions, hidden}, []Dim{batch, directions, hidden}
	}
	c.set(0, t, y)
	c.set(1, t, last)
	c.set(2, t, last)
	return nil
}

// inferSubgraph types a subgraph with the given inputs, and returns its outputs.
func (c *inference) inferSubgraph(name string, in []*Value) ([]*Value, error) {
	g, ok := c.n.Attrs[name].(*Graph)
	if !ok {
		return nil, fmt.Errorf("the attribute %q must be a graph", name)
	}
	if in != nil && len(in) != len(g.Inputs) {
		return nil, fmt.Errorf("its %s has %d inputs, want %d", name, len(g.Inputs), len(in))
	}
	t := &Types{m: &Model{Graph: *g, Opsets: c.t.m.Opsets}, outer: c.t, values: map[string]*Value{}, equal: c.t.equal}
	for i, v := range g.Inputs {
		d := t.declared(v)
		if i < len(in) {
			k := *in[i]
			k.refine(d)
			t.symbols(v.Name, &k)
			d = &k
		}
		t.values[v.Name] = d
	}
	if err := t.graph(g); err != nil {
		return nil, fmt.Errorf("in its %s: %w", name, err)
	}
	out := make([]*Value, len(g.Outputs))
	for i, y := range g.Outputs {
		out[i] = t.Of(y.Name)
	}
	return out, nil
}

// knownSizes keeps only the known sizes of a subgraph's shape. A symbol may mean something else outside of it.
func knownSizes(v *Value) []Dim {
	if !v.Ranked {
		return nil
	}
	dims := unknownDims(len(v.Shape))
	for i, d := range v.Shape {
		if d.Known() {
			dims[i] = d
		}
	}
	return dims
}

// inferIf: the types that both branches agree on.
func inferIf(c *inference) error {
	yes, err := c.inferSubgraph("then_branch", nil)
	if err != nil {
		return err
	}
	no, err := c.inferSubgraph("else_branch", nil)
	if err != nil {
		return err
	}
	if len(yes) != len(c.out) || len(no) != len(c.out) {
		return fmt.Errorf("its branches have %d and %d outputs, want %d", len(yes), len(no), len(c.out))
	}
	for i, a := range yes {
		b := no[i]
		if a.Type != b.Type {
			if a.Type != Undefined && b.Type != Undefined {
				return fmt.Errorf("output %d is %v in one branch and %v in the other", i, a, b)
			}
			continue // one typed branch is not enough
		}
		shape := knownSizes(a)
		if !b.Ranked || len(b.Shape) != len(shape) {
			shape = nil
		}
		for k := range shape {
			if !shape[k].Same(b.Shape[k]) {
				shape[k] = Dim{Size: -1}
			}
		}
		c.set(i, a.Type, shape)
	}
	return nil
}

// ScanAxes returns the axis along which each of a Scan node's count scanned inputs or outputs is scanned, and whether
// it is scanned backwards. The axis is as in the node's attributes, and may be negative.
func ScanAxes(n *Node, kind string, count int) (axes []int64, backwards []bool) {
	axes, backwards = make([]int64, count), make([]bool, count)
	copy(axes, n.Ints("scan_"+kind+"_axes"))
	for i, d := range n.Ints("scan_" + kind + "_directions") {
		if i < count {
			backwards[i] = d != 0
		}
	}
	return axes, backwards
}

// inferScan: states keep their shape; scanned inputs lose the step axis, scanned outputs gain it.
func inferScan(c *inference) error {
	scanned := int(c.n.Int("num_scan_inputs", 0))
	states := len(c.in) - scanned
	if scanned < 1 || states < 0 || len(c.out) < states {
		return fmt.Errorf("has %d inputs and %d outputs, which does not fit %d scanned inputs",
			len(c.in), len(c.out), scanned)
	}
	in := make([]*Value, len(c.in))
	steps := Dim{Size: -1}
	axes, _ := ScanAxes(c.n, "input", scanned)
	for i := range c.in {
		v := *c.arg(i)
		v.Ints, v.Const = nil, nil
		if i >= states && v.Ranked {
			a, err := axis(axes[i-states], len(v.Shape))
			if err != nil {
				return err
			}
			if !steps.Known() {
				steps = v.Shape[a]
			}
			v.Shape = append(append([]Dim{}, v.Shape[:a]...), v.Shape[a+1:]...)
		}
		in[i] = &v
	}
	out, err := c.inferSubgraph("body", in)
	if err != nil {
		return err
	}
	if len(out) != len(c.out) {
		return fmt.Errorf("its body has %d outputs, want %d", len(out), len(c.out))
	}
	axes, _ = ScanAxes(c.n, "output", len(out)-states)
	for i, v := range out {
		if i < states {
			c.set(i, v.Type, c.shape(i))
			continue
		}
		shape := knownSizes(v)
		if v.Ranked {
			a, err := axis(axes[i-states], len(shape)+1)
			if err != nil {
				return err
			}
			shape = append(append(append([]Dim{}, shape[:a]...), steps), shape[a:]...)
		}
		c.set(i, v.Type, shape)
	}
	return nil
}
