package grad

import (
	"slices"

	"assay/onnx"
)

// Packed weights are dequantized one layer at a time, when the gradient of the layer's output is available, and freed
// after the product. The nodes that dequantize them depend on that gradient: computed from constants only, the
// runtime would fold them when the session is opened, and keep the result.

// Y = A W' + bias, W [N, K] packed in blocks along K: dA = dY W.
func matMulNBitsRule(c *call) []string {
	n, k := c.n.Int("N", 0), c.n.Int("K", 0)
	bits, block := c.n.Int("bits", 4), c.n.Int("block_size", 0)
	switch {
	case c.in(4) != "":
		return c.fail("g_idx is not supported")
	case n <= 0 || k <= 0 || bits != 4 && bits != 8 || block < 16 || block&(block-1) != 0:
		return c.fail("needs N and K, bits 4 or 8 and a block_size that is a power of two and at least 16, "+
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
	bytes, perRow := block*bits/8, (blocks*bits+7)/8
	b := c.Op("Reshape", c.x[1], c.add(c.Ints(n, blocks*bytes), nothing)) // B [N, blocks, bytes]
	inputs := []string{b, c.Count(n), c.shaped(c.x[2], n, blocks), ""}
	switch zeros := c.in(3); {
	case zeros == "": // explicit: not all kernels of the runtime have had this default
		z := c.full(c.add(c.Ints(n, perRow), nothing), onnx.Uint8, middles(bits))
		inputs[3] = c.Op("Reshape", z, c.Ints(n, perRow))
	case c.value(zeros).Type != onnx.Uint8:
		return c.fail("needs packed uint8 zero points, have %v", c.value(zeros).Type)
	case blocks*bits%8 != 0:
		// The CUDA kernel reads zero points as if rows were not padded to full bytes (ONNX Runtime 1.31.1). So each
		// row gets one more, arbitrary block, which is cut off below.
		inputs[0] = c.OpA("Concat", attrs{"axis": 1}, b, c.Op("Slice", b, c.Ints(0), c.Ints(bytes), c.Ints(1)))
		inputs[2] = c.OpA("Concat", attrs{"axis": 1}, inputs[2], c.Op("Slice", inputs[2], c.Ints(0), c.Ints(1), c.Ints(1)))
		inputs[3] = c.shaped(zeros, n, perRow)
		blocks++
	default:
		inputs[3] = c.shaped(zeros, n, perRow)
	}
	w := c.Node(microsoft, "GatherBlockQuantized", 1,
		attrs{"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}, inputs...)[0]
	g[0] = c.Op("MatMul", dy, c.cast(w, c.value(dy).Type))
	if blocks*block != k { // cut off the padding of the last block
		g[0] = c.Op("Slice", g[0], c.Ints(0), c.Ints(k), c.Ints(-1))
	}
	return g
}

// middles returns a byte of packed values in the middle of their range, as a signed number.
func middles(bits int64) float64 {
	if bits == 4 {
		return 0x88 - 0x100
	}
	return 0x80 - 0x100
}

// shaped reshapes a constant that some models store flat. For zero points the runtime needs a known shape.
func (c *call) shaped(x string, shape ...int64) string {
	if have, ok := c.value(x).Sizes(); ok && slices.Equal(have, shape) {
		return x
	}
	return c.Op("Reshape", x, c.Ints(shape...))
}

// none returns an int64 vector of one zero that can only be computed after g: a size minus itself, which the host
// computes without waiting for a GPU. If all sizes are known the runtime would fold that: then it is the sum of none of
// g's elements.
func (c *call) none(g string) string {
	if _, known := c.value(g).Sizes(); !known {
		size := c.Op("Slice", c.Op("Shape", g), c.Ints(0), c.Ints(1))
		return c.Op("Sub", size, size)
	}
	nothing := c.Op("Slice", c.Op("Reshape", g, c.Ints(-1)), c.Ints(0), c.Ints(0))
	return c.OpA("Cast", attrs{"to": onnx.Int64}, c.OpA("ReduceSum", attrs{"keepdims": 1}, nothing))
}

// Y = A W', W [N, K] row by row in blocks of one scale, two values a byte, the first one high: dA = dY W.
func matMulBnb4Rule(c *call) []string {
	n, k := c.n.Int("N", 0), c.n.Int("K", 0)
	kind, block := c.n.Int("quant_type", -1), c.n.Int("block_size", 0)
	if n <= 0 || k <= 0 || kind < 0 || kind > 1 || block < 2 || n*k%block != 0 || c.n.Int("transB", 1) != 1 {
		return c.fail("needs transB = 1, N and K, quant_type 0 or 1, and N K a multiple of block_size; have N %d, K %d, "+
			"quant_type %d, block_size %d", n, k, kind, block)
	}
	dy := c.dy[0]
	nothing := c.none(dy)
	// One row for each byte: the values of its high and of its low half.
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
