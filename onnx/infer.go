package onnx

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
)

// Types are the static types of all values of a model: element types, shapes with symbols, and the contents of small
// integer vectors, which later shapes are computed from.
type Types struct {
	m      *Model
	values map[string]*Value
	read   int            // initializers of m that are in values
	equal  map[string]Dim // expression -> the dimension that it equals
	outer  *Types         // of the enclosing graph; nil: none
}

// Infer computes the types of all values. Errors name the node and the mismatch. Values of unknown operators have an
// unknown type.
func Infer(m *Model) (*Types, error) {
	t := &Types{m: m, values: map[string]*Value{}, equal: map[string]Dim{}}
	for _, in := range m.Inputs {
		t.values[in.Name] = t.declared(in)
	}
	if err := t.graph(&m.Graph); err != nil {
		return nil, err
	}
	return t, nil
}

// graph types the initializers and nodes of a graph whose inputs are typed.
func (t *Types) graph(m *Graph) error {
	t.sync()
	hints := map[string]ValueInfo{}
	for _, v := range m.Values {
		hints[v.Name] = v
	}
	for _, v := range m.Outputs {
		hints[v.Name] = v
	}
	for _, n := range m.Nodes {
		if err := t.Add(n); err != nil {
			return err
		}
		for _, o := range n.Outputs {
			h, ok := hints[o]
			if !ok || o == "" {
				continue
			}
			v, d := t.values[o], t.declared(h)
			if v.Type != Undefined && d.Type != Undefined && v.Type != d.Type {
				return fmt.Errorf("%s: its output %q is declared as %v, but is %v",
					t.m.Describe(n), o, d.Type, v.Type)
			}
			v.refine(d)
		}
	}
	return nil
}

// declared turns a declaration into a value; unknown sizes get new symbols.
func (t *Types) declared(v ValueInfo) *Value {
	d := &Value{Type: v.Type, Ranked: v.Ranked, Shape: append([]Dim{}, v.Shape...)}
	t.symbols(v.Name, d)
	if n, ok := d.Sizes(); ok && (v.Type == Int64 || v.Type == Int32) && len(n) <= 1 {
		count := int64(1)
		if len(n) == 1 {
			count = n[0]
		}
		for i := int64(0); i < count && count <= maxInts; i++ {
			d.Ints = append(d.Ints, Int{Name: fmt.Sprintf("%s[%d]", v.Name, i)})
		}
	}
	return d
}

// symbols names the unknown dimensions of v after the value they belong to.
func (t *Types) symbols(name string, v *Value) {
	for i, d := range v.Shape {
		if e, ok := t.equal[d.Name]; ok && d.Name != "" {
			v.Shape[i] = e
		}
		if !d.Known() && d.Name == "" {
			v.Shape[i] = Symbol(fmt.Sprintf("?%s.%d", name, i))
		}
	}
}

// refine fills in from a declaration what inference could not find.
func (v *Value) refine(d *Value) {
	if v.Type == Undefined {
		v.Type = d.Type
	}
	if !v.Ranked {
		v.Ranked, v.Shape = d.Ranked, d.Shape
		return
	}
	if len(v.Shape) != len(d.Shape) {
		return
	}
	for i := range v.Shape {
		if !v.Shape[i].Known() && d.Shape[i].Known() {
			v.Shape[i] = d.Shape[i]
		}
	}
}

// sync adds the initializers that were added to the model since the last call.
func (t *Types) sync() {
	for ; t.read < len(t.m.Initializers); t.read++ {
		w := t.m.Initializers[t.read]
		if _, isInput := t.values[w.Name]; isInput {
			continue // a default that the caller may replace
		}
		v := &Value{Type: w.Type, Ranked: true, Const: w, Ints: contents(w), Shape: make([]Dim, len(w.Shape))}
		for i, d := range w.Shape {
			v.Shape[i] = Fixed(d)
		}
		t.values[w.Name] = v
	}
}

// Of returns the type of a value, or an empty Value for an undefined name.
func (t *Types) Of(name string) *Value {
	if v, ok := t.values[name]; ok {
		return v
	}
	t.sync()
	if v, ok := t.values[name]; ok {
		return v
	}
	if t.outer != nil {
		return t.outer.Of(name)
	}
	return &Value{}
}

// Assume gives a value the shape of another value that is known to have the same shape.
func (t *Types) Assume(name string, same *Value) {
	v, ok := t.values[name]
	switch {
	case !ok || !same.Ranked:
	case !v.Ranked:
		v.Ranked, v.Shape = true, append([]Dim{}, same.Shape...)
	case len(v.Shape) == len(same.Shape):
		for i, d := range same.Shape {
			if !v.Shape[i].Known() {
				v.Shape[i] = d
			}
		}
	}
}

// Add infers the outputs of one more node, whose inputs must have been added before.
func (t *Types) Add(n *Node) error {
	c := &inference{t: t, n: n, opset: t.m.Opset(n.Domain)}
	for _, name := range n.Inputs {
		if name == "" {
			c.in = append(c.in, nil)
			continue
		}
		c.in = append(c.in, t.Of(name))
	}
	c.out = make([]*Value, len(n.Outputs))
	for i := range c.out {
		c.out[i] = &Value{}
	}
	var s *schema
	if n.Domain == "" {
		if s = schemaOf(n.Op, c.opset); s != nil {
			c.unify(s)
		}
	}
	if f := inferences[opKey(n.Domain, n.Op)]; f != nil {
		if err := c.run(f); err != nil {
			return fmt.Errorf("%s: %w; inputs are %s", t.m.Describe(n), err, t.describeInputs(n))
		}
	}
	if s != nil {
		c.applySchema(s)
	}
	for i, name := range n.Outputs {
		if name != "" {
			t.symbols(name, c.out[i])
			t.values[name] = c.out[i]
		}
	}
	return nil
}

// typeAt returns entry i of a schema's list of types.
func typeAt(list []string, i int) string {
	if len(list) == 0 {
		return "?"
	}
	return list[min(i, len(list)-1)]
}

// unify gives inputs of unknown type the type of the other inputs that must have the same type.
func (c *inference) unify(s *schema) {
	in, _, _ := strings.Cut(s.types, ">")
	kinds := strings.Fields(in)
	types := map[string]DType{}
	for i, v := range c.in {
		if v != nil && v.Type != Undefined {
			types[typeAt(kinds, i)] = v.Type
		}
	}
	for i, v := range c.in {
		if k := typeAt(kinds, i); v != nil && v.Type == Undefined && k != "?" {
			v.Type = types[k]
		}
	}
}

// applySchema types the outputs that no inference function typed, as far as the operator's schema determines them.
func (c *inference) applySchema(s *schema) {
	_, out, _ := strings.Cut(s.types, ">")
	kinds := strings.Fields(out)
	for i, v := range c.out {
		if v.Type != Undefined {
			continue
		}
		k := typeAt(kinds, i)
		if j, err := strconv.Atoi(k); err == nil {
			v.Type = c.arg(j).Type
		} else if k != "?" {
			v.Type = dtypeNames[k]
		}
	}
}

func (t *Types) describeInputs(n *Node) string {
	parts := make([]string, len(n.Inputs))
	for i, name := range n.Inputs {
		parts[i] = fmt.Sprintf("%q %v", name, t.Of(name))
		if name == "" {
			parts[i] = "(left out)"
		}
	}
	return strings.Join(parts, ", ")
}

// Describe returns a node's name, operator, domain and version for error messages.
func (m *Model) Describe(n *Node) string {
	domain := n.Domain
	domain = cmp.Or(domain, "ai.onnx")
	name := fmt.Sprintf("node %q", n.Name)
	if n.Name == "" {
		name = fmt.Sprintf("node of output %q", first(n.Outputs))
	}
	return fmt.Sprintf("%s (%s.%s, opset %d)", name, domain, n.Op, m.Opset(n.Domain))
}

func opKey(domain, op string) string {
	if domain == "" {
		return op
	}
	return domain + "." + op
}

// inference is one node whose outputs are being typed. in[i] is nil for an omitted input.
type inference struct {
	t     *Types
	n     *Node
	opset int64
	in    []*Value
	out   []*Value
}

// run calls an inference function. A panic in it is a bug of this package, and is reported as one.
func (c *inference) run(f func(*inference) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &InternalError{Doing: "typing the node", Cause: p, Stack: debug.Stack()}
		}
	}()
	return f(c)
}

func (c *inference) arg(i int) *Value {
	if i < len(c.in) && c.in[i] != nil {
		return c.in[i]
	}
	return &Value{}
}

func (c *inference) has(i int) bool { return i < len(c.in) && c.in[i] != nil }

// set sets the type of output i; a nil shape means unknown rank.
func (c *inference) set(i int, t DType, shape []Dim) {
	if i < len(c.out) {
		c.out[i].Type, c.out[i].Ranked = t, shape != nil
		c.out[i].Shape = append([]Dim{}, shape...)
	}
}

// shape returns the dimensions of input i, nil if its rank is unknown.
func (c *inference) shape(i int) []Dim {
	v := c.arg(i)
	if !v.Ranked {
		return nil
	}
	if v.Shape == nil {
		return []Dim{}
	}
	return v.Shape
}

// axis resolves a negative axis of a value of the given rank.
func axis(a int64, rank int) (int, error) {
	if a < -int64(rank) || a >= int64(rank) {
		return 0, fmt.Errorf("axis %d is out of range for rank %d", a, rank)
	}
	if a < 0 {
		a += int64(rank)
	}
	return int(a), nil
}

// ints returns integers that are an input, or an attribute in older operator sets. ok is false if they are an input
// that is only known when the model runs; absent is true if they are given in neither way.
func (c *inference) ints(input int, attr string) (v []int64, ok, absent bool) {
	if a, is := c.n.Attrs[attr].([]int64); is {
		return a, true, false
	}
	if !c.has(input) {
		return nil, true, true
	}
	v, ok = c.arg(input).Known()
	return v, ok, false
}

func broadcastShapes(a, b []Dim) ([]Dim, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]Dim{}, a...)
	off := len(a) - len(b)
	for i, d := range b {
		m, err := a[off+i].broadcast(d)
		if err != nil {
			return nil, err
		}
		out[off+i] = m
	}
	return out, nil
}

func unknownDims(n int) []Dim {
	dims := make([]Dim, n)
	for i := range dims {
		dims[i].Size = -1
	}
	return dims
}
