package nn

import (
	"assay/onnx"
)

// Names of inputs of graphs with a [Policy] loss, besides those of the cross-entropy.
const (
	InAdvantage = "advantage"     // [targets]: of the answer that the target belongs to
	InOldLogP   = "old_log_prob"  // [targets]: by the model that generated the answers
	InBaseLogP  = "base_log_prob" // [targets]: by the model without its adapter
)

// Policy is the loss of answers by their advantages, over their tokens (GRPO, arXiv 2402.03300, eq. 3):
//
//	-min(r A, clip(r, 1 - EpsilonLow, 1 + EpsilonHigh) A) + Beta (exp(d) - d - 1)
//
// where r = p / p_old, and d = log p_base - log p.
type Policy struct {
	Temperature             float64 // logits are divided by it
	Beta                    float64 // weight of the divergence from the base; 0: the base is not used
	EpsilonLow, EpsilonHigh float64
	OnPolicy                bool // the answers are from the current model: r is 1, and p_old is not an input
}

// LogProbs adds -log softmax of every target at a temperature as [OutNLL], and returns it [targets]; h [rows, hidden]
// are the states.
func (g *Graph) LogProbs(keys Keys, h string, temperature float64, backward bool) (nll string) {
	predict := g.Input(InPredict, onnx.Int64, onnx.Dims("targets"))
	targets := g.Input(InTargets, onnx.Int64, onnx.Dims("targets"))
	hp := g.Pick(h, predict, 0)
	if temperature != 1 { // the output layer has no bias
		hp = g.Op("Mul", hp, g.Floats([]int64{1}, float32(1/temperature)))
	}
	nll, _ = g.NLL(keys, hp, targets, backward)
	g.Output(OutNLL, nll, onnx.Float, onnx.Dims("targets"))
	return nll
}

// PolicyLoss adds the weighted sum of p over all targets, the loss. If the ratio is 1, -A log p has the same gradient.
func (g *Graph) PolicyLoss(keys Keys, h string, p Policy) {
	nll := g.LogProbs(keys, h, p.Temperature, true)
	advantage := g.Input(InAdvantage, onnx.Float, onnx.Dims("targets"))
	weight := g.Input(InTargetWeight, onnx.Float, onnx.Dims("targets"))
	loss := g.Op("Mul", advantage, nll)
	if !p.OnPolicy {
		old := g.Input(InOldLogP, onnx.Float, onnx.Dims("targets"))
		ratio := g.Op("Exp", g.Op("Neg", g.Op("Add", nll, old)))
		low := g.Floats([]int64{}, float32(1-p.EpsilonLow))
		high := g.Floats([]int64{}, float32(1+p.EpsilonHigh))
		clipped := g.Op("Mul", g.Op("Clip", ratio, low, high), advantage)
		loss = g.Op("Neg", g.Op("Min", g.Op("Mul", ratio, advantage), clipped))
	}
	if p.Beta != 0 {
		d := g.Op("Add", g.Input(InBaseLogP, onnx.Float, onnx.Dims("targets")), nll)
		k3 := g.Op("Sub", g.Op("Sub", g.Op("Exp", d), d), g.Floats([]int64{1}, 1))
		loss = g.Op("Add", loss, g.Op("Mul", k3, g.Floats([]int64{1}, float32(p.Beta))))
	}
	g.Output(OutLoss, g.Weighted(loss, weight), onnx.Float, onnx.Dims(1))
}
