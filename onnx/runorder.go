package onnx

import "slices"

// RunOrder returns nodes in the order in which ONNX Runtime (1.31.1) runs them: depth first from the nodes whose
// outputs no node reads, the last one first. A node's inputs are computed before it, the last node of the graph first.
func RunOrder(nodes []*Node) []*Node {
	at := map[string]int{}
	for i, n := range nodes {
		for _, y := range n.Outputs {
			if y != "" {
				at[y] = i
			}
		}
	}
	visited := make([]bool, len(nodes))
	type step struct {
		node  int
		leave bool
	}
	var stack []step
	for _, i := range leaves(nodes) {
		stack = append(stack, step{node: i})
	}
	out := make([]*Node, 0, len(nodes))
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.leave {
			out = append(out, nodes[s.node])
			continue
		}
		if visited[s.node] {
			continue
		}
		visited[s.node] = true
		stack = append(stack, step{s.node, true})
		var inputs []int
		for _, x := range nodes[s.node].Reads() {
			if i, ok := at[x]; ok && !visited[i] {
				inputs = append(inputs, i)
			}
		}
		slices.Sort(inputs)
		for _, i := range slices.Compact(inputs) {
			stack = append(stack, step{node: i})
		}
	}
	return out
}

// FirstResultsLast moves the nodes whose outputs no node reads to the end, in reverse, so that ONNX Runtime computes
// them in the order in which they were: see [RunOrder]. In a backward pass these are gradients. Otherwise it would
// begin with the gradient that is ready last, and keep what all others are computed from until then.
func FirstResultsLast(nodes []*Node) []*Node {
	last := leaves(nodes)
	out := make([]*Node, 0, len(nodes))
	next := 0
	for i, n := range nodes {
		if next < len(last) && last[next] == i {
			next++
			continue
		}
		out = append(out, n)
	}
	slices.Reverse(last)
	for _, i := range last {
		out = append(out, nodes[i])
	}
	return out
}

// leaves returns the nodes whose outputs no node reads, in order.
func leaves(nodes []*Node) (all []int) {
	read := ReadBy(nodes)
	for i, n := range nodes {
		if !slices.ContainsFunc(n.Outputs, func(y string) bool { return read[y] }) {
			all = append(all, i)
		}
	}
	return all
}

// ReadBy returns the names of the values that nodes read, or the bodies of nodes.
func ReadBy(nodes []*Node) map[string]bool {
	read := map[string]bool{}
	for _, n := range nodes {
		for _, x := range n.Reads() {
			if x != "" {
				read[x] = true
			}
		}
	}
	return read
}
