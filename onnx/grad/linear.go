package grad

var linearRules = []entry{
	{op: "Gemm", rule: gemmRule},
	{op: "MatMul", broadcast: true, rule: matMulRule},
	{
		op:        "Einsum",
		broadcast: true,
		rule:      einsumRule,
		note:      "an ellipsis must be at the front of its term",
	},
	{op: "FusedMatMul", domain: microsoft, broadcast: true, rule: fusedMatMulRule, decompose: fusedMatMul},
	{
		op:                "MatMulNBits",
		domain:            microsoft,
		nonDifferentiable: []int{1, 2, 3, 4},
		broadcast:         true,
		rule:              matMulNBitsRule,
		note:              "the packed weight and its scales are constants; 4 and 8 bits, blocks of 16 or more, no g_idx",
	},
	{
		op:                "MatMulBnb4",
		domain:            microsoft,
		nonDifferentiable: []int{1, 2},
		rule:              matMulBnb4Rule,
		note:              "the packed weight is a constant; transB = 1",
	},
}

func (c *call) gemm(a, b string, transA, transB bool, alpha float32) string {
	at := attrs{}
	if transA {
		at["transA"] = 1
	}
	if transB {
		at["transB"] = 1
	}
	if alpha != 1 {
		at["alpha"] = alpha
	}
	return c.OpA("Gemm", at, a, b)
}

// Y = alpha A' B' + beta C, where ' transposes if the flag says so. Flags are toggled instead of transposing
// operands: one copy of a frozen weight serves both directions.
func gemmRule(c *call) []string {
	a, b, dy := c.x[0], c.x[1], c.dy[0]
	ta, tb, alpha := c.n.Int("transA", 0) != 0, c.n.Int("transB", 0) != 0, c.n.Float("alpha", 1)
	g := make([]string, 3)
	if c.needs(0) {
		if ta { // A: dA = alpha B' dY'
			g[0] = c.gemm(b, dy, tb, true, alpha)
		} else { // dA = alpha dY B''
			g[0] = c.gemm(dy, b, false, !tb, alpha)
		}
	}
	if c.needs(1) {
		if tb { // dB = alpha dY' A'
			g[1] = c.gemm(dy, a, true, ta, alpha)
		} else { // dB = alpha A'' dY
			g[1] = c.gemm(a, dy, !ta, false, alpha)
		}
	}
	if c.needs(2) { // dC = beta dY; only C may be broadcast
		g[2] = c.e.unbroadcast(c.scale(dy, float64(c.n.Float("beta", 1))), c.x[2])
	}
	return g[:len(c.x)]
}

// Y = A B: dA = dY B', dB = A' dY. A vector is a matrix with one row (A) or column (B).
func matMulRule(c *call) []string {
	a, b, dy := c.x[0], c.x[1], c.dy[0]
	ra, rb := c.rank(a), c.rank(b)
	if c.err != nil {
		return nil
	}
	if rb == 2 && ra >= 2 { // all rows of A together: products of two matrices, without B' in memory
		rows := func(t, like string, axis int) string {
			if ra == 2 {
				return t
			}
			return c.reshape(t, -1, c.size(like, axis))
		}
		g := make([]string, 2)
		flat := rows(dy, b, 1)
		if c.needs(0) {
			g[0] = c.gemm(flat, b, false, true, 1)
			if ra > 2 {
				g[0] = c.reshapeLike(g[0], a)
			}
		}
		if c.needs(1) {
			g[1] = c.gemm(rows(a, b, 0), flat, true, false, 1)
		}
		return g
	}
	row, column := a, b
	if rb == 1 {
		column, dy = c.unsqueeze(b, 1), c.unsqueeze(dy, -1)
	}
	if ra == 1 {
		row, dy = c.unsqueeze(a, 0), c.unsqueeze(dy, -2)
	}
	g := make([]string, 2)
	if c.needs(0) {
		g[0] = c.Op("MatMul", dy, c.swapLastAxes(column))
	}
	if c.needs(1) {
		g[1] = c.Op("MatMul", c.swapLastAxes(row), dy)
		if rb == 1 {
			g[1] = c.squeeze(g[1], -1)
		}
	}
	return g
}

// Y = alpha A B or, with transB, alpha A B': dA = alpha dY B' or alpha dY B, dB = alpha A' dY or alpha dY' A. The
// factor needs no separate pass. For stacks of equally many matrices.
func fusedMatMulRule(c *call) []string {
	a, b, dy := c.x[0], c.x[1], c.dy[0]
	for _, flag := range []string{"transA", "transBatchA", "transBatchB"} {
		if c.n.Int(flag, 0) != 0 {
			return nil
		}
	}
	if r := c.value(a).Rank(); r < 2 || r != c.value(b).Rank() {
		return nil
	}
	alpha, transB := c.n.Float("alpha", 1), c.n.Int("transB", 0)
	product := func(a, b string, transA, transB int64) string {
		return c.Node(microsoft, "FusedMatMul", 1, attrs{"transA": transA, "transB": transB, "alpha": alpha}, a, b)[0]
	}
	g := make([]string, 2)
	if c.needs(0) {
		g[0] = product(dy, b, 0, 1-transB)
	}
	switch {
	case !c.needs(1):
	case transB != 0:
		g[1] = product(dy, a, 1, 0)
	default:
		g[1] = product(a, dy, 1, 0)
	}
	return g
}

// fusedMatMul: alpha A' B' with the last two axes transposed as the flags say.
func fusedMatMul(c *call) []string {
	a, b := c.x[0], c.x[1]
	if c.n.Int("transBatchA", 0) != 0 || c.n.Int("transBatchB", 0) != 0 {
		return c.fail("needs transBatchA = transBatchB = 0")
	}
	if c.n.Int("transA", 0) != 0 {
		a = c.swapLastAxes(a)
	}
	if c.n.Int("transB", 0) != 0 {
		b = c.swapLastAxes(b)
	}
	return []string{c.scale(c.Op("MatMul", a, b), float64(c.n.Float("alpha", 1)))}
}
