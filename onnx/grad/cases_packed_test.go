package grad

import "assay/onnx"

// bytes is a constant of random bytes.
func (g *gen) bytes(shape ...int64) string {
	count := int64(1)
	for _, d := range shape {
		count *= d
	}
	v := make([]float64, count)
	for i := range v {
		v[i] = float64(g.rng.IntN(256))
	}
	return g.b.Numbers(onnx.Uint8, shape, v...)
}

// steps is a constant of scales.
func (g *gen) steps(shape ...int64) string {
	count := int64(1)
	for _, d := range shape {
		count *= d
	}
	v := make([]float64, count)
	for i := range v {
		v[i] = 0.02 * (0.3 + g.rng.Float64())
	}
	return g.b.Numbers(onnx.Float, shape, v...)
}

// packedMatrix is a packed matrix [n, k] of the given bits and block size, with or without zero points (in one row if
// flat) and bias.
type packedMatrix struct {
	n, k, bits, block int64
	zeros, flat, bias bool
}

func packedCases() []opCase {
	nbits := func(m packedMatrix, a func(g *gen) string) opCase {
		return opCase{op: "com.microsoft.MatMulNBits", from: 13, single: true, static: m.bias, build: func(g *gen) {
			n, k, bits, block := m.n, m.k, m.bits, m.block
			blocks := (k + block - 1) / block
			perRow := (blocks*bits + 7) / 8
			inputs := []string{a(g), g.bytes(n, blocks, block*bits/8), g.steps(n, blocks)}
			switch {
			case m.zeros && m.flat:
				inputs[2] = g.steps(n * blocks)
				inputs = append(inputs, g.bytes(n*perRow))
			case m.zeros:
				inputs = append(inputs, g.bytes(n, perRow))
			}
			if m.bias {
				for len(inputs) < 5 {
					inputs = append(inputs, "")
				}
				inputs = append(inputs, g.x(n))
			}
			g.nodes(microsoft, "MatMulNBits", 1, at{"N": n, "K": k, "bits": bits, "block_size": block}, inputs...)
		}}
	}
	bnb := func(kind int64) opCase {
		return opCase{op: "com.microsoft.MatMulBnb4", from: 13, single: true, build: func(g *gen) {
			const n, k, block = 6, 24, 16
			g.nodes(microsoft, "MatMulBnb4", 1, at{"N": n, "K": k, "quant_type": kind, "block_size": block, "transB": 1},
				g.x(2*g.k, k), g.bytes(n*k/2), g.steps(n*k/block))
		}}
	}
	matrix := func(k int64) func(g *gen) string { return func(g *gen) string { return g.x(3*g.k, k) } }
	return []opCase{
		nbits(packedMatrix{n: 5, k: 32, bits: 4, block: 16}, matrix(32)),
		nbits(packedMatrix{n: 6, k: 40, bits: 4, block: 16, zeros: true}, matrix(40)),
		nbits(packedMatrix{n: 4, k: 48, bits: 4, block: 16, zeros: true, flat: true, bias: true},
			func(g *gen) string { return g.x(2, g.k, 48) }),
		nbits(packedMatrix{n: 3, k: 20, bits: 8, block: 16, zeros: true, bias: true}, matrix(20)),
		nbits(packedMatrix{n: 3, k: 32, bits: 8, block: 32}, matrix(32)),
		bnb(0),
		bnb(1),
	}
}
