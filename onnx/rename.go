package onnx

// Rename renames values everywhere in the nodes, including captures of subgraphs. The new names must be unused.
// Inputs, initializers and declarations of the graph keep their names.
func Rename(nodes []*Node, names map[string]string) {
	for _, n := range nodes {
		rename(n.Inputs, names)
		rename(n.Outputs, names)
		for _, a := range n.Attrs {
			if g, ok := a.(*Graph); ok {
				Rename(g.Nodes, names)
				for i := range g.Outputs {
					if to, ok := names[g.Outputs[i].Name]; ok {
						g.Outputs[i].Name = to
					}
				}
			}
		}
	}
}

func rename(list []string, names map[string]string) {
	for i, name := range list {
		if to, ok := names[name]; ok {
			list[i] = to
		}
	}
}
