package model

import (
	"assay/losses"
	"assay/onnx"
	"assay/onnx/grad"
)

// graphSpec says what a scoring or training graph holds.
type graphSpec struct {
	Vision    bool // pixels are inputs; otherwise the image features are
	Groups    int  // of sequences of equal length, see Packing
	Loss      bool // text and score loss, and gradients of all trained tensors
	AllRows   bool // text loss over all tokens: every row is selected
	Hidden    bool // the hidden state at the score token is an output
	PixelGrad bool // d score01 / d pixel_values is an output; needs Vision
	Recompute bool
	Dropout   bool
	TextLoss  float64 // weights of the two losses
	ScoreLoss float64
	Terms     []losses.Spec // instead of ScoreLoss
	Sums      bool          // gradients are added to sums: see residence
}

// Names of graph inputs and outputs that are not tensors of the checkpoint or the scorer.
const (
	inTextIDs       = "text_ids"       // [text tokens] int64: ordinary tokens, without placeholders and score tokens
	inFeatures      = "image_features" // [image tokens, feature width]
	inOrder         = "order"          // [rows] int64: row of concat(text rows, score rows, image rows) at each place
	inPositions     = "position_ids"   // [axes, rows] int64
	inScoreRows     = "score_rows"     // [examples] int64: selected rows that hold the score tokens
	inExampleWeight = "example_weight" // [examples]: of each example's loss
	inPredict       = "predict_rows"   // [targets] int64: selected rows that predict
	inTargets       = "target_ids"     // [targets] int64: ids predicted, at most V-1
	inTargetScore   = "target_score"   // [targets, 1] float: 1 where the target is the score token
	inTargetWeight  = "target_weight"  // [targets]: example weight / targets of the example
	outScore        = "score01"        // [examples]
	outHidden       = "hidden_score"   // [examples, hidden]
	outHead         = "head"           // [examples, head outputs]
	outNLL          = "token_nll"      // [targets]: -log softmax of each target
	outScoreLoss    = "score_loss"     // [examples]
	outLoss         = "loss"           // [1]: weighted sum
)

// built is a finished graph with the names that the caller needs.
type built struct {
	Model     *onnx.Model
	Params    []Param           // trained inputs
	Grads     map[string]string // parameter -> output
	Sums      bool              // gradients are added to sums instead
	PixelGrad string            // output name
	Sites     int               // LoRA layers with dropout
	Widest    int               // widest input among them

	packed bool            // weights are kept as the processor multiplies them: one row is as exact as many
	Bound  map[string]bool // inputs and outputs that lie in memory of the device
}

// buildGraph assembles embedding, vision tower, decoder, head and losses around g.
func buildGraph(g *Graph, b Architecture, head *HeadConfig, s graphSpec) (*built, error) {
	dec, keys := b.Decoder(), b.Keys()
	if s.Dropout {
		g.dropout = &dropout{}
	}
	ids := g.Input(inTextIDs, onnx.Int64, onnx.Dims("text_tokens"))
	order := g.Input(inOrder, onnx.Int64, onnx.Dims("rows"))
	p := newPacking(g, s.Groups, !s.AllRows)
	scoreRows := g.Input(inScoreRows, onnx.Int64, onnx.Dims("examples"))

	features := inFeatures
	if s.Vision {
		g.Scoped("vision", func() { features = b.Vision(g) })
	} else {
		g.Input(inFeatures, onnx.Float, onnx.Dims("image_tokens", dec.FeatureWidth()))
	}
	x := g.embed(keys, dec, p, ids, order, scoreRows, features)
	r := dec.Rotary(g)
	h := dec.Forward(g, x, r, p) // [selected, hidden]
	hs := g.OpA("Gather", onnx.Attrs{"axis": 0}, h, scoreRows)
	g.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
	z, score := head.Build(g, h) // of all selected rows: see packing.span
	z = g.OpA("Gather", onnx.Attrs{"axis": 0}, z, scoreRows)
	score = g.OpA("Gather", onnx.Attrs{"axis": 0}, score, scoreRows)

	out := &built{Grads: map[string]string{}}
	g.Output(outScore, score, onnx.Float, onnx.Dims("examples"))
	if s.Hidden {
		g.Output(outHidden, hs, onnx.Float, onnx.Dims("examples", dec.Hidden))
		g.Output(outHead, z, onnx.Float, onnx.Dims("examples", head.Outputs()))
	}
	if s.Loss {
		g.losses(keys, head, h, z, score, s)
	}
	if g.err != nil {
		return nil, g.err
	}
	out.Model, out.Params = g.M, g.Params
	if g.dropout != nil {
		out.Sites, out.Widest = g.dropout.sites, g.dropout.widest
	}
	return out, g.differentiate(out, s)
}

// embed returns the rows that enter the decoder [rows, hidden]: token embeddings, the score token's row (without
// scoreRows there is none), image features. What of the features is added behind layers becomes part of p.
func (g *Graph) embed(keys Keys, dec *Decoder, p *Packing, ids, order, scoreRows, features string) string {
	table, stored := g.embeddingTable(keys.Embedding)
	text := g.OpA("Gather", onnx.Attrs{"axis": 0}, table, ids)
	if stored != onnx.Float {
		text = g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, text)
	}
	parts := []string{text}
	if scoreRows != "" {
		row := g.Op("Unsqueeze", g.ScorerTensor("score_token.embedding"), g.Ints(0))
		row = g.Op("Expand", row, g.Shape(g.SizeOf(scoreRows, 0), dec.Hidden))
		parts = append(parts, row)
	}
	rows := func(parts ...string) string {
		return g.Pick(g.OpA("Concat", onnx.Attrs{"axis": 0}, parts...), order, 0)
	}
	if dec.Deepstack > 0 {
		n := 1 + dec.Deepstack
		blocks := g.Node("", "Split", n, onnx.Attrs{"axis": 1, "num_outputs": n}, features)
		words := g.SizeOf(text, 0)
		if scoreRows != "" {
			words = g.Op("Add", words, g.SizeOf(scoreRows, 0))
		}
		nothing := g.Op("Expand", g.Scalar(onnx.Float, 0), g.Shape(words, dec.Hidden))
		for _, block := range blocks[1:min(n, 1+dec.Layers)] {
			p.Deepstack = append(p.Deepstack, rows(nothing, block))
		}
		features = blocks[0]
	}
	return rows(append(parts, features)...)
}

// embeddingTable leaves the table in its stored type where that is wanted: rows are widened after they are gathered.
func (g *Graph) embeddingTable(key string) (table string, t onnx.DType) {
	t = g.compute
	if w, err := g.weights.Tensor(key); err == nil && g.lean && !g.own(key) {
		t = w.Type
	}
	return g.param(key, t), t
}

// losses adds per token -log softmax over the V+1 ids and per example score loss, and their weighted sum.
func (g *Graph) losses(keys Keys, head *HeadConfig, h, z, score string, s graphSpec) {
	predict := g.Input(inPredict, onnx.Int64, onnx.Dims("targets"))
	ids := g.Input(inTargets, onnx.Int64, onnx.Dims("targets"))
	isScore := g.Input(inTargetScore, onnx.Float, onnx.Dims("targets", 1))
	tokenWeight := g.Input(inTargetWeight, onnx.Float, onnx.Dims("targets"))

	hp := g.Pick(h, predict, 0)
	logits, own := g.logits(keys, hp, ids)
	row := g.Op("Unsqueeze", g.ScorerTensor("score_token.lm_head"), g.Ints(0))
	scoreLogit := g.OpA("Gemm", onnx.Attrs{"transB": 1}, hp, row) // [targets, 1]
	lse := g.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 1},
		g.OpA("Concat", onnx.Attrs{"axis": 1}, logits, scoreLogit), g.Ints(1))
	target := g.Op("Add", own, g.Op("Mul", isScore, g.Op("Sub", scoreLogit, own)))
	nll := g.Op("Squeeze", g.Op("Sub", lse, target), g.Ints(1))
	text := g.Op("Mul", g.weighted(nll, tokenWeight), g.Floats([]int64{1}, float32(s.TextLoss)))
	g.Output(outNLL, nll, onnx.Float, onnx.Dims("targets"))
	if len(s.Terms) > 0 {
		g.Output(outLoss, g.terms(text, head.output(z, score), s.Terms), onnx.Float, onnx.Dims(1))
		return
	}
	scoreLoss := head.Loss(g, z, score)
	weight := g.Input(inExampleWeight, onnx.Float, onnx.Dims("examples"))
	score = g.Op("Mul", g.weighted(scoreLoss, weight), g.Floats([]int64{1}, float32(s.ScoreLoss)))
	g.Output(outScoreLoss, scoreLoss, onnx.Float, onnx.Dims("examples"))
	g.Output(outLoss, g.Op("Add", text, score), onnx.Float, onnx.Dims(1))
}

// logits returns those of the rows hp [targets, hidden] over the V ids of the table, [targets, V], and those of the ids
// alone, [targets, 1]. The latter are a product of their own, so that no one-hot matrix of V columns is made.
func (g *Graph) logits(keys Keys, hp, ids string) (all, own string) {
	table := g.param(keys.Output, g.compute)
	all = g.wide(g.OpA("Gemm", onnx.Attrs{"transB": 1}, g.narrow(hp), table))
	picked := g.wide(g.OpA("Gather", onnx.Attrs{"axis": 0}, table, ids))
	return all, g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, g.Op("Mul", hp, picked), g.Ints(1))
}

// weighted returns the sum of v [n] times w [n], as [1].
func (g *Graph) weighted(v, w string) string {
	return g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, g.Op("Mul", v, w), g.Ints(0))
}

// differentiate appends the backward pass: of the loss to every trained input, or of the scores to the pixels.
func (g *Graph) differentiate(out *built, s graphSpec) error {
	o := grad.Options{Recompute: s.Recompute}
	switch {
	case s.PixelGrad:
		o.Outputs, o.Wrt = []string{outScore}, []string{inPixels}
	case s.Loss && len(g.Params) > 0:
		o.Outputs = []string{outLoss}
		for _, p := range g.Params {
			o.Wrt = append(o.Wrt, p.Name)
		}
	default:
		return nil
	}
	if s.Sums {
		grads, err := grad.Append(g.M, o)
		if err != nil {
			return err
		}
		out.Sums = true
		g.addSums(grads)
		return nil
	}
	var err error
	out.Grads, err = g.gradients(o)
	return err
}

// inPixels is the vision input of every family: its gradient is the pixel gradient.
const inPixels = "pixel_values"
