package nn

import "assay/onnx"

// A loss over all tokens has a logit for every row and every id: 6.9 GB for 11,360 rows and 152,000 ids, and its
// gradient takes as much again. Only the log-sum-exp of each row is needed, lse = log sum_v exp(h w_v), and in a step
// its gradient d lse / d h = softmax(h W') W. A Scan over chunks of rows computes both while the chunk's logits are
// in memory, so that the backward pass only scales rows (as in Liger's fused linear cross-entropy, arXiv 2410.10989).
// If the table is trained, its gradient depends on the incoming gradient: the rule of Scan recomputes a chunk's
// logits.

// chunkBytes limits the size of a chunk's logits, in float32.
const chunkBytes = 256 << 20

// ChunkRows returns the number of rows whose logits over vocab ids are computed at once.
func ChunkRows(vocab int) int { return max(chunkBytes/4/max(vocab, 1)/64*64, 64) }

// The rows of a chunk are a multiple of chunkUnit, so that each chunk starts at a multiple of 16 bytes.
const chunkUnit = 4

// logSumExps returns the log-sum-exp of the logits of each row of h [rows, hidden] over the V ids of the table,
// [rows, 1]. In a graph without a backward pass, best is the most likely id of each row, [rows] int64.
func (g *Graph) logSumExps(keys Keys, h string, backward bool) (lse, best string) {
	trained := g.own(keys.Output)
	table := ""
	if trained { // the gradient accumulates in float32
		table = g.Param(keys.Output)
	} else {
		table = g.param(keys.Output, g.Compute)
	}
	w, err := g.weights.Tensor(keys.Output)
	if err != nil {
		return g.fail("%w", err), "error"
	}
	hidden, most := w.Shape[1], g.LossRows
	if most == 0 {
		most = ChunkRows(int(w.Shape[0]))
	}
	up := func(a, b string) string { return g.Op("Div", g.Op("Sub", g.Op("Add", a, b), g.Ints(1)), b) }
	rows := g.SizeOf(h, 0)
	count := g.Op("Max", up(rows, g.Ints(int64(most))), g.Ints(1))
	size := g.Op("Max", g.Op("Mul", up(up(rows, count), g.Ints(chunkUnit)), g.Ints(chunkUnit)), g.Ints(chunkUnit))
	filled := g.Op("Sub", g.Op("Mul", count, size), rows)
	zeros := g.Op("Expand", g.Scalar(onnx.Float, 0), g.Shape(filled, int(hidden)))
	x := g.OpA("Concat", onnx.Attrs{"axis": 0}, h, zeros)
	x = g.Op("Reshape", x, g.Shape(count, size, int(hidden)))
	outputs := 1
	body := g.Body("chunk", func() {
		x := g.Narrow(g.Input(g.Name("h"), onnx.Float, onnx.Dims(-1, int(hidden))))
		if trained {
			table = g.Narrow(table)
		}
		logits := g.Wide(g.OpA("Gemm", onnx.Attrs{"transB": 1}, x, table))
		lse := g.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 1}, logits, g.Ints(1))
		lse = g.Op("Reshape", lse, g.Shape(g.SizeOf(x, 0), 1)) // fixes the shape, also of the gradient
		g.Output(g.Name("lse"), lse, onnx.Float, onnx.Dims(-1, 1))
		switch {
		case !backward:
			outputs++
			best := g.OpA("ArgMax", onnx.Attrs{"axis": 1, "keepdims": 0}, logits)
			g.Output(g.Name("best"), best, onnx.Int64, onnx.Dims(-1))
		case !trained:
			outputs++
			soft := g.Narrow(g.Op("Exp", g.Op("Sub", logits, lse)))
			g.Output(g.Name("derivative"), g.Op("Gemm", soft, table), g.Compute, onnx.Dims(-1, int(hidden)))
		}
	})
	y := g.Node("", "Scan", outputs, onnx.Attrs{"body": body, "num_scan_inputs": 1}, x)
	if backward && !trained {
		g.Last().Meta = map[string]string{onnx.MetaDerivative: "true"}
	}
	if !backward {
		best = g.Op("Slice", g.Op("Reshape", y[1], g.Ints(-1)), g.Ints(0), rows)
	}
	return g.Op("Slice", g.Op("Reshape", y[0], g.Ints(-1, 1)), g.Ints(0), rows, g.Ints(0)), best
}
