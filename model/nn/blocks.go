package nn

import (
	"math"

	"assay/onnx"
)

// The scores of all rows by all rows are the largest values of a graph: 32 heads of 5,760 rows take 4 GB in each
// layer. A long sequence is therefore attended to in blocks of queries, one after the other, each over the keys that
// it may see. This is a Scan whose body is ordinary attention. The backward pass is also a Scan, which recomputes a
// block's scores and softmax. P = softmax(S), dV += P' dY, dP = dY V'. dS = P (dP - rowsum(dY Y)), dQ = dS K, dK +=
// dS' Q.

const (
	// BlocksFrom is the length in rows from which a sequence is attended to in blocks. This depends only on the
	// sequence, so its score is the same in any batch.
	BlocksFrom = 1536
	// ScoresInBlocksFrom is the same limit for scoring with a model that is not small. Scores for keys after a block
	// are not computed; with AVX-512 the runtime's softmax takes four times as long on masked ones. Training steps
	// attend in pieces at these lengths.
	ScoresInBlocksFrom = 512
	// blockScores limits the rows of a block: heads * rows is at most blockScores, so a block of a sequence of n rows
	// has 16 n KiB of scores.
	blockScores = 4096
	// maxBlockRows and minBlockRows also limit the rows of a block.
	maxBlockRows, minBlockRows = 512, 64
	// The rows of a block are a multiple of blockUnit, so that each block starts at a multiple of 16 bytes.
	blockUnit = 4
)

// Blocks is a requested number of rows per block; 0: the default.
type Blocks int

// From returns the length in rows from which a sequence is attended to in blocks.
func (b Blocks) From() int {
	if b > 0 {
		return 2 * int(b)
	}
	return BlocksFrom
}

// rows returns the approximate number of queries per block.
func (b Blocks) rows(heads int) int64 {
	if b > 0 {
		return int64(b)
	}
	return int64(min(max(blockScores/heads, minBlockRows), maxBlockRows))
}

// queries are consecutive query rows of a sequence: the position of the first, their number, and the length of the
// full sequence, [1] int64 each. The length determines the blocks, so a row is in the same block wherever its
// sequence is cut.
type queries struct{ first, rows, length string }

// overBlocks attends from queries [sequences, rows, kv, rep, dim] in blocks of equal size, and returns
// [sequences*rows, kv*rep*dim]. attend becomes the body of a Scan. It gets queries [sequences, kv, rep*size, dim] at
// the positions rows() [size], the last of which is before end [], for which a GPU waits. It returns a value of the
// same shape. The padding of the last block has positions after the end of the sequences.
func (g *Graph) overBlocks(
	q string, at queries, kv, rep, dim int, attend func(q, end string, rows func() string) string,
) string {
	up := func(a, b string) string { return g.Op("Div", g.Op("Sub", g.Op("Add", a, b), g.Ints(1)), b) }
	count := up(at.length, g.Ints(g.Blocks.rows(kv*rep)))
	size := g.Op("Mul", up(up(at.length, count), g.Ints(blockUnit)), g.Ints(blockUnit))
	begin, behind := g.Op("Mul", g.Op("Div", at.first, size), size), g.Op("Add", at.first, at.rows)
	// Including the padding of the first and the last block.
	whole := g.Op("Sub", g.Op("Mul", up(behind, size), size), begin)
	front := g.Op("Sub", at.first, begin)
	back := g.Op("Sub", whole, g.Op("Add", front, at.rows))
	q = g.padRows(q, front, back, kv, rep, dim)
	q = g.Op("Reshape", q, g.Shape(0, g.Op("Div", whole, size), size, kv, rep, dim))
	q = g.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0, 3, 4, 2, 5}}, q) // [blocks, sequences, kv, rep, size, dim]
	q = g.Op("Reshape", q, g.Ints(0, 0, int64(kv), -1, int64(dim)))
	step := g.Op("Squeeze", size)
	first := g.Op("Add", g.Op("Squeeze", begin), step)
	ends := g.Op("Range", first, g.Op("Add", first, g.Op("Squeeze", whole)), step)
	body := g.Body("block", func() {
		end := g.Input(g.Name("end"), onnx.Int64, onnx.Dims())
		q := g.Input(g.Name("q"), g.Compute, onnx.Dims(-1, kv, -1, dim))
		y := attend(q, end, func() string { return g.Op("Range", g.Op("Sub", end, step), end, g.Int(1)) })
		y = g.Op("Reshape", y, g.Op("Shape", q)) // fixes the shape, also of the gradient
		g.Output(g.Name("y"), y, g.Compute, onnx.Dims(-1, kv, -1, dim))
	})
	y := g.OpA("Scan", onnx.Attrs{"body": body, "num_scan_inputs": 2}, ends, q)
	y = g.Op("Reshape", y, g.Shape(0, 0, kv, rep, size, dim))
	y = g.OpA("Transpose", onnx.Attrs{"perm": []int{1, 0, 4, 2, 3, 5}}, y) // [sequences, blocks, size, kv, rep, dim]
	y = g.Op("Reshape", y, g.Shape(0, whole, kv*rep*dim))
	if g.Compute == onnx.Float {
		y = g.Op("Slice", y, front, g.Op("Add", front, at.rows), g.Ints(1))
	} else { // the gradient of Slice is Pad: see padRows
		y = g.Node("", "Split", 3, onnx.Attrs{"axis": 1}, y, g.Shape(front, at.rows, back))[1]
	}
	return g.Op("Reshape", y, g.Ints(-1, int64(kv*rep*dim)))
}

// padRows pads q [sequences, rows, kv, rep, dim] with rows of zeros, front before it and back after it.
func (g *Graph) padRows(q, front, back string, kv, rep, dim int) string {
	if g.Compute == onnx.Float {
		return g.Op("Pad", q, g.Shape(0, front, 0, 0, 0, 0, back, 0, 0, 0))
	}
	zeros := func(rows string) string { // the CUDA provider has no Pad in bfloat16
		return g.zeros(g.SizeOf(q, 0), rows, kv, rep, dim)
	}
	return g.OpA("Concat", onnx.Attrs{"axis": 1}, zeros(front), q, zeros(back))
}

// zeros returns zeros in the type of the products; see [Graph.Shape].
func (g *Graph) zeros(shape ...any) string {
	return g.Op("Expand", g.Scalar(g.Compute, 0), g.Shape(shape...))
}

// attendInBlocks attends from rows of sequences to themselves and the rows before them: q [sequences, rows, kv, rep,
// dim], k and v [sequences, kv, length, dim] -> [sequences*rows, kv*rep*dim]. added returns the mask [1, 1, rep*r, c]
// that is added to the scores of the rows at positions [1, 1, r, 1] over the first positions [c].
func (a *SelfAttention) attendInBlocks(
	g *Graph, q, k, v string, at queries, added func(rows, columns string) string,
) string {
	attend := func(q, end string, positions func() string) string {
		rows, end := positions(), g.Op("Unsqueeze", end, g.Ints(0))
		// Reshapes state which sizes are equal: otherwise the backward pass would look for broadcast axes at run
		// time.
		before := func(x string, length any) string {
			if g.Compute == onnx.Float {
				x = g.Op("Slice", x, g.Ints(0), end, g.Ints(2))
			} else { // as above
				size := g.SizeOf(x, 2)
				end := g.Op("Min", end, size) // the padding of the last block is after it
				behind := g.Op("Sub", size, end)
				x = g.Node("", "Split", 2, onnx.Attrs{"axis": 2}, x, g.Shape(end, behind))[0]
			}
			return g.Op("Reshape", x, g.Shape(g.SizeOf(q, 0), a.KVHeads, length, a.HeadDim))
		}
		k := before(k, -1)
		length := g.SizeOf(k, 2)
		columns := g.Op("Range", g.Int(0), g.Op("Squeeze", length), g.Int(1))
		mask := added(g.Op("Reshape", rows, g.Ints(1, 1, -1, 1)), columns)
		mask = g.Op("Reshape", mask, g.Shape(1, 1, g.SizeOf(q, 2), length))
		scores := g.scores(q, k, a.scale())
		prob := g.OpA("Softmax", onnx.Attrs{"axis": -1}, g.Op("Add", scores, mask))
		return g.Op("MatMul", prob, before(v, length))
	}
	return g.overBlocks(q, at, a.KVHeads, a.Heads/a.KVHeads, a.HeadDim, attend)
}

// AttendWhole is [Graph.Attend] over whole pictures, in blocks if they are long.
func (g *Graph) AttendWhole(q, k, v, mask string, heads, dim int) string {
	if !g.Variant.Pictures {
		return g.Attend(q, k, v, mask, heads, dim)
	}
	scale := 1 / math.Sqrt(float64(dim))
	q = g.Op("Reshape", g.scaleQueries(q, scale), g.Ints(0, 0, int64(heads), 1, int64(dim)))
	k, v = g.heads(k, heads, dim, 0, 2, 3, 1), g.heads(v, heads, dim, 0, 2, 1, 3)
	length := g.SizeOf(k, 3)
	return g.overBlocks(q, queries{g.Ints(0), length, length}, heads, 1, dim, func(q, _ string, _ func() string) string {
		n := g.SizeOf(q, 0) // as above
		k := g.Op("Reshape", k, g.Shape(n, heads, dim, -1))
		mask := g.Op("Reshape", mask, g.Shape(n, 1, 1, g.SizeOf(k, 3)))
		prob := g.OpA("Softmax", onnx.Attrs{"axis": -1}, g.Op("Add", g.turnedScores(q, k, scale), mask))
		return g.Op("MatMul", prob, g.Op("Reshape", v, g.Shape(n, heads, g.SizeOf(k, 3), dim)))
	})
}
