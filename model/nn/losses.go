package nn

import (
	"assay/onnx"
	"assay/onnx/grad"
)

// Names of the additional inputs and outputs of graphs with losses: see states.go for the others.
const (
	InPredict      = "predict_rows"  // [targets] int64: selected rows that predict
	InTargets      = "target_ids"    // [targets] int64: ids predicted, at most V-1
	InTargetWeight = "target_weight" // [targets]: example weight / targets of the example
	OutNLL         = "token_nll"     // [targets]: -log softmax of each target
)

// Logits returns the logits of the rows hp [targets, hidden] over the V ids of the table, [targets, V], and of the
// rows' own ids only, [targets, 1]. In chunks, all is the log-sum-exp of a row's logits, [targets, 1], which replaces
// them in a further log-sum-exp.
func (g *Graph) Logits(keys Keys, hp, ids string) (all, own string) {
	if g.Variant.Chunks {
		all, _ = g.logSumExps(keys, hp, true)
	} else {
		all = g.Wide(g.OpA("Gemm", onnx.Attrs{"transB": 1}, g.Narrow(hp), g.param(keys.Output, g.Compute)))
	}
	return all, g.logitsOf(keys, hp, ids)
}

// logitsOf returns the logit of one id for each row of hp [targets, hidden], [targets, 1]. It is a separate product,
// which avoids a one-hot matrix of V columns.
func (g *Graph) logitsOf(keys Keys, hp, ids string) string {
	picked := g.Wide(g.OpA("Gather", onnx.Attrs{"axis": 0}, g.param(keys.Output, g.Compute), ids))
	return g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, g.Op("Mul", hp, picked), g.Ints(1))
}

// NLL returns -log softmax of the target ids of the rows hp [targets, hidden], [targets]. In a graph without a
// backward pass, best is the most likely id of each row, [targets] int64.
func (g *Graph) NLL(keys Keys, hp, ids string, backward bool) (nll, best string) {
	if g.Variant.Chunks {
		var lse string
		lse, best = g.logSumExps(keys, hp, backward)
		return g.Op("Squeeze", g.Op("Sub", lse, g.logitsOf(keys, hp, ids)), g.Ints(1)), best
	}
	logits, own := g.Logits(keys, hp, ids)
	lse := g.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 1}, logits, g.Ints(1))
	nll = g.Op("Squeeze", g.Op("Sub", lse, own), g.Ints(1))
	if !backward {
		best = g.OpA("ArgMax", onnx.Attrs{"axis": 1, "keepdims": 0}, logits)
	}
	return nll, best
}

// Weighted returns the sum of v [n] times w [n], as [1].
func (g *Graph) Weighted(v, w string) string {
	return g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, g.Op("Mul", v, w), g.Ints(0))
}

// Differentiate appends the backward pass from the loss to every trained input. With recompute it recomputes all
// layers, or the first RecomputeFirst if that is set. With sums, gradients are added to sums.
func (g *Graph) Differentiate(out *Program, recompute, sums bool) (err error) {
	if len(g.Params) == 0 {
		return nil
	}
	o := grad.Options{Recompute: recompute, Outputs: []string{OutLoss}}
	if n := g.RecomputeFirst; n != nil {
		o.Recompute, o.Segments = *n > 0, *n
	}
	for _, p := range g.Params {
		o.Wrt = append(o.Wrt, p.Name)
	}
	if !sums {
		out.Grads, err = g.gradients(o)
		return err
	}
	grads, err := grad.Append(g.M, o)
	if err != nil {
		return err
	}
	out.Sums = true
	g.addSums(grads)
	return nil
}

// CrossEntropy adds -log softmax over the V ids of every target, and their weighted sum, the loss; h [rows, hidden]
// are the states. Without a backward pass it returns the most likely id of each target, [targets] int64.
func (g *Graph) CrossEntropy(keys Keys, h string, backward bool) (best string) {
	predict := g.Input(InPredict, onnx.Int64, onnx.Dims("targets"))
	targets := g.Input(InTargets, onnx.Int64, onnx.Dims("targets"))
	weight := g.Input(InTargetWeight, onnx.Float, onnx.Dims("targets"))
	nll, best := g.NLL(keys, g.Pick(h, predict, 0), targets, backward)
	g.Output(OutNLL, nll, onnx.Float, onnx.Dims("targets"))
	g.Output(OutLoss, g.Weighted(nll, weight), onnx.Float, onnx.Dims(1))
	return best
}
