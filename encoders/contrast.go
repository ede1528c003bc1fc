package encoders

import (
	"math"

	"assay/model/nn"
	"assay/onnx"
)

// Names of what a contrastive loss reads and gives.
const (
	// [n, n] float, added to the logits: 0, or apart where a row and a column are no negatives of each other
	inMasked    = "masked"
	inPartner   = "partner"  // [n] int64: the other view of each row's picture
	inRowWeight = "weight"   // [n] float, of each row's loss
	outLogits   = "logits"   // [n, n], without what is masked
	outRowLoss  = "row_loss" // [n]
	outLoss     = "loss"     // [1], the weighted sum
	logitScale  = "logit_scale"
)

// apart takes a pair out of a softmax. It is finite so that a masked logit has a gradient of 0 and not of NaN.
const apart = -1e9

// Temperature divides the similarities of two views' embeddings in the NT-Xent loss.
const Temperature = 0.1

// clipLoss adds the symmetric InfoNCE loss of CLIP (Radford et al. 2021, figure 3) of pictures a and texts b, [n,
// width], row by row a pair:
//
//	l = exp(logit_scale) a/|a| (b/|b|)' + masked
//	row_loss_i = (logsumexp_j l_ij + logsumexp_j l_ji)/2 - l_ii
func clipLoss(g *nn.Graph, a, b string) {
	a, b = unit(g, a), unit(g, b)
	a = g.Op("Mul", a, g.Op("Exp", g.Param(logitScale)))
	logits := similarities(g, a, b)
	both := g.Op("Add", logSum(g, logits, 1), logSum(g, logits, 0))
	contrast(g, g.Op("Mul", both, g.Scalar(onnx.Float, 0.5)), dot(g, a, b))
}

// viewLoss adds SimCLR's NT-Xent loss (Chen et al. 2020, equation 1) of views z [n, width]; masked must keep a row from
// itself:
//
//	l = z/|z| (z/|z|)'/Temperature + masked
//	row_loss_i = logsumexp_j l_ij - l_i,partner(i)
func viewLoss(g *nn.Graph, z string) {
	z = unit(g, z)
	scaled := g.Op("Mul", z, g.Scalar(onnx.Float, 1/Temperature))
	other := g.Pick(z, g.Input(inPartner, onnx.Int64, onnx.Dims("n")), 0)
	contrast(g, logSum(g, similarities(g, scaled, z), 1), dot(g, scaled, other))
}

// similarities returns a b' + masked [n, n], and declares it as an output.
func similarities(g *nn.Graph, a, b string) string {
	l := g.OpA("Gemm", onnx.Attrs{"transB": 1}, a, b)
	l = g.Op("Add", l, g.Input(inMasked, onnx.Float, onnx.Dims("n", "n")))
	g.Output(outLogits, l, onnx.Float, onnx.Dims("n", "n"))
	return l
}

// contrast declares the loss of every row, all - own, and their weighted sum.
func contrast(g *nn.Graph, all, own string) {
	loss := g.Op("Sub", all, own)
	g.Output(outRowLoss, loss, onnx.Float, onnx.Dims("n"))
	weighted := g.Op("Mul", loss, g.Input(inRowWeight, onnx.Float, onnx.Dims("n")))
	g.Output(outLoss, g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, weighted, g.Ints(0)), onnx.Float, onnx.Dims(1))
}

// unit divides rows by their lengths.
func unit(g *nn.Graph, x string) string {
	return g.Op("Div", x, g.OpA("ReduceL2", onnx.Attrs{"keepdims": 1}, x, g.Ints(1)))
}

func logSum(g *nn.Graph, x string, axis int64) string {
	return g.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 0}, x, g.Ints(axis))
}

func dot(g *nn.Graph, a, b string) string {
	return g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, g.Op("Mul", a, b), g.Ints(1))
}

// maskOf lays out a mask.
func maskOf(n int, masked func(i, j int) bool) []float32 {
	m := make([]float32, n*n)
	for i := range n {
		for j := range n {
			if masked(i, j) {
				m[i*n+j] = apart
			}
		}
	}
	return m
}

// firsts tells of every row whether its partner has the highest logit.
func firsts(logits []float32, partner []int64) []bool {
	n := len(partner)
	found := make([]bool, n)
	for i, p := range partner {
		best := float32(math.Inf(-1))
		for j, v := range logits[i*n : (i+1)*n] {
			if v > best {
				best, found[i] = v, int64(j) == p
			}
		}
	}
	return found
}
