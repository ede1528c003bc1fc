package nn

import (
	"cmp"
	"slices"

	"assay/onnx"
)

// hostInputs are those from which sizes of values, and bounds of slices, are computed.
var hostInputs = []string{inLengths, inSelectEach, inOffsets, InCacheLength}

// SizesOnHost makes ONNX Runtime compute sizes on the host. It places nodes there that read the shape of a value, but
// nodes that read an integer input on the GPU, whose results it then waits for. So a zero is added to these inputs that
// is made from a shape.
func SizesOnHost(m *onnx.Model) {
	i := slices.IndexFunc(m.Inputs, func(in onnx.ValueInfo) bool { return len(in.Shape) > 0 && !in.Shape[0].Known() })
	if i < 0 { // the runtime knows all shapes, and would fold the zero
		return
	}
	b, zero, n := onnx.Extend(m), "", len(m.Nodes)
	onHost := map[string]string{}
	for _, in := range m.Inputs {
		if !slices.Contains(hostInputs, in.Name) {
			continue
		}
		if zero == "" {
			size := b.OpA("Shape", onnx.Attrs{"start": 0, "end": 1}, m.Inputs[i].Name)
			zero = b.Op("Sub", size, size)
		}
		onHost[in.Name] = b.Op("Add", in.Name, zero)
	}
	for _, node := range m.Nodes[:n] {
		for i, x := range node.Inputs {
			node.Inputs[i] = cmp.Or(onHost[x], x)
		}
	}
	m.Nodes = slices.Concat(m.Nodes[n:], m.Nodes[:n])
}

// RepeatableSums replaces the sums of all rows of a matrix by products with a row of ones. For them ONNX Runtime's CUDA
// kernel adds the sums of its blocks atomically: in any order, and in the type of the result (with bfloat16, a rounding
// each). Gradients of biases and norms are such sums.
func RepeatableSums(m *onnx.Model) {
	if !slices.ContainsFunc(m.Nodes, func(n *onnx.Node) bool { return n.Op == "ReduceSum" }) {
		return
	}
	types, err := onnx.Infer(m)
	if err != nil { // the runtime will report it
		return
	}
	b, nodes := onnx.Extend(m), m.Nodes
	m.Nodes = nil
	for _, n := range nodes {
		shape := summedRows(n, types)
		if shape == nil {
			m.Nodes = append(m.Nodes, n)
			continue
		}
		rows, x := n.Inputs[0], types.Of(n.Inputs[0])
		if len(x.Shape) > 2 {
			rows = b.Op("Reshape", rows, b.Ints(-1, onnx.Elements(shape)))
		}
		row := b.OpA("Concat", onnx.Attrs{"axis": 0}, b.Ints(1), b.OpA("Shape", onnx.Attrs{"start": 0, "end": 1}, rows))
		ones := b.Op("Expand", b.Scalar(x.Type, 1), row)
		b.Op("Reshape", b.Op("MatMul", ones, rows), b.Ints(shape...))
		b.Last().Outputs = n.Outputs
	}
}

// summedRows returns the shape of the result of a node that sums all rows, if the number of rows is not known; nil: it
// does something else. The number of a matrix's columns may be -1.
func summedRows(n *onnx.Node, types *onnx.Types) []int64 {
	if n.Op != "ReduceSum" || n.Domain != "" || len(n.Inputs) < 2 {
		return nil
	}
	x := types.Of(n.Inputs[0])
	axes, known := types.Of(n.Inputs[1]).Known()
	if !known || !x.Ranked || !x.Type.IsFloat() || len(axes) >= len(x.Shape) {
		return nil
	}
	fixed := true // the number of rows
	for i, axis := range axes {
		if fixed = fixed && x.Shape[i].Known(); axis != int64(i) {
			return nil
		}
	}
	shape, ok := types.Of(n.Outputs[0]).Sizes()
	switch {
	case fixed:
		return nil
	case ok:
		return shape
	case len(x.Shape) == 2 && n.Int("keepdims", 1) == 1:
		return []int64{1, -1}
	case len(x.Shape) == 2:
		return []int64{-1}
	}
	return nil
}
