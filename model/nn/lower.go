package nn

import "assay/onnx"

// The fastest way to compute products with packed weights on the CPU (400 rows, a matrix of 5632 x 2048, blocks of
// 128): if the runtime may repack the weight in its own order, MatMulNBits takes as long as a float32 product,
// otherwise twice as long. Unpacking the weight to float32 first takes 1.3 times as long, and no memory. So scoring
// repacks, and a graph with a backward pass, which needs the weight in both directions, unpacks it to float32 layer
// by layer.

// PacksWeights reports whether a graph multiplies packed weights in the forward direction only.
func PacksWeights(m *onnx.Model) bool {
	found := false
	for _, n := range m.Nodes {
		switch {
		case n.Domain != Microsoft:
		case n.Op == "GatherBlockQuantized":
			return false
		case n.Op == "MatMulNBits":
			found = true
		}
	}
	return found
}

// LowerPacked replaces the products with packed weights in a graph with a backward pass. Every product unpacks its
// own float32 weight, which is freed afterwards.
func LowerPacked(m *onnx.Model) {
	backward := false
	for _, n := range m.Nodes {
		backward = backward || n.Domain == Microsoft && n.Op == "GatherBlockQuantized"
	}
	if !backward {
		return
	}
	b := onnx.Extend(m)
	nodes := m.Nodes
	m.Nodes = nil
	for _, n := range nodes {
		if n.Domain == Microsoft && n.Op == "MatMulNBits" {
			lower(b, n)
		} else {
			m.Nodes = append(m.Nodes, n)
		}
	}
}

// lower emits A W' for a node that [Graph.packedProduct] added.
func lower(b *onnx.Builder, n *onnx.Node) {
	out, in, bits, block := n.Int("N", 0), n.Int("K", 0), n.Int("bits", 4), n.Int("block_size", 0)
	blocks := (in + block - 1) / block
	x := n.Inputs[0]
	none := none(b, x)
	inputs := append([]string{
		b.Op("Reshape", n.Inputs[1], b.Op("Add", b.Ints(out, blocks*block*bits/8), none)),
		b.Op("Add", b.Count(out), none),
	}, n.Inputs[2:]...)
	w := b.Node(Microsoft, "GatherBlockQuantized", 1,
		onnx.Attrs{"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}, inputs...)[0]
	if blocks*block != in { // padding of the last block
		w = b.Op("Slice", w, b.Ints(0), b.Ints(in), b.Ints(1))
	}
	b.OpA("Gemm", onnx.Attrs{"transB": 1}, x, w)
	b.Last().Outputs = n.Outputs
}
