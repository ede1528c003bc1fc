package grad

import (
	"slices"

	"assay/onnx"
)

// Packed weights are made floating-point one layer at a time, when the gradient of the layer's output is there, and are
// gone after the product. What makes them depends on that gradient: of constants alone the runtime would compute
// them when the session is opened, and keep them.

// Y = A W' + bias, W [N, K] packed in blocks along K: dA = dY W.
func matMulNBitsRule(c *call) []string {
	n, k := c.n.Int("N", 0), c.n.Int("K", 0)
	bits, block := c.n.Int("bits", 4), c.n.Int("block_size", 0)
	switch {
	case c.in(4) != "":
		return c.fail("wanted no g_idx")
	case n <= 0 || k <= 0 || bits != 4 && bits != 8 || block < 16 || block&(block-1) != 0:
		return c.fail("wanted N and K, bits of 4 or 8 and a block_size that is a power of two from 16 on, "+
			"have N %d, K %d, bits %d, block_size %d", n, k, bits, block)
	}
	g := make([]string, len(c.x))
	dy := c.dy[0]
	if c.needs(5) { // dbias = sum of dY's rows
		g[5] = dy
	}
	if !c.needs(0) {
		return g
	}
	blocks := (k + block - 1) / block
	nothing := c.none(dy)
	rows := c.add(c.Count(n), nothing)
	bytes := block * bits / 8
	b := c.Op("Reshape", c.x[1], c.add(c.Ints(n, blocks*bytes), nothing)) // B [N, blocks, bytes]
	inputs := []string{b, rows, c.shaped(c.x[2], n, blocks)}
	if zeros := c.in(3); zeros != "" {
		if t := c.value(zeros).Type; t != onnx.Uint8 {
			return c.fail("wanted packed zero points, uint8, have %v", t)
		}
		perRow := (blocks*bits + 7) / 8
		inputs = append(inputs, c.shaped(zeros, n, perRow))
		if blocks*bits%8 != 0 {
			// The CUDA kernel reads zero points as if rows were not filled up to bytes (ONNX Runtime 1.31.1). So rows have
			// one block more, any, which is cut off below.
			inputs[0] = c.OpA("Concat", attrs{"axis": 1}, b, c.Op("Slice", b, c.Ints(0), c.Ints(bytes), c.Ints(1)))
			inputs[2] = c.OpA("Concat", attrs{"axis": 1}, inputs[2], c.Op("Slice", inputs[2], c.Ints(0), c.Ints(1), c.Ints(1)))
			blocks++
		}
	}
	w := c.Node(microsoft, "GatherBlockQuantized", 1,
		attrs{"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}, inputs...)[0]
	g[0] = c.Op("MatMul", dy, c.cast(w, c.value(dy).Type))
	if blocks*block != k { // what fills up the last block
		g[0] = c.Op("Slice", g[0], c.Ints(0), c.Ints(k), c.Ints(-1))
	}
	return g
}

// shaped gives a constant a shape, which some models write flat. The runtime wants to know that of zero points.
func (c *call) shaped(x string, shape ...int64) string {
	if have, ok := c.value(x).Sizes(); ok && slices.Equal(have, shape) {
		return x
	}
	return c.Op("Reshape", x, c.Ints(shape...))
}

// none is an int64 vector of one zero that is known only when g is there: the sum of none of its elements.
func (c *call) none(g string) string {
	nothing := c.Op("Slice", c.Op("Reshape", g, c.Ints(-1)), c.Ints(0), c.Ints(0))
	return c.OpA("Cast", attrs{"to": onnx.Int64}, c.OpA("ReduceSum", attrs{"keepdims": 1}, nothing))
}

// Y = A W', W [N, K] row by row in blocks of one scale, two values a byte, the first one high: dA = dY W.
func matMulBnb4Rule(c *call) []string {
	n, k := c.n.Int("N", 0), c.n.Int("K", 0)
	kind, block := c.n.Int("quant_type", -1), c.n.Int("block_size", 0)
	if n <= 0 || k <= 0 || kind < 0 || kind > 1 || block < 2 || n*k%block != 0 || c.n.Int("transB", 1) != 1 {
		return c.fail("wanted transB = 1, N and K, quant_type 0 or 1, and N K a multiple of block_size; have N %d, K %d, "+
			"quant_type %d, block_size %d", n, k, kind, block)
	}
	dy := c.dy[0]
	nothing := c.none(dy)
	// One row for each byte: what its high half means, and its low half.
	pairs := make([]float32, 0, 512)
	for b := range 256 {
		pairs = append(pairs, onnx.Bnb4Values[kind][b>>4], onnx.Bnb4Values[kind][b&15])
	}
	bytes := c.Op("Reshape", c.x[1], c.add(c.Ints(n*k/2), nothing))
	w := c.Op("Gather", c.Floats([]int64{256, 2}, pairs...), c.OpA("Cast", attrs{"to": onnx.Int32}, bytes))
	w = c.Op("Mul", c.Op("Reshape", w, c.Ints(-1, block)), c.Op("Unsqueeze", c.x[2], c.Ints(1)))
	w = c.Op("Reshape", w, c.Ints(n, k))
	g := make([]string, len(c.x))
	g[0] = c.Op("MatMul", dy, c.cast(w, c.value(dy).Type))
	return g
}
