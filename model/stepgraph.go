package model

import (
	"slices"

	"assay/losses"
	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
)

// Names of further inputs and outputs of training steps.
const (
	inExampleWeight = "example_weight" // [examples]: of each example's loss
	outScoreLoss    = "score_loss"     // [examples]
)

// stepSpec defines what a training step contains.
type stepSpec struct {
	nn.BatchSpec
	Recompute bool
	Dropout   float64       // of the LoRA layers' inputs
	TextLoss  float64       // weights of the two losses
	ScoreLoss float64       //
	Terms     []losses.Spec // instead of ScoreLoss
	Sums      bool          // gradients are added to sums: see residence
}

// buildStep builds a training step: the passes, all heads, the text loss if the scorer has one, the score loss or the
// terms of the objective, and the backward pass. With several passes every edit has one sequence per pass, in any
// order; pass_rows of a pass locates the edits' sequences.
func (s *Scorer) buildStep(g *nn.Graph, spec stepSpec) (*nn.Program, error) {
	if spec.Dropout > 0 {
		g.UseDropout(spec.Dropout)
	}
	h, read := s.states(g, spec.BatchSpec)
	heads := map[string]losses.Head{}
	for k, q := range s.config.Passes {
		edits := func(x string) string { return x }
		if len(s.config.Passes) > 1 {
			rows := g.Input(passRows(k), onnx.Int64, onnx.Dims("edits"))
			edits = func(x string) string { return g.Pick(x, rows, 0) }
		}
		for _, name := range q.Heads {
			head := s.config.Heads[name]
			z, d := s.head(g, name, h, read)
			if name != "" {
				g.Output(headOutput(name), z, onnx.Float, onnx.Dims("examples", head.width()))
			}
			g.Output(scoreOutput(name), d, onnx.Float, onnx.Dims("examples"))
			z, d = edits(z), edits(d)
			heads[name] = losses.Head{Outputs: head.LossOutputs(), Z: head.scaled(g, z, d), Score: d, Values: head.Values}
		}
	}
	if _, unnamed := heads[""]; !unnamed && slices.ContainsFunc(spec.Terms, func(t losses.Spec) bool { return t.Fused }) {
		heads[""] = s.config.fuseHeads(g, heads)
	}
	sum := ""
	if s.config.TextLoss != "" {
		sum = textLoss(g, s.net.Backbone.Keys(), h, spec.TextLoss)
	}
	add := func(x string) {
		if sum != "" {
			x = g.Op("Add", sum, x)
		}
		sum = x
	}
	for i, t := range spec.Terms {
		if t.Over() == losses.Tokens {
			continue
		}
		name, _, err := s.config.HeadOf(&t)
		if err != nil {
			return nil, err
		}
		one, err := term(g, i, t, heads[name])
		if err != nil {
			return nil, err
		}
		add(one)
	}
	if len(spec.Terms) == 0 {
		add(scoreLoss(g, heads[""], spec.ScoreLoss))
	}
	g.Output(nn.OutLoss, sum, onnx.Float, onnx.Dims(1))
	out, err := g.Finish()
	if err != nil {
		return nil, err
	}
	return out, g.Differentiate(out, spec.Recompute, spec.Sums)
}

// textLoss is the weighted cross-entropy over the V ids and the score token, [1].
func textLoss(g *nn.Graph, keys nn.Keys, h string, weight float64) string {
	predict := g.Input(nn.InPredict, onnx.Int64, onnx.Dims("targets"))
	ids := g.Input(nn.InTargets, onnx.Int64, onnx.Dims("targets"))
	isScore := g.Input(batch.InTargetScore, onnx.Float, onnx.Dims("targets", 1))
	tokenWeight := g.Input(nn.InTargetWeight, onnx.Float, onnx.Dims("targets"))

	hp := g.Pick(h, predict, 0)
	logits, own := g.Logits(keys, hp, ids)
	row := g.Op("Unsqueeze", g.ScorerTensor("score_token.lm_head"), g.Ints(0))
	scoreLogit := g.OpA("Gemm", onnx.Attrs{"transB": 1}, hp, row) // [targets, 1]
	lse := g.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 1},
		g.OpA("Concat", onnx.Attrs{"axis": 1}, logits, scoreLogit), g.Ints(1))
	target := g.Op("Add", own, g.Op("Mul", isScore, g.Op("Sub", scoreLogit, own)))
	nll := g.Op("Squeeze", g.Op("Sub", lse, target), g.Ints(1))
	text := g.Op("Mul", g.Weighted(nll, tokenWeight), g.Floats([]int64{1}, float32(weight)))
	g.Output(nn.OutNLL, nll, onnx.Float, onnx.Dims("targets"))
	return text
}

// scoreLoss is the weighted sum [1] of the examples' losses. For a value: |score01 - label| for labels [n] on 0..1. For
// classes: the cross-entropy -log softmax(z)_class for one-hot classes [n, outputs].
func scoreLoss(g *nn.Graph, head losses.Head, by float64) string {
	var loss string
	if head.Outputs == losses.Classes {
		class := g.Input("label_class", onnx.Float, onnx.Dims("examples", len(head.Values)))
		logp := g.OpA("LogSoftmax", onnx.Attrs{"axis": -1}, head.Z)
		loss = g.Op("Neg", g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, g.Op("Mul", class, logp), g.Ints(1)))
	} else {
		loss = g.Op("Abs", g.Op("Sub", head.Score, g.Input("label", onnx.Float, onnx.Dims("examples"))))
	}
	weight := g.Input(inExampleWeight, onnx.Float, onnx.Dims("examples"))
	sum := g.Op("Mul", g.Weighted(loss, weight), g.Floats([]int64{1}, float32(by)))
	g.Output(outScoreLoss, loss, onnx.Float, onnx.Dims("examples"))
	return sum
}

// term adds term i on a head; its own parameters are trained.
func term(g *nn.Graph, i int, s losses.Spec, head losses.Head) (string, error) {
	sum, err := losses.Build(g.Builder, i, s, head, onnx.Float)
	for _, p := range losses.Parameters(i, &s) {
		g.Params = append(g.Params, nn.Param{Name: p.Name, Shape: []int64{int64(len(p.Value))}})
	}
	return sum, err
}
