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

func packedCases() []opCase {
	nbits := func(n, k, bits, block int64, zeros, flat, bias bool, a func(g *gen) string) opCase {
		return opCase{op: "com.microsoft.MatMulNBits", from: 13, single: true, static: bias, build: func(g *gen) {
			blocks := (k + block - 1) / block
			perRow := (blocks*bits + 7) / 8
			inputs := []string{a(g), g.bytes(n, blocks, block*bits/8), g.steps(n, blocks)}
			switch {
			case zeros && flat:
				inputs[2] = g.steps(n * blocks)
				inputs = append(inputs, g.bytes(n*perRow))
			case zeros:
				inputs = append(inputs, g.bytes(n, perRow))
			}
			if bias {
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
		nbits(5, 32, 4, 16, false, false, false, matrix(32)),
		nbits(6, 40, 4, 16, true, false, false, matrix(40)),
		nbits(4, 48, 4, 16, true, true, true, func(g *gen) string { return g.x(2, g.k, 48) }),
		nbits(3, 20, 8, 16, true, false, true, matrix(20)),
		nbits(3, 32, 8, 32, false, false, false, matrix(32)),
		bnb(0),
		bnb(1),
	}
}
