package nn

import (
	"strings"

	"assay/onnx"
)

// Prefixes, for each parameter, of the additional inputs and outputs of graphs with sums.
const (
	OfSum    = "sum."    // input: the sum so far, or a single zero
	OfSummed = "summed." // output: the sum including this run's gradient, in the same memory
)

// addSums makes a graph add its gradients, by parameter, to sums, each as soon as it is computed.
func (g *Graph) addSums(grads map[string]string) {
	adds := map[string][]*onnx.Node{} // by gradient
	for _, p := range g.Params {
		dims := make([]onnx.Dim, len(p.Shape)) // a sum, or a single zero
		fixed := make([]onnx.Dim, len(p.Shape))
		for i, d := range p.Shape {
			dims[i], fixed[i] = onnx.Dim{Size: -1}, onnx.Fixed(d)
		}
		as := OfSummed + p.Name
		sum := g.Input(OfSum+p.Name, onnx.Float, dims)
		adds[grads[p.Name]] = append(adds[grads[p.Name]],
			&onnx.Node{Name: as, Op: "Add", Inputs: []string{sum, grads[p.Name]}, Outputs: []string{as}})
		g.M.Outputs = append(g.M.Outputs, onnx.ValueInfo{Name: as, Type: onnx.Float, Shape: fixed, Ranked: true})
	}
	var nodes []*onnx.Node
	for _, n := range g.M.Nodes {
		nodes = append(nodes, n)
		for _, y := range n.Outputs {
			nodes = append(nodes, adds[y]...)
			delete(adds, y)
		}
	}
	for _, p := range g.Params { // gradients that no node outputs
		nodes = append(nodes, adds[grads[p.Name]]...)
		delete(adds, grads[p.Name])
	}
	g.M.Nodes = nodes
}

// InPlace reports whether the output of a node is a sum, which shares the memory of the node's first input.
func InPlace(n *onnx.Node) bool { return strings.HasPrefix(n.Outputs[0], OfSummed) }
