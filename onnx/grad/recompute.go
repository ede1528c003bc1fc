package grad

import (
	"maps"
	"slices"
	"strings"

	"assay/onnx"
)

// segment is one part of the model (a layer) whose forward values the backward pass recomputes.
type segment struct {
	nodes      []*onnx.Node      // nodes that depend on the inputs below, in order
	inputs     []string          // outside values, which are made to depend on the incoming gradient
	recomputed map[string]string // forward value -> its recomputation; nil until the backward pass arrives
}

// randomOps of ONNX would return other values the second time, so their values are kept.
var randomOps = []string{
	"Bernoulli",
	"Dropout",
	"Multinomial",
	"RandomNormal",
	"RandomNormalLike",
	"RandomUniform",
	"RandomUniformLike",
}

// planSegments determines what each segment recomputes. The inputs of a segment are the floating-point values that
// other nodes make only for it: its incoming activations. Values that several segments share (masks, rotary angles)
// are kept, and so are values computed only from these and constants. most is the maximum number of segments, 0: all.
func planSegments(m *onnx.Model, t *onnx.Types, most int) map[string]*segment {
	maker, users := segmentUsers(m)
	plan := map[string]*segment{}
	reached := map[string]bool{} // value + segment
	for _, n := range m.Nodes {
		if n.Segment == "" || n.Domain == "" && slices.Contains(randomOps, n.Op) {
			continue
		}
		s := plan[n.Segment]
		if s == nil && most > 0 && len(plan) == most {
			continue
		}
		if s == nil {
			s = &segment{}
			plan[n.Segment] = s
		}
		depends := false
		for _, x := range n.Reads() {
			from := maker[x]
			if from != nil && from.Segment != n.Segment && len(users[x]) == 1 && t.Of(x).Type.IsFloat() &&
				t.Of(x).Const == nil {
				if !slices.Contains(s.inputs, x) {
					s.inputs = append(s.inputs, x)
				}
				depends = true
			}
			depends = depends || reached[n.Segment+"\x00"+x]
		}
		if depends {
			s.nodes = append(s.nodes, n)
			for _, y := range n.Outputs {
				reached[n.Segment+"\x00"+y] = true
			}
		}
	}
	return plan
}

// segmentUsers returns the node that makes each value, and the segments that read it.
func segmentUsers(m *onnx.Model) (maker map[string]*onnx.Node, users map[string][]string) {
	maker, users = map[string]*onnx.Node{}, map[string][]string{}
	for _, n := range m.Nodes {
		for _, x := range n.Reads() {
			if !slices.Contains(users[x], n.Segment) && n.Segment != "" {
				users[x] = append(users[x], n.Segment)
			}
		}
		for _, y := range n.Outputs {
			maker[y] = n
		}
	}
	return maker, users
}

// recompute returns the recomputed values of n's segment, nil if there are none. The first call for a segment emits
// them. It adds a zero, computed from the incoming gradient, to the segment's inputs. Without this dependence the
// runtime could recompute before the gradient is there, or merge both computations, and no memory would be saved. The
// zero also depends on the results of the segments that come later in the model: the runtime computes values without
// readers last, and would keep everything that they are computed from until then.
func (e *engine) recompute(n *onnx.Node, dy []string) map[string]string {
	s := e.plan[n.Segment]
	if s == nil || n.Segment == "" {
		return nil
	}
	if s.recomputed != nil {
		return s.recomputed
	}
	s.recomputed = map[string]string{}
	if len(s.inputs) == 0 {
		return s.recomputed
	}
	c := &call{Builder: e.b, e: e, recomputed: s.recomputed}
	i := slices.IndexFunc(dy, func(g string) bool { return g != "" })
	zero := c.zeroAfter(append([]string{dy[i]}, e.due...))
	e.due = nil
	for _, x := range s.inputs {
		s.recomputed[x] = c.add(x, c.cast(zero, e.value(x).Type))
	}
	for _, n := range s.nodes {
		twin := *n
		twin.Name, twin.Segment = e.b.Name("again/"+strings.TrimPrefix(n.Name, "/")), ""
		twin.Inputs = make([]string, len(n.Inputs))
		for i, x := range n.Inputs {
			twin.Inputs[i] = c.current(x)
		}
		twin.Outputs = make([]string, len(n.Outputs))
		for i, y := range n.Outputs {
			if y != "" {
				twin.Outputs[i] = e.b.Name("again/" + y)
				s.recomputed[y] = twin.Outputs[i]
			}
		}
		twin.Attrs = maps.Clone(n.Attrs)
		for key, a := range n.Attrs {
			if sub, ok := a.(*onnx.Graph); ok {
				twin.Attrs[key] = c.renamed(sub, s.recomputed)
			}
		}
		e.b.M.Nodes = append(e.b.M.Nodes, &twin)
	}
	return s.recomputed
}

// zeroAfter returns a scalar zero, of the type of the first value, that can only be computed after all values: an
// empty slice of each, concatenated with a zero. It is exactly zero whatever they contain. (The CUDA provider refuses
// sums of no elements.)
func (c *call) zeroAfter(values []string) string {
	kind := c.e.value(values[0]).Type
	var parts []string
	for _, x := range values {
		nothing := c.Op("Slice", c.Op("Reshape", x, c.Ints(-1)), c.Ints(0), c.Ints(0))
		parts = append(parts, c.cast(nothing, kind))
	}
	parts = append(parts, c.Numbers(kind, []int64{1}, 0))
	return c.Op("Squeeze", c.OpA("Concat", attrs{"axis": 0}, parts...), c.Ints(0))
}

// redraw computes the outputs of assay.Dropout that n reads again, for n's gradient, and returns them with the values
// recomputed already: their inputs are mostly kept anyway, and often shared by several. n may read a cast of them.
func (e *engine) redraw(n *onnx.Node, dy []string, recomputed map[string]string) map[string]string {
	c := &call{Builder: e.b, e: e}
	for _, y := range n.Inputs {
		from := y
		if f := e.producers[y]; f != nil && f.Op == "Cast" {
			from = f.Inputs[0]
		}
		d := e.producers[from]
		if d == nil || d.Domain != onnx.FusedDomain || d.Op != "Dropout" || recomputed[y] != "" {
			continue
		}
		i := slices.IndexFunc(dy, func(g string) bool { return g != "" })
		after := c.cast(dy[i], e.value(from).Type)
		drawn := c.Node(d.Domain, d.Op, 1, d.Attrs, d.Inputs[0], d.Inputs[1], after)[0]
		e.redrawn[c.Last()] = from
		all := map[string]string{y: c.cast(drawn, e.value(y).Type)}
		maps.Copy(all, recomputed)
		recomputed = all
	}
	return recomputed
}

// keepDropped undoes redraw where it saves nothing: where the input would be kept only for one output of the same size.
// Subgraphs go on to read what was drawn again. The emitted nodes start at from.
func (e *engine) keepDropped(from int) {
	m := e.b.M
	readers, captured, kept := map[string]int{}, map[string]bool{}, map[string]string{}
	for _, n := range m.Nodes[from:] {
		for _, x := range n.Reads() {
			readers[x]++
		}
		for _, x := range n.Captures() {
			captured[x] = true
		}
	}
	m.Nodes = slices.DeleteFunc(m.Nodes, func(n *onnx.Node) bool {
		y, twin := e.redrawn[n]
		if !twin || readers[n.Inputs[0]] > 1 || captured[n.Outputs[0]] {
			return false
		}
		kept[n.Outputs[0]] = y
		return true
	})
	for _, n := range m.Nodes[from:] {
		for i, x := range n.Inputs {
			if y, ok := kept[x]; ok {
				n.Inputs[i] = y
			}
		}
	}
}
