package nn

import (
	"assay/onnx"
	"assay/onnx/grad"
)

// NewTrainedGraph starts a graph over the parameters of a checkpoint, all trained: they are inputs, listed in Params.
func NewTrainedGraph(name string, w Weights) *Graph {
	g := NewGraph(name, w)
	g.TrainsWeight = func(string) bool { return true }
	return g
}

// Backward appends the gradients of the sum of an output with respect to values of the graph, and declares them as
// outputs. It returns the outputs' names by name of wrt.
func (g *Graph) Backward(output string, wrt ...string) (map[string]string, error) {
	return g.gradients(grad.Options{Outputs: []string{output}, Wrt: wrt})
}

func (g *Graph) gradients(o grad.Options) (map[string]string, error) {
	grads, err := grad.Append(g.M, o)
	if err != nil {
		return nil, err
	}
	outputs := make(map[string]string, len(grads))
	for _, name := range o.Wrt {
		as := "grad." + name
		g.M.Nodes = append(g.M.Nodes,
			&onnx.Node{Name: as, Op: "Identity", Inputs: []string{grads[name]}, Outputs: []string{as}})
		g.M.Outputs = append(g.M.Outputs, onnx.ValueInfo{Name: as, Type: onnx.Float})
		outputs[name] = as
	}
	return outputs, nil
}
