package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sort puts the nodes into execution order and keeps the given order where possible. For a cycle it returns an error
// that names its nodes.
func Sort(m *Model) error {
	nodes, err := sorted(m, m.Nodes)
	if err != nil {
		return err
	}
	m.Nodes = nodes
	return nil
}

// Reads returns the names that a node reads: its inputs, and the captures of its subgraphs.
func (n *Node) Reads() []string {
	return append(n.Inputs[:len(n.Inputs):len(n.Inputs)], n.Captures()...)
}

// Captures returns the names that a node's subgraphs read from enclosing graphs.
func (n *Node) Captures() []string {
	var names []string
	if len(n.Attrs) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(n.Attrs)) {
		g, ok := n.Attrs[key].(*Graph)
		if !ok {
			continue
		}
		inner := map[string]bool{}
		for _, v := range g.Inputs {
			inner[v.Name] = true
		}
		for _, t := range g.Initializers {
			inner[t.Name] = true
		}
		for _, k := range g.Nodes {
			for _, y := range k.Outputs {
				inner[y] = true
			}
		}
		add := func(x string) {
			if !inner[x] {
				names = append(names, x)
			}
		}
		for _, k := range g.Nodes {
			for _, x := range k.Reads() {
				add(x)
			}
		}
		for _, v := range g.Outputs {
			add(v.Name)
		}
	}
	return names
}

func sorted(m *Model, nodes []*Node) ([]*Node, error) {
	maker := map[string]*Node{}
	for _, n := range nodes {
		for _, y := range n.Outputs {
			if y != "" {
				maker[y] = n
			}
		}
	}
	out := make([]*Node, 0, len(nodes))
	state := map[*Node]int{} // 1: on the path, 2: placed
	type frame struct {
		n     *Node
		reads []string
	}
	for _, root := range nodes {
		if state[root] != 0 {
			continue
		}
		// Depth first without recursion: models are deep.
		stack := []frame{{root, root.Reads()}}
		state[root] = 1
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.reads) == 0 {
				state[top.n] = 2
				out = append(out, top.n)
				stack = stack[:len(stack)-1]
				continue
			}
			before := maker[top.reads[0]]
			top.reads = top.reads[1:]
			if before == nil || state[before] == 2 {
				continue
			}
			if state[before] == 1 {
				var path []string
				for i := len(stack) - 1; i >= 0; i-- {
					path = append(path, m.Describe(stack[i].n))
					if stack[i].n == before {
						break
					}
				}
				return nil, fmt.Errorf("the graph has a cycle: %s needs its own output, through %s",
					m.Describe(before), strings.Join(path, ", "))
			}
			state[before] = 1
			stack = append(stack, frame{before, before.Reads()})
		}
	}
	return out, nil
}

// Prune removes the nodes and initializers that no graph output needs. Graph inputs stay: they are the model's
// interface.
func Prune(m *Model) {
	used := map[string]bool{}
	for _, v := range m.Outputs {
		used[v.Name] = true
	}
	needed := map[*Node]bool{}
	for changed := true; changed; { // one pass for nodes in execution order, and one to confirm
		changed = false
		for i := len(m.Nodes) - 1; i >= 0; i-- {
			n := m.Nodes[i]
			if needed[n] {
				continue
			}
			for _, y := range n.Outputs {
				needed[n] = needed[n] || y != "" && used[y]
			}
			if needed[n] {
				changed = true
				for _, x := range n.Reads() {
					used[x] = true
				}
			}
		}
	}
	nodes := make([]*Node, 0, len(needed))
	for _, n := range m.Nodes {
		if needed[n] {
			nodes = append(nodes, n)
		}
	}
	var weights []*Tensor
	for _, t := range m.Initializers {
		if used[t.Name] {
			weights = append(weights, t)
		}
	}
	m.Nodes, m.Initializers = nodes, weights
}
