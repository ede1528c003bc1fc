package onnx

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The ai.onnx operator sets that this package supports.
const (
	OldestOpset = 13
	NewestOpset = 25
)

// domains are the operator domains of a stock ONNX Runtime, and the domain of the fused operators.
var domains = []string{"", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc", FusedDomain}

// extensions are operators that ONNX Runtime adds to the domain ai.onnx.
var extensions = map[string][]schema{
	"SimplifiedLayerNormalization": {{1, false, 2, 2, 1, 2, nil, "0 0 > 0 ?"}},
}

// schema is ai.onnx's definition of one version of an operator. -1 means any number of inputs or outputs.
type schema struct {
	since      int64
	deprecated bool
	minIn      int
	maxIn      int
	minOut     int
	maxOut     int
	required   []string // attributes
	// types has a word for every input: the index of the first input that must have the same type. After ">" it has a
	// word for every output: the index of an input with the same type, or the name of a type. "?" means that
	// attributes or subgraphs decide. The last word of inputs or outputs also applies to all further ones.
	types string
}

// schemaOf finds the definition of an operator in an opset, nil if there is none.
func schemaOf(op string, version int64) *schema {
	versions := schemas[op]
	if versions == nil {
		versions = extensions[op]
	}
	var s *schema
	for i := range versions {
		if versions[i].since <= version {
			s = &versions[i]
		}
	}
	return s
}

// maxProblems is the maximum number of problems that Check reports.
const maxProblems = 20

// Check validates a model: nodes (unknown operators, versions and domains, wrong numbers of inputs and outputs,
// missing attributes, wrong order, cycles), names (defined twice or not at all) and constants (bytes that do not fit
// the shape; CheckExternal checks bytes in other files). The errors name the node, its operator, domain and version,
// and are joined. Shapes are checked by Infer.
func Check(m *Model) error {
	c := &checker{m: m}
	if v, ok := m.Opsets[""]; ok && (v < OldestOpset || v > NewestOpset) {
		return fmt.Errorf(
			"the model is in ai.onnx opset %d, want %d to %d: convert it first (onnx.version_converter)",
			v, OldestOpset, NewestOpset,
		)
	}
	for _, d := range slices.Sorted(maps.Keys(m.Opsets)) {
		if !slices.Contains(domains, d) && !strings.HasPrefix(d, "ai.onnx") {
			c.used(d)
		}
	}
	c.graph(&m.Graph, nil)
	return errors.Join(c.problems...)
}

type checker struct {
	m        *Model
	problems []error
}

func (c *checker) add(format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fmt.Errorf(format, args...))
	}
}

// used reports the first node that uses an unknown domain.
func (c *checker) used(domain string) {
	for _, n := range c.m.Nodes {
		if n.Domain == domain {
			c.add("%s: ONNX Runtime has no domain %q, want one of ai.onnx, %s",
				c.m.Describe(n), domain, strings.Join(domains[1:], ", "))
			return
		}
	}
}

// graph checks one graph; outer holds the names of the enclosing graphs.
func (c *checker) graph(g *Graph, outer map[string]bool) {
	known := map[string]bool{} // all names of this graph and the enclosing ones
	maps.Copy(known, outer)
	own := map[string]string{} // name -> what defines it here
	define := func(name, what string) {
		if old, twice := own[name]; twice {
			c.add("%q is defined twice, by %s and by %s; values need distinct names", name, old, what)
		}
		own[name], known[name] = what, true
	}
	for _, v := range g.Inputs {
		define(v.Name, "a graph input")
	}
	seen := map[string]bool{}
	for _, t := range g.Initializers {
		if own[t.Name] == "a graph input" && !seen[t.Name] { // a default value
			seen[t.Name] = true
		} else {
			define(t.Name, "an initializer")
		}
		c.tensor(t)
	}
	later := map[string]bool{}
	for _, n := range g.Nodes {
		for _, y := range n.Outputs {
			later[y] = true
		}
	}
	var early *Node // the first that reads the output of a later node, misplaced
	misplaced := ""
	for _, n := range g.Nodes {
		c.node(n)
		if x := c.inputs(n, known, later); x != "" && early == nil {
			early, misplaced = n, x
		}
		for _, name := range slices.Sorted(maps.Keys(n.Attrs)) {
			switch a := n.Attrs[name].(type) {
			case *Graph:
				c.graph(a, known)
			case *Tensor:
				c.tensor(a)
			}
		}
		for _, y := range n.Outputs {
			if y != "" {
				define(y, c.m.Describe(n))
			}
		}
	}
	if early != nil {
		c.misplaced(g.Nodes, early, misplaced)
	}
	for _, v := range g.Outputs {
		if !known[v.Name] {
			c.add("the graph output %q is not defined", v.Name)
		}
	}
}

// misplaced reports a node that reads the output x of a later one.
func (c *checker) misplaced(nodes []*Node, n *Node, x string) {
	if _, err := sorted(c.m, nodes); err != nil { // a cycle
		c.add("%w", err)
		return
	}
	c.add("%s: input %q is made by a later node, want nodes in execution order (Sort does that)", c.m.Describe(n), x)
}

// inputs checks that a node's inputs are defined, and returns the first that a later node makes; "": none.
func (c *checker) inputs(n *Node, known, later map[string]bool) (misplaced string) {
	for _, x := range n.Inputs {
		switch {
		case x == "" || known[x]:
		case later[x]:
			misplaced = cmp.Or(misplaced, x)
		default:
			c.add("%s: input %q is not defined, want a graph input, an initializer or another node's output",
				c.m.Describe(n), x)
		}
	}
	return misplaced
}

func (c *checker) tensor(t *Tensor) {
	size := int64(t.Type.Size())
	if size == 0 {
		return
	}
	want := t.Count() * size
	if t.External == nil && t.Lazy == nil && int64(len(t.Data)) != want {
		c.add("tensor %q: %v%v needs %d bytes, but has %d", t.Name, t.Type, t.Shape, want, len(t.Data))
	}
}

// node checks one node against the schema of its version.
func (c *checker) node(n *Node) {
	version, imported := c.m.Opsets[n.Domain]
	if !imported {
		c.add("%s: the model imports no operator set of domain %q", c.m.Describe(n), n.Domain)
		return
	}
	if n.Domain != "" {
		return // the operators of other domains depend on the runtime's version
	}
	versions := schemas[n.Op]
	if versions == nil {
		versions = extensions[n.Op]
	}
	if versions == nil {
		c.add("%s: ai.onnx has no such operator up to opset %d", c.m.Describe(n), NewestOpset)
		return
	}
	s := schemaOf(n.Op, version)
	switch {
	case s == nil:
		c.add("%s: the operator was added in opset %d", c.m.Describe(n), versions[0].since)
		return
	case s.deprecated:
		c.add("%s: the operator was removed in opset %d", c.m.Describe(n), s.since)
		return
	}
	c.arity(n, "inputs", len(trimmed(n.Inputs)), s.minIn, s.maxIn)
	c.arity(n, "outputs", len(trimmed(n.Outputs)), s.minOut, s.maxOut)
	for _, a := range s.required {
		if _, ok := n.Attrs[a]; !ok {
			c.add("%s: the attribute %q is missing", c.m.Describe(n), a)
		}
	}
}

func trimmed(names []string) []string {
	for len(names) > 0 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	return names
}

func (c *checker) arity(n *Node, what string, have, low, high int) {
	if have >= low && (high < 0 || have <= high) {
		return
	}
	want := fmt.Sprint(low)
	switch {
	case high < 0:
		want = fmt.Sprintf("%d or more", low)
	case high != low:
		want = fmt.Sprintf("%d to %d", low, high)
	}
	c.add("%s: it has %d %s, want %s", c.m.Describe(n), have, what, want)
}
